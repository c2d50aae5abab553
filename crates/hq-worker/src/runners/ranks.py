# How a function gets its ranks. The interpreter that the worker starts has a launcher of the MPI that mpi4py uses start one for
# each rank. Each becomes a runner (see runner.py), to which rank 0 is what the worker is to rank 0. Needs Python 3.8 and mpi4py.
# What goes over the sockets is described in docs/reference/runner-protocol.md.


def ranks_main():
    import inspect
    import os
    import pickle
    import select
    import signal
    import socket
    import struct
    import sys
    import threading
    import time

    CALL = 1
    READY, DONE, SPENT, LEAVES = 1, 2, 5, 6
    IS_PREPARED, HAS_OWN_WORLD, GATHERS = 1, 16, 32
    VALUE, STORED = 0, 6
    TASK_DIR, ENVIRONMENT, PUT, RANKS = 7, 8, 10, 12
    STDOUT, STDERR, STDOUT_LOST, STDERR_LOST = 1, 2, 3, 4
    RESULT_MAX = 16384
    PRINTED_ROOM = RESULT_MAX - 29
    # After a rank has failed the others have so long to come back, in seconds.
    GRACE = 5
    # Communicators of calls that are made together, at most.
    STOCK_MAX = 32
    # How long ranks on other nodes look away, in seconds, and rank 0 until it hears that one of them has failed.
    FAR_PAUSE, FAR_ALARM = 0.005, 0.2
    CALLS, ENDS, ALARMS = 1, 2, 3
    BOOTSTRAP = "import os;exec(compile(os.environ['HQ_RUNNER_PROGRAM'],'<hq runner>','exec'))"
    HEAD = struct.Struct("<IBQBBQQQQII")

    door, _, token = os.environ["HQ_RUNNER"].rpartition(":")

    def come(path, words):
        line = socket.socket(socket.AF_UNIX)
        line.connect(path)
        line.sendall(words)
        return line

    def read(line, count):
        data = bytearray()
        while len(data) < count:
            part = line.recv(min(count - len(data), 1 << 20))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def read_frame(line):
        head = read(line, 5)
        return head + read(line, int.from_bytes(head[:4], "little"))

    def frame(kind, body):
        return struct.pack("<IB", len(body), kind) + body

    def launch(launcher):
        # Becomes the launcher; returns why that cannot be.
        try:
            import mpi4py

            mpi4py.rc.initialize = False
            from mpi4py import MPI

            library = MPI.Get_library_version().split("\n")[0].rstrip("\0")
        except Exception as error:
            return f"mpi4py cannot be used by {sys.executable}: {error}. Install it there: pip install mpi4py"
        words = ["hq", "task", "mpirun", "--library", library, "--beside", sys.executable]
        words += ["--launcher", launcher] if launcher else []
        try:
            os.execv(os.environ["HQ"], [*words, "--", sys.executable, "-c", BOOTSTRAP])
        except OSError as error:
            return f"{os.environ['HQ']} cannot be started from {sys.executable}: {error}"

    def watched():
        # The rank is a child of this process, which says how it has died, whatever has happened to it.
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            try:
                import ctypes

                ctypes.CDLL(None).prctl(1, signal.SIGKILL)
            except Exception:
                # It is found by its variables, then.
                pass
            return writer
        os.close(writer)
        os.set_blocking(reader, False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, lambda number, _: os.kill(child, number))
        _, status = os.waitpid(child, 0)
        number, code = (os.WTERMSIG(status), 0) if os.WIFSIGNALED(status) else (0, os.WEXITSTATUS(status))
        try:
            said = os.read(reader, 64)
        except BlockingIOError:
            said = b""
        rank, has_rank, is_end = said.partition(b" ")
        if has_rank and not is_end:
            try:
                come(door, token.encode() + b"D" + struct.pack("<IBB", int(rank), number, code))
            except OSError:
                # On another node, or the worker is gone.
                pass
        os._exit(128 + number if number else code or (0 if is_end or not has_rank else 1))

    def own_memory():
        # What MPI has named in shared memory: it stays there when this process is killed.
        names = set()
        with open("/proc/self/maps", "rb") as maps:
            for line in maps:
                path = line.split(maxsplit=5)[-1].strip()
                if path.startswith(b"/dev/shm/") and not path.endswith(b" (deleted)"):
                    names.add(path[len("/dev/shm/") :])
        return [name for name in names if b"/" not in name]

    def split(body, count):
        # A call, as each rank gets it.
        number, flags, parts_count, code = struct.unpack_from("<QBBI", body)
        at, parts = 14 + 4 * parts_count, []
        for length in struct.unpack_from("<%dI" % parts_count, body, 14):
            parts.append(body[at : at + length])
            at += length
        environment, blocks, at = parts[ENVIRONMENT], [], 0
        while at < len(parts[RANKS]):
            (length,) = struct.unpack_from("<I", parts[RANKS], at)
            blocks.append(parts[RANKS][at + 4 : at + 4 + length])
            at += 4 + length
        parts[RANKS] = b""
        bodies = []
        for rank in range(count):
            if rank == 1:
                # Rank 0 makes directories, and writes what is kept.
                parts[TASK_DIR] = parts[PUT] = b""
            parts[ENVIRONMENT] = environment + (blocks[rank] if rank < len(blocks) else b"")
            lengths = struct.pack("<%dI" % parts_count, *map(len, parts))
            bodies.append(struct.pack("<QBBI", number, flags & ~IS_PREPARED, parts_count, code) + lengths + b"".join(parts))
        return number, bodies

    class Row:
        # How a call has ended on a rank.
        def __init__(self, data):
            _, _, self.number, self.status, self.code, *self.usage, size, _ = HEAD.unpack_from(data)
            self.result, self.text = data[HEAD.size : HEAD.size + size], data[HEAD.size + size :]
            self.has_failed = self.status not in (VALUE, STORED)

        def frame(self):
            size = HEAD.size - 5 + len(self.result) + len(self.text)
            head = HEAD.pack(size, DONE, self.number, self.status, self.code, *self.usage, len(self.result), len(self.text))
            return head + self.result + self.text

        def parts(self):
            # Parts by kind, and what comes after them.
            parts, at = {}, 0
            if self.result[:1] == b"E":
                at = 1
                while at < len(self.result) and self.result[at] != 0x80:
                    kind, length = struct.unpack_from("<BH", self.result, at)
                    parts[kind] = self.result[at + 3 : at + 3 + length]
                    at += 3 + length
            return parts, self.result[at:]

    def with_printed(row, rows):
        # What all ranks have printed goes with the end that is told, rank by rank.
        found = [other.parts()[0] for other in rows]
        if not any(parts.get(kind) for parts in found for kind in (STDOUT, STDERR)) or row.result[:1] not in (b"E", b"\x80"):
            return
        own, rest = row.parts()
        for kind in (STDOUT, STDERR, STDOUT_LOST, STDERR_LOST):
            own.pop(kind, None)
        base = b"".join(struct.pack("<BH", kind, len(data)) + data for kind, data in own.items())
        texts, lost = [], []
        for kind, lost_kind in ((STDOUT, STDOUT_LOST), (STDERR, STDERR_LOST)):
            printed = [parts.get(kind, b"") for parts in found]
            # Each begins in a line of its own.
            ends = [text + b"\n" if text and text[-1:] != b"\n" and any(printed[i + 1 :]) else text for i, text in enumerate(printed)]
            texts.append(b"".join(ends))
            lost.append(sum(int.from_bytes(parts.get(lost_kind, b""), "little") for parts in found))
        room = PRINTED_ROOM - len(base) - len(rest) - 1
        if room < 0:
            return
        kept = min(len(texts[1]), max(room // 2, room - len(texts[0])))
        cuts = (min(len(texts[0]), room - kept), kept)
        for at, kind, lost_kind in ((0, STDOUT, STDOUT_LOST), (1, STDERR, STDERR_LOST)):
            text = texts[at][len(texts[at]) - cuts[at] :]
            gone = lost[at] + len(texts[at]) - len(text)
            if text:
                base += struct.pack("<BH", kind, len(text)) + text
            if gone:
                base += struct.pack("<BHQ", lost_kind, 8, gone)
        row.result = b"E" + base + rest

    def drain(comm):
        status = MPI.Status()
        while comm.Iprobe(status=status):
            data = bytearray(status.Get_count(MPI.BYTE))
            comm.Recv([data, MPI.BYTE], status.source, status.tag)

    class Ranks:
        # What a runner knows of its world.
        def __init__(self, rank, size, problem):
            self.rank, self.size, self.problem = rank, size, problem
            self.stock, self.used, self.flags, self.takes, self.Gathered = [], [], 0, {}, Gathered
            self.prefix = b"[rank %d] " % rank
            self.group = MPI.COMM_WORLD.Get_group() if problem is None else None

        def begin(self, flags):
            # Rank 0 is ready: what it empties or makes is empty and there before the others begin.
            self.flags = flags
            if not self.rank:
                self.connection.call_others()
            if os.environ.get("HQ_PIN") == "taskset":
                try:
                    os.sched_setaffinity(0, {int(cpu) for cpu in os.environ["HQ_CPUS"].split(",")})
                except (KeyError, ValueError, OSError):
                    pass

        def check(self):
            # No later call can be better.
            if self.problem is not None:
                self.connection.sendall(frame(SPENT, b""))
                raise RuntimeError(self.problem)

        def write(self, stream, text):
            # Each line that begins has the number of the rank.
            lines = text.split(b"\n")
            named = [self.prefix + line if line and (at or stream.begins) else line for at, line in enumerate(lines)]
            stream.begins = text[-1:] == b"\n"
            left = memoryview(b"\n".join(named))
            while left:
                left = left[stream.write_plain(left) :]
            return len(text)

        def name(self, trace):
            return "On rank %d of %d:\n%s" % (self.rank, self.size, trace)

        def note(self, error):
            if hasattr(error, "add_note"):
                error.add_note("raised on rank %d of %d" % (self.rank, self.size))

        def communicator(self):
            # Each call has one that no other has had. They are made some at a time: that all ranks have to be there for it costs
            # more than the rest where there are not as many CPUs.
            if self.flags & HAS_OWN_WORLD:
                return MPI.COMM_WORLD
            if not self.stock:
                count = min(2 * len(self.used) or 1, STOCK_MAX)
                # What was sent and not received would be found by those that MPI makes in their places.
                MPI.COMM_WORLD.Barrier()
                for used in self.used:
                    drain(used)
                    used.Free()
                self.used = [MPI.COMM_WORLD.Create_group(self.group) for _ in range(count)]
                self.stock = self.used[::-1]
            return self.stock.pop()

        def how(self, function):
            # How a function takes its communicator.
            found = self.takes.get(id(function))
            if found is None or found[0] is not function:
                try:
                    parameter = inspect.signature(function).parameters.get("comm")
                except (TypeError, ValueError):
                    parameter = None
                found = self.takes[id(function)] = function, None if parameter is None else parameter.kind
            return found[1]

        def invoke(self, invoke, function, args, kwargs):
            kind = self.how(function)
            comm = None if kind is None else self.communicator()
            if kind == inspect.Parameter.POSITIONAL_ONLY:
                args = (*args, comm)
            elif kind is not None and "comm" not in kwargs:
                kwargs = {**kwargs, "comm": comm}
            value = invoke(function, args, kwargs)
            return self.connection.gathered(value) if self.flags & GATHERS and not self.rank else value

        def returned(self, value, pack):
            # What a rank says that is not the first: it goes no further than there.
            return b"E" + pack(value)[0] if self.flags & GATHERS else b"E"

    class Gathered(Exception):
        pass

    def become(program, connection, ranks):
        ranks.connection = connection
        for name in ("HQ_RUNNER", "HQ_RUNNER_PROGRAM"):
            os.environ.pop(name, None)
        given = {"connection": connection, "receive": connection.receive, "_hq_ranks": ranks}
        exec(compile(program, "<hq runner>", "exec"), given)

    class Hub:
        # The line of rank 0: to the worker, and to all other ranks.
        def __init__(self, line, names, lines, alarms, far=None):
            self.line, self.lines, self.alarms, self.far = line, lines, alarms, far
            self.ready = bytearray(struct.pack("<I", len(names)) + names)
            self.lock = threading.Lock()
            self.number, self.failure, self.deadline, self.is_over, self.rows = 0, None, None, False, None
            self.bodies, self.codes = [], b""
            self.wakes, self.wake = os.pipe()
            if lines:
                threading.Thread(target=self.watch, daemon=True).start()

        def recvmsg(self, *sizes):
            # The queue of calls is that of rank 0.
            return self.line.recvmsg(*sizes)

        def receive(self, count):
            while len(self.ready) < count:
                self.take()
            return self.recv(count)

        def recv(self, count):
            while not self.ready:
                self.take()
            data = bytes(self.ready[:count])
            del self.ready[:count]
            return data

        def take(self):
            data = read_frame(self.line)
            if data[4] != CALL:
                self.codes += data
                self.ready += data
                return
            number, bodies = split(data[5:], len(self.lines) + 1)
            with self.lock:
                self.number, self.rows = number, None
            self.bodies = bodies[1:]
            self.ready += frame(CALL, bodies[0])

        def call_others(self):
            # A rank looks for the number of a call first.
            before = struct.pack("<Q", self.number) + self.codes
            for line, body in zip(self.lines, self.bodies):
                line.sendall(before + frame(CALL, body))
            self.bodies, self.codes = [], b""

        def end_others(self):
            for line in self.lines:
                try:
                    line.sendall(bytes(8))
                except OSError:
                    # That rank has died.
                    pass

        def sendall(self, data):
            if data[4] != DONE:
                self.line.sendall(data)
                return
            own = Row(data)
            if own.has_failed and self.rows is None:
                self.fails(0, own)
                os.write(self.wake, b"!")
            rows = [own, *(self.rows or self.collected())]
            with self.lock:
                if not self.is_over:
                    self.line.sendall(self.merged(rows).frame())
                    self.number, self.failure, self.deadline = 0, None, None
                    return
            self.wait_for_end()

        def merged(self, rows):
            failed = [(rank, row) for rank, row in enumerate(rows) if row.has_failed]
            # Rank 0 that gathered nothing has not failed by itself.
            first = self.failure or next((one for one in failed if one[0] or self.rows is None), None)
            end = rows[0] if first is None else named(*first)
            with_printed(end, rows)
            wall, *_ = rows[0].usage
            user, system, peak = (sum(row.usage[at] for row in rows) for at in (1, 2, 3))
            end.usage = [wall, user, system, peak]
            return end

        def collected(self):
            if self.bodies:
                # It has not come to that.
                return []
            try:
                return [Row(read_frame(line)) for line in self.lines]
            except (EOFError, OSError):
                # A rank has died, which its parent tells the worker.
                self.wait_for_end()

        def wait_for_end(self):
            time.sleep(4 * GRACE)
            os._exit(1)

        def gathered(self, value):
            rows = self.collected()
            self.rows = rows
            if any(row.has_failed for row in rows):
                raise Gathered
            return [value, *(pickle.loads(row.parts()[1]) for row in rows)]

        def fails(self, rank, row):
            with self.lock:
                if row.number == self.number and self.failure is None:
                    self.failure, self.deadline = (rank, row), time.monotonic() + GRACE

        def watch(self):
            # Others may wait for ever for a rank that has failed, and rank 0 may be one of them.
            poller = select.poll()
            poller.register(self.wakes, select.POLLIN)
            alarms = {line.fileno(): (rank, line) for rank, line in enumerate(self.alarms, 1) if line}
            for descriptor in alarms:
                poller.register(descriptor, select.POLLIN)
            while True:
                deadline = self.deadline
                wait = None if deadline is None else max(0, deadline - time.monotonic()) * 1000 + 1
                if self.far is not None:
                    wait = FAR_ALARM * 1000 if wait is None else min(wait, FAR_ALARM * 1000)
                    while self.far.iprobe(tag=ALARMS):
                        status = MPI.Status()
                        data = self.far.recv(None, tag=ALARMS, status=status)
                        self.fails(status.source, Row(data))
                for descriptor, _ in poller.poll(wait):
                    if descriptor == self.wakes:
                        os.read(self.wakes, 64)
                        continue
                    rank, line = alarms[descriptor]
                    try:
                        self.fails(rank, Row(read_frame(line)))
                    except (EOFError, OSError):
                        poller.unregister(descriptor)
                with self.lock:
                    if self.deadline is not None and time.monotonic() >= self.deadline and not self.is_over:
                        self.is_over = True
                        end = named(*self.failure)
                        with_printed(end, [end])
                        self.line.sendall(frame(SPENT, b"") + end.frame())

    def named(rank, row):
        row.text = b"rank %d: %s" % (rank, row.text)
        return row

    class Far:
        # A line between ranks on different nodes, by MPI: without using a CPU while nothing comes.
        def __init__(self, control, peer, out, back):
            self.control, self.peer, self.out, self.back, self.ready = control, peer, out, back, b""

        def sendall(self, data):
            self.control.send(bytes(data), self.peer, self.out)

        def recv(self, count):
            pause = 0.0001
            while not self.ready:
                if self.control.iprobe(self.peer, self.back):
                    self.ready = self.control.recv(None, self.peer, self.back)
                    break
                time.sleep(pause)
                pause = min(2 * pause, FAR_PAUSE)
            data, self.ready = self.ready[:count], self.ready[count:]
            return data

    class Spoke:
        # The line of another rank.
        def __init__(self, line, alarm):
            self.line, self.alarm = line, alarm

        def receive(self, count):
            return read(self.line, count)

        def recv(self, count):
            return self.line.recv(count)

        def sendall(self, data):
            if data[4] == DONE:
                if Row(data).has_failed:
                    self.alarm.sendall(data)
                self.line.sendall(data)

    def worker():
        # Its line, the program of runners, and the names of variables of tasks.
        line = come(door, token.encode() + b"R")
        texts = [read(line, int.from_bytes(read(line, 4), "little")) for _ in range(2)]
        return (line, *texts)

    def hub():
        # Rank 0 is where the others come; those on other nodes do not find it.
        line, program, names = worker()
        path = door + "-ranks"
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen(2 * size)
        world.bcast((program, names, path))
        found = world.gather((own_memory(), True))
        lines = [None] * (2 * size)
        for _ in range(2 * (sum(is_here for _, is_here in found) - 1)):
            other, _ = listener.accept()
            place = int.from_bytes(read(other, 4), "little")
            lines[place] = other
        os.unlink(path)
        listener.close()
        control = world.Dup() if world.bcast(None in lines[2:]) else None
        for place in range(2, 2 * size, 2):
            if lines[place] is None:
                lines[place] = Far(control, place // 2, CALLS, ENDS)
        made = Hub(line, names, lines[2::2], lines[3::2], control)
        made.memory = b"\0".join({name for memory, is_here in found if is_here for name in memory})
        for other in made.lines:
            other.sendall(struct.pack("<I", len(names)) + names)
        return program, made

    def spoke():
        program, names, path = world.bcast(None)
        try:
            lines = [come(path, struct.pack("<I", 2 * rank + channel)) for channel in (0, 1)]
        except OSError:
            lines = []
        world.gather((own_memory(), bool(lines)))
        if world.bcast(None):
            control = world.Dup()
            lines = lines or [Far(control, 0, ENDS, CALLS), Far(control, 0, ALARMS, CALLS)]
        return program, Spoke(*lines)

    launcher = os.environ.pop("HQ_RUNNER_LAUNCHER", None)
    problem = None if launcher is None else launch(launcher)
    if problem is not None:
        line, program, names = worker()
        become(program, Hub(line, names, [], []), Ranks(0, 1, problem))
        return
    wanted = int(os.environ.get("HQ_NUM_NODES") or 1) * int(os.environ.get("HQ_RANKS_PER_NODE") or 1)
    parent = watched()
    rank, size, problem = 0, 1, None
    try:
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        rank, size = world.rank, world.size
        if size != wanted:
            library = MPI.Get_library_version().split("\n")[0].rstrip("\0")
            problem = (
                f"{wanted} ranks were started, and mpi4py sees {size}: it uses {library}. Have them started by the launcher of "
                "that MPI: `hq task mpirun --list` shows those that are found"
            )
    except Exception as error:
        problem = f"{wanted} ranks were started, and mpi4py does not work there: {error}"
    if problem is None:
        os.write(parent, b"%d " % rank)
        program, connection = spoke() if rank else hub()
    else:
        try:
            line, program, names = worker()
        except (EOFError, OSError):
            # Another one has said it.
            return
        # It stands for all of them.
        rank, connection = 0, Hub(line, names, [], [])
        connection.memory = b""
    if not rank and connection.memory:
        connection.sendall(frame(LEAVES, connection.memory))
    become(program, connection, Ranks(rank, size, problem))
    if not rank:
        connection.end_others()
    if problem is None:
        os.write(parent, b"end")


ranks_main()

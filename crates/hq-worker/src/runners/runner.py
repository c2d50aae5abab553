# Calls functions for a worker of hq, one after the other, until the worker is gone. Needs Python 3.8 and nothing else.
# Descriptor 0 was a socket, which the line that reads this has put into `connection`. What goes over it is described
# in docs/reference/runner-protocol.md.


def main(connection, receive):
    import collections
    import errno
    import fcntl
    import io
    import json
    import os
    import pickle
    import resource
    import signal
    import socket
    import struct
    import sys
    import threading
    import time
    import traceback

    VERSION = 4
    # What it exits with when a function has closed the connection.
    CLOSED = 113
    CALL, CODE, GO_ON = 1, 3, 4
    READY, DONE, WAITS, WANTS, WORN = 1, 2, 3, 4, 7
    IS_PREPARED, HAS_ENTRY, ENTRY_IS_JSON, IS_PACKED = 1, 2, 4, 8
    VALUE, RAISED, NOT_LOADED, NOT_TOLD, NOT_STARTED, TOO_LARGE, STORED, NOT_STORED = range(8)
    PIECE = 65536
    RESULT_MAX = 16384
    TEXT_MAX = 2048
    NAME_MAX = 256
    TRACE_MAX = 6144
    HELD_MAX = 200 * 33
    PRINTED_MAX = 4096
    CAPTURE_MAX = 1 << 20
    CALLS_FEW = 100
    # Parts of what a packed call leaves behind.
    STDOUT, STDERR, STDOUT_LOST, STDERR_LOST, FAILURE, TYPE, TEXT, TRACEBACK, OBJECT, HELD, VALUE_OF = range(1, 12)
    dump_value, write_value, load_value = _hq_value_files()
    note, put_back = _hq_keeping()
    is_worn = _hq_recycling()

    nowhere = os.open(os.devnull, os.O_RDWR)
    # Of one that is a rank of a world; see ranks.py.
    ranks = globals().get("_hq_ranks")
    is_first = ranks is None or not ranks.rank
    state = {"runs": False, "number": 0, "waits": False, "is_lost": False, "submit_dir": None, "printed": 0, "used": (0, 0, 0), "kept": None}
    loaded = {}
    # Values of these are told as they are, and belong to nobody else.
    PLAIN = {type(None), bool, int, float, str, bytes}

    def say(kind, body):
        connection.sendall(struct.pack("<IB", len(body), kind) + body)

    unread = [b"", 0]

    def has_read(count):
        # From where in the stream there are so many bytes. All is taken that is there.
        data, at = unread
        if len(data) - at >= count:
            return at
        data = data[at:]
        if count > PIECE:
            data += receive(count - len(data))
        while len(data) < count:
            piece = connection.recv(PIECE)
            if not piece:
                raise EOFError
            data += piece
        unread[:] = data, 0
        return 0

    frame_head, number_of = struct.Struct("<IB").unpack_from, struct.Struct("<Q").unpack_from
    # In the order of their numbers. They begin when it is their turn.
    told_calls = collections.deque()

    def hear():
        # A frame. Code is kept for the calls that name it.
        data, at = unread
        if len(data) - at < 5:
            at = has_read(5)
            data = unread[0]
        length, kind = frame_head(data, at)
        end = at + 5 + length
        if len(data) < end:
            end = has_read(5 + length) + 5 + length
            data = unread[0]
        body = data[end - length : end]
        unread[1] = end
        if kind == CALL:
            told_calls.append((number_of(body)[0], body))
        elif kind == CODE:
            codes[struct.unpack_from("<I", body)[0]] = body[4:]
        return kind, body

    def hear_call(number):
        while True:
            while not told_calls:
                hear()
            told, body = told_calls.popleft()
            # Those before it were taken back.
            if told == number:
                return body

    def receive_queue():
        # The socket from which numbers of calls are taken: whoever takes one has it, and the worker takes back what has not begun.
        _, received, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(4))
        descriptor = int.from_bytes(received[0][2][:4], sys.byteorder)
        os.set_inheritable(descriptor, False)
        return socket.socket(fileno=descriptor)

    def is_to_end(number, frame):
        if state["runs"]:
            raise KeyboardInterrupt
        # Between two calls there is nothing to interrupt, and a call that is on its way is meant to be over.
        os._exit(128 + number)

    main_thread = threading.get_ident()

    def waits():
        # The call waits for what others return, which may need its CPUs. False when it does not lend them.
        if ranks is not None or not state["runs"] or state["waits"] or threading.get_ident() != main_thread or os.getpid() != own:
            return False
        state["waits"] = True
        say(WAITS, struct.pack("<Q", state["number"]))
        return True

    def goes_on():
        # Returns when the call has CPUs again.
        state["waits"] = False
        try:
            say(WANTS, struct.pack("<Q", state["number"]))
            while hear() != (GO_ON, struct.pack("<Q", state["number"])):
                pass
        except BaseException:
            # It was interrupted in the middle of what it was told: no further call is understood.
            state["is_lost"] = True
            raise

    # Processes that a function forks are not runners: the signals that interrupt calls end them, as they end others. One that
    # comes between must not be lost, nor be taken as before.
    interrupts = {signal.SIGTERM, signal.SIGINT}

    def is_child():
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts)

    os.register_at_fork(
        before=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, interrupts),
        after_in_parent=lambda: signal.pthread_sigmask(signal.SIG_UNBLOCK, interrupts),
        after_in_child=is_child,
    )
    own = os.getpid()
    own_umask = os.umask(0o022)
    os.umask(own_umask)

    # Without the enumerations around it, which take longer than many a call.
    set_handler = getattr(signal, "_signal", signal).signal

    # Without asking the system.
    handler_of = getattr(signal, "_signal", signal).getsignal

    def use_default_signals():
        for number in (15, 2):
            if handler_of(number) is not is_to_end:
                set_handler(number, is_to_end)

    def text_of(error):
        try:
            text = "".join(traceback.format_exception_only(type(error), error)).strip()
        except Exception:
            text = type(error).__name__
        return text[:TEXT_MAX]

    def trace_of(error):
        # Without the lines that are not the user's.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == "<hq runner>":
            trace = trace.tb_next
        return trace

    def print_exception(error):
        if ranks is not None and isinstance(error, ranks.Gathered):
            # That of another rank, which has printed it.
            return
        traceback.print_exception(type(error), error, trace_of(error))

    def open_output(path):
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOCTTY | (os.O_TRUNC if is_first else 0)
        if ranks is not None:
            # All of them print there.
            flags |= os.O_APPEND
        try:
            return os.open(path, flags, 0o666)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return os.open(path, flags, 0o666)

    captures = {}

    def capture(target):
        # Into memory that has a name only here.
        if target not in captures:
            captures[target] = os.memfd_create("printed", os.MFD_CLOEXEC)
            flags = fcntl.fcntl(captures[target], fcntl.F_GETFL)
            fcntl.fcntl(captures[target], fcntl.F_SETFL, flags | os.O_APPEND)
        os.dup2(captures[target], target)

    # Bytes of a channel that are not in memory any more.
    dropped = {}

    def take_printed(target):
        # The last of it, and how much there was before.
        size = os.lseek(captures[target], 0, os.SEEK_END)
        if not size:
            return b"", 0
        printed = os.pread(captures[target], PRINTED_MAX, max(0, size - PRINTED_MAX))
        os.ftruncate(captures[target], 0)
        return printed, dropped.pop(target, 0) + size - len(printed)

    class Printed(io.FileIO):
        # Does not let what is captured grow for ever.
        def write(self, data):
            return self.write_plain(data) if is_first else ranks.write(self, bytes(data))

        def write_plain(self, data):
            count = super().write(data)
            state["printed"] += count
            if state["printed"] > CAPTURE_MAX and self.target in captures:
                state["printed"] = 0
                if os.fstat(captures[self.target]).st_size > CAPTURE_MAX:
                    printed, dropped[self.target] = take_printed(self.target)
                    os.write(captures[self.target], printed)
            return count

    def stream_to(target):
        raw = Printed(target, "w", closefd=False)
        raw.target, raw.begins = target, True
        return io.TextIOWrapper(io.BufferedWriter(raw), errors="backslashreplace", line_buffering=True)

    def open_outputs(outputs, captured, only=(True, True)):
        stdout = outputs[0]
        for target in (1, 2):
            path = outputs[target - 1]
            if not only[target - 1]:
                continue
            if captured[target - 1]:
                capture(target)
            elif not path:
                os.dup2(nowhere, target)
            elif target == 2 and path == stdout:
                os.dup2(1, 2)
            else:
                try:
                    output = open_output(path)
                except OSError as error:
                    name = "standard output" if target == 1 else "standard error"
                    raise RuntimeError(f"cannot open {os.fsdecode(path)} for {name}: {error.strerror}") from None
                os.dup2(output, target)
                os.close(output)

    own_streams = {}

    def settle_streams():
        # A function may have replaced or closed them.
        try:
            if sys.stdout is own_streams[1] is sys.__stdout__ and sys.stderr is own_streams[2] is sys.__stderr__:
                sys.stdout.flush()
                sys.stderr.flush()
                return
        except Exception:
            pass
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            try:
                stream.flush()
            except Exception:
                pass
        for name, target in (("stdout", 1), ("stderr", 2)):
            if target not in own_streams or own_streams[target].closed:
                own_streams[target] = stream_to(target)
            setattr(sys, "__" + name + "__", own_streams[target])
            setattr(sys, name, own_streams[target])

    def close_outputs(captured):
        # A pipe behind them is to see the end.
        for target in (1, 2):
            if not captured[target - 1]:
                os.dup2(nowhere, target)

    # Of the call before: the bytes before the number of its task, which are mostly the same, the lines from there on, and the
    # names in these.
    variables = {"same": None, "lines": [], "heads": [], "calls": 0}
    # The names of those whose lines can be written where the C library has them.
    in_place = set()
    FIRST = b"\0HQ_TASK_ID="

    class Noting(dict):
        # What `os.environ` keeps its variables in. Whether a function has changed any is known without a look at all of them.
        is_changed = True

    def noting(name):
        plain = getattr(dict, name)

        def change(self, *arguments, **named):
            self.is_changed = True
            return plain(self, *arguments, **named)

        return change

    for name in ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update"):
        if hasattr(dict, name):
            setattr(Noting, name, noting(name))
    put_quietly = dict.__setitem__

    def set_environment(block):
        present = getattr(os.environ, "_data", None)
        same = variables["same"]
        is_as_left = type(present) is Noting and not present.is_changed
        if is_as_left and same is not None and block.startswith(same):
            if set_few(present, block[len(same) :].split(b"\0")):
                return
        at = block.find(FIRST) + 1
        lines = block[at:].split(b"\0")
        variables["same"], variables["lines"] = block[:at] if at else None, lines
        variables["heads"] = [line[: line.find(b"=") + 1] for line in lines]
        if present is not None and type(present) is not Noting and getattr(os.environb, "_data", None) is present:
            # The bytes below the mapping, which both have.
            present = os.environ._data = os.environb._data = Noting(present)
        set_all(dict(os.environb) if present is None else present, block.split(b"\0"))
        in_place.clear()
        if type(present) is Noting:
            present.is_changed = False

    def set_few(present, lines):
        # Where the same variables are there as before. False when there are others.
        before, heads = variables["lines"], variables["heads"]
        if len(before) != len(lines):
            return False
        changed = []
        for old, new, head in zip(before, lines, heads):
            if old != new:
                if not new.startswith(head):
                    return False
                changed.append((head[:-1], new, new[len(head) :]))
        put = put_of[0]
        for name, line, value in changed:
            put(name, line, value)
            put_quietly(present, name, value)
        variables["lines"] = lines
        variables["calls"] += 1
        if variables["calls"] == CALLS_FEW:
            put_of[0] = put_in_place() or put
        return True

    put_of = [lambda name, _, value: os.putenv(name, value)]

    def put_in_place():
        # The C library keeps all values that a variable ever had. After many calls they take memory, and time to look through.
        try:
            import ctypes

            putenv, room_of = ctypes.CDLL(None).putenv, ctypes.create_string_buffer
        except Exception:
            return None
        rooms = {}

        def put(name, line, _):
            # The one before stays until it is not the variable any more.
            room, size = known = rooms.get(name, (None, 0))
            if len(line) >= size:
                size = len(line) + 64
                room = room_of(size)
                rooms[name] = room, size
                in_place.discard(name)
            room.value = line
            if name not in in_place:
                putenv(room)
                in_place.add(name)
            del known

        return put

    def set_all(present, lines):
        wanted = dict(base)
        for line in lines:
            name, is_set, value = line.partition(b"=")
            if is_set:
                wanted[name] = value
        for name in present.keys() - wanted.keys():
            del os.environb[name]
        for name, value in wanted.items():
            if present.get(name) != value:
                os.environb[name] = value

    entered = {"directory": None, "is": None}

    def enter(directory):
        # To ask where it is takes less than to go there.
        try:
            if entered["directory"] == directory and entered["is"] == os.getcwdb():
                return
        except OSError:
            pass
        change_directory(directory)
        entered["directory"], entered["is"] = directory, os.getcwdb()

    def change_directory(directory):
        try:
            os.chdir(directory)
        except FileNotFoundError:
            os.makedirs(directory, exist_ok=True)
            os.chdir(directory)

    def load(name):
        if name not in loaded:
            import importlib

            module, _, attributes = name.partition(":")
            function = importlib.import_module(module)
            for attribute in attributes.split("."):
                function = getattr(function, attribute)
            if not callable(function):
                raise TypeError(f"{name} is a {type(function).__name__} and cannot be called")
            loaded[name] = function
            state["kept"] = None
        return loaded[name]

    # --- calls whose function, arguments and results the client has packed ---

    loads, dumps = pickle.loads, pickle.dumps
    codes = {}
    functions = {}
    values = {}
    inputs_of_call = {}

    # Where values are that are files.
    taken_of_call = {}

    def ref(job, task):
        if (job, task) not in values:
            values[job, task] = value_of(job, task)
        return values[job, task]

    def value_of(job, task):
        if (job, task) in taken_of_call:
            try:
                return load_value(taken_of_call[job, task])
            except (OSError, ValueError) as error:
                raise RuntimeError(f"the value of task {job}@{task} cannot be read: {error}") from None
        return pickle.loads(without_parts(input_of(job, task)))

    def input_of(job, task):
        if (job, task) not in inputs_of_call:
            raise RuntimeError(f"the result of task {job}@{task} is not kept any more")
        return inputs_of_call[job, task]

    class Lazy:
        """The value of another call, for those who want it only when they ask. It is there until this call ends."""

        __slots__ = ("job", "task")

        def __init__(self, job, task):
            self.job, self.task = job, task

        def get(self):
            return ref(self.job, self.task)

        @property
        def nbytes(self):
            path = taken_of_call.get((self.job, self.task))
            if path is not None:
                return os.stat(path).st_size
            return len(without_parts(input_of(self.job, self.task)))

        def __reduce__(self):
            return lazy, (self.job, self.task)

        def __repr__(self):
            return f"<value of task {self.job}@{self.task}>"

    def lazy(job, task):
        return Lazy(job, task)

    def unpack(number):
        python, cloudpickle_dir, paths, function = pickle.loads(codes[number])
        if python is not None and tuple(python) != sys.version_info[:2]:
            wanted, found = ".".join(map(str, python)), ".".join(map(str, sys.version_info[:2]))
            raise RuntimeError(
                f"the function comes by value from Python {wanted}, and this is Python {found} ({sys.executable}): use the "
                "same minor version, or put the function into a module that both have"
            )
        for path in paths:
            if path not in sys.path and os.path.isdir(path):
                sys.path.append(path)
        use_cloudpickle_of(cloudpickle_dir)
        functions[number] = pickle.loads(function)
        state["kept"] = None
        return functions[number]

    def use_cloudpickle_of(directory):
        # That of the client, where there is none here.
        if not directory or "cloudpickle" in sys.modules:
            return
        import importlib.util

        init = os.path.join(directory, "__init__.py")
        if importlib.util.find_spec("cloudpickle") is None and os.path.isfile(init):
            spec = importlib.util.spec_from_file_location("cloudpickle", init, submodule_search_locations=[directory])
            module = importlib.util.module_from_spec(spec)
            sys.modules["cloudpickle"] = module
            spec.loader.exec_module(module)

    def invoke(function, args, kwargs):
        value = function(*args, **kwargs)
        if type(value) not in PLAIN and hasattr(value, "send") and hasattr(value, "cr_frame"):
            import asyncio

            value = asyncio.run(value)
        return value

    invoked = invoke if ranks is None else lambda *call: ranks.invoke(invoke, *call)

    def pack(value, dump=lambda dumps, value: (dumps(value, protocol=5), [])):
        # The pickle, and what `dump` leaves out of it.
        try:
            packed = dump(pickle.dumps, value)
            if b"__main__" not in packed[0]:
                return packed
        except BaseException as error:
            try:
                import cloudpickle
            except ImportError:
                raise error from None
        else:
            try:
                import cloudpickle
            except ImportError:
                return packed
        return dump(cloudpickle.dumps, value)

    def part(kind, data):
        return struct.pack("<BH", kind, len(data)) + data

    def parts_of(payload):
        # What stands before the pickle of a value, by kinds, and that.
        parts, at = {}, 0
        if payload[:1] == b"E":
            at = 1
            while at < len(payload) and payload[at] != 0x80:
                kind, length = struct.unpack_from("<BH", payload, at)
                parts[kind] = payload[at + 3 : at + 3 + length]
                at += 3 + length
        return parts, payload[at:]

    def without_parts(payload):
        # The pickle of a value.
        packed = parts_of(payload)[1]
        if not packed:
            raise RuntimeError("the value of a call that is among the arguments was not brought here")
        return packed

    def told(kind, error, text=None):
        # How a call failed, for the client and for people.
        try:
            if ranks is not None:
                ranks.note(error)
            packed = pack(error)[0] if kind == "raised" else None
            if packed is not None:
                pickle.loads(packed)
        except BaseException:
            packed = None
        if packed is not None and len(packed) > RESULT_MAX - TRACE_MAX - TEXT_MAX:
            packed = None
        try:
            trace = "".join(traceback.format_exception(type(error), error, trace_of(error)))
        except BaseException:
            trace = type(error).__name__
        if ranks is not None:
            trace = ranks.name(trace)
        if text is None:
            try:
                text = str(error)
            except BaseException:
                text = ""
        name = type(error).__module__ + "." + type(error).__qualname__
        name = name[9:] if name.startswith("builtins.") else name
        parts = part(FAILURE, kind.encode()) + part(TYPE, cut(name, NAME_MAX))
        parts += part(TEXT, cut(text, TEXT_MAX // 2)) + part(TRACEBACK, cut(trace, TRACE_MAX))
        return b"E" + parts + (packed or b"")

    def code_of(error):
        # As that of a program which ends so.
        code = error.code if isinstance(error, SystemExit) else 1
        return code & 255 or 1 if isinstance(code, int) else 1

    def cut(text, most):
        # In so many bytes, the beginning and the end.
        data = text.encode("utf-8", "replace")
        if len(data) > most:
            begin, end = data[: most // 4], data[len(data) - most // 2 :]
            data = b"\n...\n".join(whole.decode("utf-8", "ignore").encode() for whole in (begin, end))
        return data

    def read_rows(rows, into):
        into.clear()
        at = 0
        while at < len(rows):
            job, task, length = struct.unpack_from("<III", rows, at)
            into[job, task] = rows[at + 12 : at + 12 + length]
            at += 12 + length

    def forget_inputs():
        inputs_of_call.clear()
        taken_of_call.clear()
        values.clear()

    def has_failed(stderr, status, kind, error):
        if stderr:
            print_exception(error)
        return status, code_of(error), told(kind, error), text_of(error)

    def call_packed(number, entry, inputs, stderr, put, taken):
        if inputs or taken or values or inputs_of_call or taken_of_call:
            values.clear()
            read_rows(inputs, inputs_of_call)
            read_rows(taken, taken_of_call)
        # What is raised while it is interrupted is of the call, whatever it does at that moment.
        kind, status = "not-loaded", NOT_LOADED
        try:
            state["runs"] = True
            if ranks is not None:
                ranks.check()
            if entry[:1] == b"F":
                # It was called before, and has returned this call, whose value it is to give.
                kind, of = "arguments", struct.unpack_from("<II", entry, 1)
                if of not in taken_of_call:
                    return VALUE, 0, as_it_was_left(of), ""
                value = ref(*of)
            else:
                function = functions.get(number) or unpack(number)
                kind = "arguments"
                args, kwargs = loads(entry)
                kind, status = "raised", RAISED
                if state["kept"] is None:
                    state["kept"] = note()
                value = invoked(function, args, kwargs)
        except BaseException as error:
            state["runs"] = False
            return has_failed(stderr, status, kind, error)
        finally:
            state["runs"] = False
        if type(value) in PLAIN and is_first:
            packed = dumps(value, 5)
            if len(packed) <= RESULT_MAX:
                return VALUE, 0, packed, ""
        module = sys.modules["_hq_runner"]
        try:
            # References in it that belong to who gets the value are noted there.
            module.returned = []
            if not is_first:
                return VALUE, 0, ranks.returned(value, pack), ""
            # A call that it has returned: it ends when that does.
            returned = getattr(type(value), "_hq_returned", None)
            if returned is not None:
                return VALUE, 0, b"E" + part(VALUE_OF, struct.pack("<II", *returned(value))), ""
            # What is left out of the pickle is too large in any case.
            packed, buffers = pack(value, lambda dumps, value: dump_value(dumps, value, RESULT_MAX))
            held = b"".join(dict.fromkeys(module.returned))
            if len(held) > HELD_MAX:
                raise ValueError(f"it has {len(held) // 33} Refs and Futures, and may have {HELD_MAX // 33}: put a list of them")
        except BaseException as error:
            return has_failed(stderr, NOT_TOLD, "not-picklable", error)
        finally:
            module.returned = None
            forget_inputs()
        held = part(HELD, held) if held else b""
        whole = b"E" + held + packed if held else packed
        if not buffers and len(whole) <= RESULT_MAX:
            return VALUE, 0, whole, ""
        if put:
            return stored(put, packed, buffers, held)
        size = len(packed) + sum(buffer.nbytes for buffer in buffers)
        text = f"it takes {size} bytes pickled, and at most {RESULT_MAX} are kept"
        return TOO_LARGE, 1, told("too-large", ValueError(text)), str(size)

    def as_it_was_left(of):
        # The value of another call, with what is in it.
        payload = input_of(*of)
        packed, held = without_parts(payload), parts_of(payload)[0].get(HELD, b"")
        return b"E" + part(HELD, held) + packed if held else packed

    def stored(put, packed, buffers, held):
        # A process that the function forked has no value to leave.
        if os.getpid() != own:
            return VALUE, 0, b"", ""
        try:
            size, nonce = write_value(put, packed, buffers)
        except OSError as error:
            text = f"{os.fsdecode(put)}: {error.strerror}"
            return NOT_STORED, 1, b"", f"the value cannot be written: {text}"
        return STORED, 0, b"E" + held + part(OBJECT, struct.pack("<Q16s", size, nonce)), ""

    def with_printed(status, result, captured):
        (out, out_lost), (err, err_lost) = [
            take_printed(target) if captured[target - 1] else (b"", 0) for target in (1, 2)
        ]
        # The value goes first; what is left is shared by the two. 29 is what their parts take beside the texts.
        room = RESULT_MAX - len(result) - 29
        if not (out or err) or not result or room < 0:
            return status, result
        kept = min(len(err), max(room // 2, room - len(out)))
        err, err_lost = err[len(err) - kept :], err_lost + len(err) - kept
        kept = min(len(out), room - kept)
        out, out_lost = out[len(out) - kept :], out_lost + len(out) - kept
        parts = [part(kind, text) for kind, text in ((STDOUT, out), (STDERR, err)) if text]
        lost = ((STDOUT_LOST, out_lost), (STDERR_LOST, err_lost))
        parts += [part(kind, struct.pack("<Q", count)) for kind, count in lost if count]
        return status, b"E" + b"".join(parts) + (result[1:] if result[:1] == b"E" else result)

    def run(name, arguments, entries):
        function = load(name)
        args, kwargs = [], {}
        if arguments:
            given = json.loads(arguments)
            if isinstance(given, dict):
                kwargs = given
            else:
                args = given
        return invoked(function, (*entries, *args), kwargs)

    dup2, lseek, getcwdb, getpid, umask, SEEK_END = os.dup2, os.lseek, os.getcwdb, os.getpid, os.umask, os.SEEK_END
    placed = {"as": None, "is": None, "outputs": ()}

    def is_placed(as_before):
        # Where calls print into memory, and are in the directory of the one before: what these may have changed is put back.
        if as_before != placed["as"]:
            return False
        out, err = placed["outputs"]
        try:
            dup2(out, 1)
            dup2(err, 2)
            return getcwdb() == placed["is"]
        except OSError:
            return False

    def prepare(flags, cwd, outputs, captured, submit_dir, task_dir):
        # What a call finds; the words of what is in the way.
        try:
            if not flags & IS_PREPARED:
                if task_dir:
                    os.mkdir(task_dir, 0o700)
                open_outputs(outputs, captured)
            elif captured[0] or captured[1]:
                # Those that have a place were opened for the process.
                open_outputs(outputs, captured, captured)
            enter(cwd)
        except (OSError, RuntimeError) as error:
            return str(error) if isinstance(error, RuntimeError) else f"cannot use {error.filename}: {error.strerror}"
        if state["submit_dir"] != submit_dir:
            state["submit_dir"] = submit_dir
            directory = os.fsdecode(submit_dir)
            if directory not in sys.path:
                sys.path.insert(1, directory)
        return ""

    def called(flags, name, arguments, entry):
        # What becomes of a call: status, exit code, result, text.
        entries = []
        try:
            state["runs"] = True
            try:
                if ranks is not None:
                    ranks.check()
                load(name)
            except Exception as error:
                print_exception(error)
                return NOT_LOADED, 1, b"", text_of(error)
            if flags & HAS_ENTRY:
                # Python reads no JSON that is nested too deep.
                entries.append(json.loads(entry) if flags & ENTRY_IS_JSON else os.fsdecode(entry))
            if state["kept"] is None:
                state["kept"] = note()
            value = run(name, arguments, entries)
        except SystemExit as error:
            code = error.code
            if code is None or code == 0:
                return VALUE, 0, b"null", ""
            if isinstance(code, int):
                return RAISED, code & 255 or 1, b"", f"SystemExit: {code}"
            print(code, file=sys.stderr)
            return RAISED, 1, b"", f"SystemExit: {code}"[:TEXT_MAX]
        except BaseException as error:
            state["runs"] = False
            print_exception(error)
            return RAISED, 1, b"", text_of(error)
        finally:
            state["runs"] = False
        try:
            if not is_first:
                return VALUE, 0, ranks.returned(value, pack), ""
            result = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        except Exception as error:
            return NOT_TOLD, 1, b"", text_of(error)
        if len(result) > RESULT_MAX:
            return TOO_LARGE, 1, b"", str(len(result))
        return VALUE, 0, result, ""

    # While calls are short, what they use is measured only now and then, and told of the one that ended then.
    MEASURED_EACH = 0.001

    def used():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        # A peak has no difference: it is that of all calls so far.
        peak = max(usage.ru_maxrss, children.ru_maxrss)
        return usage.ru_utime + children.ru_utime, usage.ru_stime + children.ru_stime, peak

    def used_since(now):
        # What was not told yet, in microseconds, and the peak.
        before = state["used"]
        state["measured"], state["used"] = now, used()
        user, system, peak = state["used"]
        return int((user - before[0]) * 1e6), int((system - before[1]) * 1e6), peak

    monotonic = time.monotonic
    call_head = struct.Struct("<QBBI").unpack_from
    # What takes the parts of a call out of it, by their lengths.
    cuts = {}
    CUTS_MAX = 256
    done_head = struct.Struct("<IBQBBQQQQII").pack

    def call(body):
        number, flags, count, code_number = call_head(body)
        lengths = body[14:62]
        parts_of = cuts.get(lengths)
        if parts_of is None:
            if len(cuts) >= CUTS_MAX:
                cuts.clear()
            parts_of = cuts[lengths] = struct.Struct("<" + "%ds" * 12 % struct.unpack("<12I", lengths)).unpack_from
        name, arguments, entry, cwd, stdout, stderr, submit_dir, task_dir, environment, inputs, put, taken = parts_of(
            body, 14 + 4 * count
        )
        began = monotonic()
        state["number"], state["waits"] = number, False
        set_environment(environment)
        # What has no place of its own is told with the result.
        captured = flags & IS_PACKED and not stdout, flags & IS_PACKED and not stderr
        as_before = flags, cwd, stdout, stderr, submit_dir
        failed = ""
        if task_dir or not is_placed(as_before):
            placed["as"] = None
            failed = prepare(flags, cwd, (stdout, stderr), captured, submit_dir, task_dir)
            if captured[0] and captured[1] and not failed:
                placed.update({"as": as_before, "is": entered["is"], "outputs": (captures[1], captures[2])})
        if ranks is not None and not failed:
            ranks.begin(flags)
        if failed:
            status, code, result, text = NOT_STARTED, 1, b"", failed
            # There may be no descriptors left: no further call is taken.
            state["is_lost"] = True
        elif flags & IS_PACKED:
            status, code, result, text = call_packed(code_number, entry, inputs, stderr, put, taken)
        else:
            status, code, result, text = called(flags, name.decode(), arguments, entry)
        if getpid() != own:
            # A process that the function forked, and that came back from it, ends here as it would at the end of a program.
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass
            os._exit(code)
        for end in at_end:
            end()
        # It has lent its CPUs, and was not told to go on.
        state["is_lost"] |= state["waits"]
        settle_streams()
        if captured[0] or captured[1]:
            state["printed"] = 0
            # Mostly nothing.
            if captured[0] and lseek(captures[1], 0, SEEK_END) or captured[1] and lseek(captures[2], 0, SEEK_END):
                status, result = with_printed(status, result, captured)
        if not (captured[0] and captured[1]):
            close_outputs(captured)
        if state["kept"] is not None:
            put_back(state["kept"])
        use_default_signals()
        umask(own_umask)
        ended = monotonic()
        user, system, peak = used_since(ended) if ended - state["measured"] >= MEASURED_EACH else (0, 0, state["used"][2])
        text = text.encode("utf-8", "replace") if text else b""
        size = 50 + len(result) + len(text)
        took = int((ended - began) * 1e6)
        head = done_head(size, DONE, number, status, code, took, user, system, peak, len(result), len(text))
        # Of ranks rank 0 counts, with which the others end.
        if is_worn(ended) and is_first:
            state["is_lost"] = True
            say(WORN, struct.pack("<Q", number))
        connection.sendall(head + result + text)

    # What a task runs in comes with each call, and what is of a task is of the first one alone.
    (length,) = struct.unpack("<I", receive(4))
    of_task = set(receive(length).split(b"\0"))
    # To the other ranks of a world it is rank 0 that says the number of each call, and then the call.
    queue = receive_queue() if is_first else connection
    base = {name: value for name, value in os.environb.items() if name not in of_task}
    settle_streams()
    # What stands for results of others among arguments is a function of this module, wherever it is unpickled.
    sys.modules["_hq_runner"] = type(sys)("_hq_runner")
    # Also for calls that this one makes.
    for name, known in (("ref", ref), ("lazy", lazy), ("Lazy", Lazy)):
        known.__module__, known.__name__, known.__qualname__ = "_hq_runner", name, name
        setattr(sys.modules["_hq_runner"], name, known)
    sys.modules["_hq_runner"].waits = waits
    sys.modules["_hq_runner"].goes_on = goes_on
    sys.modules["_hq_runner"].returned = None
    # Asked when a call ends: what it submits is with the server before that is told.
    at_end = sys.modules["_hq_runner"].at_end = []
    # What was loaded within a call is not of it.
    sys.modules["_hq_runner"].has_loaded = lambda: state.update(kept=note())
    # Empty where nothing is known of that, and None in one that was forked.
    sys.modules["_hq_runner"].why_not_forked = globals().get("_hq_why_not_forked")
    use_default_signals()
    state["used"], state["measured"] = used(), time.monotonic()
    say(READY, struct.pack("<II", VERSION, os.getpid()) + sys.version.split()[0].encode())
    while not state["is_lost"]:
        try:
            number = queue.recv(8)
            # None, or 0: no call comes any more.
            if not any(number):
                break
            body = hear_call(number_of(number)[0])
        except (EOFError, OSError):
            break
        try:
            call(body)
        except OSError as error:
            # A function may have closed what is not its own, as one that becomes a daemon does: then nothing can be told.
            if error.errno in (errno.EBADF, errno.ENOTSOCK):
                os._exit(CLOSED)
            raise
    # What is to be done at the end may hang.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(5)


def leave():
    # By itself: what a function has left, a thread or what is to be done at the end, may keep an interpreter that fails.
    import os
    import sys

    try:
        sys.excepthook(*sys.exc_info())
        sys.stderr.flush()
    finally:
        os._exit(1)


try:
    main(connection, receive)
except BaseException:
    leave()

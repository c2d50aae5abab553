# Loads what an environment of functions preloads, and then forks interpreters for those, until the worker is gone. Needs Python
# 3.8 and nothing else. `connection` is a socket whose packets are texts of the worker first, and orders of the launcher then,
# as hq-worker/src/launcher/wire.rs writes them. Each comes with the socket of the new process and one to answer on. What comes
# without these is a word of the worker.


def _hq_zygote(connection, receive):
    import ctypes
    import gc
    import json
    import os
    import signal
    import socket
    import struct
    import sys
    import time

    READY, UNFIT, BROKEN = b"R", b"U", b"B"
    LOAD = b"L"
    LOAD_SECONDS = 4
    SAID_MAX = 8192
    # Counted from 1, as the launcher does.
    GROUP, AFFINITY = 10, 11
    MARK = b"HQ_ACCESS_KEY="
    # What libraries look at when they are loaded: they make no threads then, and can be told later.
    THREADS = {
        "OMP_NUM_THREADS": (),
        "OPENBLAS_NUM_THREADS": ("openblas_set_num_threads", "openblas_set_num_threads64_"),
        "GOTO_NUM_THREADS": (),
        "MKL_NUM_THREADS": ("MKL_Set_Num_Threads",),
        "BLIS_NUM_THREADS": ("bli_thread_set_num_threads",),
        "NUMEXPR_NUM_THREADS": (),
        "VECLIB_MAXIMUM_THREADS": (),
    }
    THREADS["OPENBLAS_NUM_THREADS"] += tuple("scipy_" + name for name in THREADS["OPENBLAS_NUM_THREADS"])
    THREADS["OMP_NUM_THREADS"] = ("omp_set_num_threads",)
    LIBRARIES = ("openblas", "libmkl_rt", "libblis", "libgomp", "libiomp5", "libomp")
    system = ctypes.CDLL(None)

    def say(kind, text):
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        connection.send(kind + text.encode("utf-8", "replace")[:SAID_MAX])

    def load(settings):
        # What is wrong with the first module that cannot be imported, and what to say of it.
        import importlib

        sys.path[:0] = [path for path in settings.get("sys_path", ()) if path not in sys.path]
        sys.path += [path for path in settings.get("paths", ()) if path not in sys.path and os.path.isdir(path)]
        for name in settings.get("preload", ()):
            try:
                importlib.import_module(name)
            except BaseException as error:
                text = "the module %s, which preload names, cannot be imported by %s: %s: %s"
                # What is missing here may be beside a function.
                kind = UNFIT if isinstance(error, ModuleNotFoundError) else BROKEN
                return kind, text % (name, sys.executable, type(error).__name__, error)
        return None

    def with_one_thread(load):
        before = {name: os.environ.get(name) for name in THREADS}
        os.environ.update(dict.fromkeys(THREADS, "1"))
        try:
            return load()
        finally:
            for name, value in before.items():
                os.environ.pop(name, None)
                if value is not None:
                    os.environ[name] = value

    def why_unfit():
        # Why no process is forked from this one.
        has_more = what_is_not_forked()
        if has_more is None and not forks_to_the_launcher():
            return "something stands between the launcher and the interpreter: a container, or a program that stays"
        return has_more

    def what_is_not_forked():
        # Why a process that is forked from this one would not be whole.
        threads = len(os.listdir("/proc/self/task"))
        if threads > 1:
            return "what it preloads has started threads: there are %d" % threads
        devices = ("/dev/nvidia", "/dev/kfd", "/dev/dri/", "/dev/xpu")
        for number in os.listdir("/proc/self/fd"):
            try:
                path = os.readlink("/proc/self/fd/" + number)
            except OSError:
                continue
            if path.startswith(devices):
                return "what it preloads uses a GPU: %s is open" % path
        return None

    def forks_to_the_launcher():
        # Whether it becomes the parent of a process whose own has ended.
        reader, writer = os.pipe()
        if not fork_twice():
            is_child = has_launcher()
            os.write(writer, b"y" if is_child else b"n")
            os._exit(0)
        os.close(writer)
        answer = os.read(reader, 1)
        os.close(reader)
        return answer == b"y"

    def fork_twice():
        # False in the new process, which is nobody's child but the launcher's.
        between = os.fork()
        if between == 0:
            try:
                is_new = os.fork() == 0
            except OSError:
                os._exit(1)
            if is_new:
                return False
            os._exit(0)
        os.waitpid(between, 0)
        return True

    def has_launcher():
        for _ in range(2000):
            if os.getppid() == launcher:
                return True
            if os.getppid() == 1:
                break
            time.sleep(0.0002)
        return False

    def is_installed(path):
        path = os.path.realpath(path)
        return path.startswith(homes) or "site-packages" in path or "dist-packages" in path

    def loads_what_may_change():
        files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
        return not all(is_installed(file) for file in files if isinstance(file, str))

    def load_package():
        # What calls need that call others. A child tries it first, for this process must stay what it is: whole when it is forked,
        # and without what may change. Where it would not, or there is no such package, each interpreter does what it can.
        import importlib

        try:
            child = os.fork()
        except OSError:
            return
        if child and os.waitpid(child, 0)[1]:
            return
        if not child:
            # The launcher waits for a fork, but not for ever.
            signal.alarm(LOAD_SECONDS)
        try:
            importlib.import_module("headquarters._nested")
            is_fit = child or not (what_is_not_forked() or loads_what_may_change() > may_change)
        except BaseException:
            is_fit = False
        if not child:
            os._exit(0 if is_fit else 1)
        gc.collect()
        gc.freeze()

    def setters():
        # What tells libraries that are loaded how many threads they may have, and the variables that say so.
        found, seen = [], set()
        with open("/proc/self/maps") as maps:
            paths = {line[line.index("/") :].rstrip("\n") for line in maps if "/" in line and ".so" in line}
        for path in sorted(path for path in paths if any(name in os.path.basename(path) for name in LIBRARIES)):
            try:
                library = ctypes.CDLL(path)
            except OSError:
                continue
            for variable, names in THREADS.items():
                for name in names:
                    setter = getattr(library, name, None)
                    address = setter and ctypes.cast(setter, ctypes.c_void_p).value
                    if setter and address not in seen:
                        seen.add(address)
                        found.append((setter, (variable, "OMP_NUM_THREADS")))
        return found

    def set_threads(variables):
        for setter, names in known_setters:
            values = [variables.get(name) or os.environ.get(name, "") for name in names]
            said = [int(value.split(",")[0]) for value in values if value.split(",")[0].isdigit()]
            count = said[0] if said else len(os.sched_getaffinity(0))
            if count > 1:
                setter(count)

    def take_mark(environment):
        # Whoever looks for the processes of a task reads what this one was started with; there is room for that.
        mark = next((line for line in environment if line.startswith(MARK)), None)
        with open("/proc/self/stat", "rb") as stat:
            begin = int(stat.read().rpartition(b")")[2].split()[47])
        with open("/proc/self/environ", "rb") as environ:
            block = environ.read()
        at = 0 if block.startswith(MARK) else block.find(b"\0" + MARK) + 1
        size = block.find(b"\0", at) - at
        if mark is None or not block.startswith(MARK, at) or len(mark) > size:
            return
        memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
        os.pwrite(memory, mark + bytes(size - len(mark)), begin + at)
        os.close(memory)

    def become(packet, answer):
        # A process like those that the launcher starts, as the order says.
        words = struct.unpack_from("=14I", packet)
        at = 56 + 4 * words[6]
        cpus = struct.unpack_from("=%dI" % words[7], packet, at)
        texts = packet[at + 4 * words[7] :].split(b"\0")[4 + words[3] + words[4] :]
        environment, groups = texts[: words[5]], texts[words[5] : words[5] + words[9]]
        is_child = has_launcher()
        os.setpgid(0, 0)
        system.prctl(1, signal.SIGKILL, 0, 0, 0)
        if not is_child or os.getppid() != launcher:
            os._exit(1)
        stage = GROUP
        try:
            for group in groups:
                file = os.open(group, os.O_WRONLY | os.O_CLOEXEC)
                os.write(file, b"0")
                os.close(file)
            stage = AFFINITY
            if cpus:
                os.sched_setaffinity(0, cpus)
        except OSError as error:
            answer.send(struct.pack("=iii", os.getpid(), stage, error.errno or 5))
            os._exit(1)
        try:
            take_mark(environment)
        except (OSError, ValueError):
            pass
        answer.send(struct.pack("=iii", os.getpid(), 0, 0))
        if answer.recv(1) != b"\1":
            os._exit(1)
        answer.close()
        nowhere = os.open(os.devnull, os.O_RDWR)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        os.close(nowhere)
        variables = [line.decode("ascii", "replace").partition("=") for line in environment]
        set_threads({name: value for name, _, value in variables})
        if "numpy.random" in sys.modules:
            sys.modules["numpy.random"].seed()

    launcher = int(receive(int.from_bytes(receive(4), "little")))
    runner = compile(receive(int.from_bytes(receive(4), "little")), "<hq runner>", "exec")
    homes = tuple({os.path.realpath(path).rstrip("/") + "/" for path in (sys.prefix, sys.base_prefix, sys.exec_prefix)})
    try:
        settings = json.loads(os.environ.get("HQ_PYTHON_ENV") or "{}")
    except ValueError as error:
        settings = {}
        say(BROKEN, "HQ_PYTHON_ENV is not valid JSON: %s" % error)
        os._exit(1)
    if settings.get("fork") is False:
        say(UNFIT, "fork=False says so")
        os._exit(0)
    broken = with_one_thread(lambda: load(settings))
    if broken is not None:
        say(*broken)
        os._exit(1)
    # Those that runners import, too.
    import fcntl  # noqa: F401
    import io  # noqa: F401
    import mmap  # noqa: F401
    import pickle  # noqa: F401
    import random  # noqa: F401
    import resource  # noqa: F401
    import threading  # noqa: F401
    import traceback  # noqa: F401

    # Most functions of clients are unpickled with it; where it is not there, the runner looks for that of the client.
    try:
        import cloudpickle  # noqa: F401
    except Exception:
        pass

    unfit = why_unfit()
    if unfit is not None:
        say(UNFIT, unfit)
        os._exit(0)
    known_setters = setters()
    gc.collect()
    gc.freeze()
    may_change = loads_what_may_change()
    say(READY, "1" if may_change else "0")
    room = socket.CMSG_SPACE(2 * struct.calcsize("i"))
    while True:
        packet, control, _, _ = connection.recvmsg(1 << 17, room, getattr(socket, "MSG_CMSG_CLOEXEC", 0))
        if not packet:
            os._exit(0)
        files = [number for _, _, data in control for number in struct.unpack("%di" % (len(data) // 4), data)]
        if len(files) == 2:
            try:
                is_parent = fork_twice()
            except OSError:
                is_parent = True
            if not is_parent:
                break
        elif packet == LOAD:
            load_package()
        for number in files:
            os.close(number)
    connection.close()
    become(packet, socket.socket(fileno=files[1]))
    return socket.socket(fileno=files[0]), runner


connection, _hq_runner_program = _hq_zygote(connection, receive)
exec(_hq_runner_program)

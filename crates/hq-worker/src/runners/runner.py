# Calls functions for a worker of hq, one after the other, until the worker is gone. Needs Python 3.8 and nothing else.
# Descriptor 0 was a socket, which the line that reads this has put into `connection`. What goes over it is described
# in docs/reference/runner-protocol.md.


def main(connection, receive):
    import json
    import os
    import resource
    import signal
    import struct
    import sys
    import time
    import traceback

    VERSION = 1
    CALL, END = 1, 2
    READY, DONE = 1, 2
    IS_PREPARED, HAS_ENTRY, ENTRY_IS_JSON = 1, 2, 4
    VALUE, RAISED, NOT_LOADED, NOT_JSON, NOT_STARTED, TOO_LARGE = 0, 1, 2, 3, 4, 5
    RESULT_MAX = 16384
    TEXT_MAX = 2048

    nowhere = os.open(os.devnull, os.O_RDWR)
    state = {"runs": False, "submit_dir": None}
    loaded = {}

    def say(kind, body):
        connection.sendall(struct.pack("<IB", len(body), kind) + body)

    def is_to_end(number, frame):
        if state["runs"]:
            raise KeyboardInterrupt
        # Between two calls there is nothing to interrupt, and a call that is on its way is meant to be over.
        os._exit(128 + number)

    # Processes that a function forks are no runners: the signals that interrupt calls end them, as they end others. One that
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

    def use_default_signals():
        signal.signal(signal.SIGTERM, is_to_end)
        signal.signal(signal.SIGINT, is_to_end)

    def text_of(error):
        try:
            text = "".join(traceback.format_exception_only(type(error), error)).strip()
        except Exception:
            text = type(error).__name__
        return text[:TEXT_MAX]

    def print_exception(error):
        # Without the lines that are not the user's.
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename == "<hq runner>":
            trace = trace.tb_next
        traceback.print_exception(type(error), error, trace)

    def open_output(path):
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOCTTY
        try:
            return os.open(path, flags, 0o666)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            return os.open(path, flags, 0o666)

    def open_outputs(stdout, stderr):
        for target, path in ((1, stdout), (2, stderr)):
            if not path:
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

    def restore_streams():
        # A function may have replaced or closed them.
        for name, descriptor in (("stdout", 1), ("stderr", 2)):
            stream = getattr(sys, "__" + name + "__")
            if stream is None or stream.closed:
                stream = open(descriptor, "w", buffering=1, errors="backslashreplace", closefd=False)
                setattr(sys, "__" + name + "__", stream)
            setattr(sys, name, stream)

    def close_outputs():
        for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__):
            try:
                stream.flush()
            except Exception:
                pass
        # A pipe behind them is to see the end.
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)

    def set_environment(block):
        wanted = dict(base)
        for variable in block.split(b"\0"):
            name, is_set, value = variable.partition(b"=")
            if is_set:
                wanted[name] = value
        # The bytes below the mapping: to ask that for each variable takes longer than many a call.
        present = getattr(os.environ, "_data", None)
        if present is None:
            present = dict(os.environb)
        if present != wanted:
            for name in present.keys() - wanted.keys():
                del os.environb[name]
            for name, value in wanted.items():
                if present.get(name) != value:
                    os.environb[name] = value

    def enter(directory):
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
        return loaded[name]

    def run(name, arguments, entries):
        function = load(name)
        args, kwargs = [], {}
        if arguments:
            given = json.loads(arguments)
            if isinstance(given, dict):
                kwargs = given
            else:
                args = given
        value = function(*entries, *args, **kwargs)
        if hasattr(value, "send") and hasattr(value, "cr_frame"):
            import asyncio

            value = asyncio.run(value)
        return value

    def called(flags, name, arguments, entry, cwd, stdout, stderr, submit_dir, task_dir):
        # What becomes of a call: status, exit code, result, text.
        try:
            if not flags & IS_PREPARED:
                if task_dir:
                    os.mkdir(task_dir, 0o700)
                open_outputs(stdout, stderr)
            enter(cwd)
        except (OSError, RuntimeError) as error:
            text = str(error) if isinstance(error, RuntimeError) else f"cannot use {error.filename}: {error.strerror}"
            return NOT_STARTED, 1, b"", text
        if state["submit_dir"] != submit_dir:
            state["submit_dir"] = submit_dir
            directory = os.fsdecode(submit_dir)
            if directory not in sys.path:
                sys.path.insert(1, directory)
        if flags & HAS_ENTRY:
            entries = [json.loads(entry) if flags & ENTRY_IS_JSON else os.fsdecode(entry)]
        else:
            entries = []
        try:
            state["runs"] = True
            try:
                load(name)
            except Exception as error:
                print_exception(error)
                return NOT_LOADED, 1, b"", text_of(error)
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
            result = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=True).encode()
        except Exception as error:
            return NOT_JSON, 1, b"", text_of(error)
        if len(result) > RESULT_MAX:
            return TOO_LARGE, 1, b"", str(len(result))
        return VALUE, 0, result, ""

    def used():
        usage = resource.getrusage(resource.RUSAGE_SELF)
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        # A peak has no difference: it is that of all calls so far.
        peak = max(usage.ru_maxrss, children.ru_maxrss)
        return usage.ru_utime + children.ru_utime, usage.ru_stime + children.ru_stime, peak

    def call(body):
        number, flags, count = struct.unpack_from("<QBB", body)
        at, parts = 10, []
        for _ in range(count):
            (length,) = struct.unpack_from("<I", body, at)
            parts.append(body[at + 4 : at + 4 + length])
            at += 4 + length
        name, arguments, entry, cwd, stdout, stderr, submit_dir, task_dir, environment = parts[:9]
        began, (user, system, _) = time.monotonic(), used()
        set_environment(environment)
        status, code, result, text = called(
            flags, name.decode(), arguments, entry, cwd, stdout, stderr, submit_dir, task_dir
        )
        if os.getpid() != own:
            # A process that the function forked, and that came back from it, ends here as it would at the end of a program.
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except Exception:
                    pass
            os._exit(code)
        close_outputs()
        restore_streams()
        use_default_signals()
        took, (user_after, system_after, peak) = time.monotonic() - began, used()
        text = text.encode("utf-8", "replace")
        micros = [int(seconds * 1e6) for seconds in (took, user_after - user, system_after - system)]
        head = struct.pack("<QBBQQQQII", number, status, code, *micros, peak, len(result), len(text))
        say(DONE, head + result + text)

    # What a task runs in comes with each call, and what is of a task is of the first one alone.
    (length,) = struct.unpack("<I", receive(4))
    of_task = set(receive(length).split(b"\0"))
    base = {name: value for name, value in os.environb.items() if name not in of_task}
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.reconfigure(line_buffering=True)
        except Exception:
            pass
    use_default_signals()
    say(READY, struct.pack("<II", VERSION, os.getpid()) + sys.version.split()[0].encode())
    while True:
        try:
            length, kind = struct.unpack("<IB", receive(5))
            body = receive(length)
        except (EOFError, OSError):
            break
        if kind == CALL:
            call(body)
        elif kind == END:
            break
    # What is to be done at the end may hang.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(5)


main(connection, receive)

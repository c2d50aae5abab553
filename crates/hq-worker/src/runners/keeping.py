# What a call may change in its interpreter and the next one is not to find; and when an interpreter has had its last call. Comes
# before the runner itself, as one text; needs Python 3.8 and nothing else.


def _hq_keeping():
    import signal
    import socket
    import sys
    import threading
    import warnings

    # Without the enumerations around it, which take longer than many a call.
    plain = getattr(signal, "_signal", signal)
    words = ("HUP", "INT", "QUIT", "USR1", "USR2", "PIPE", "ALRM", "TERM", "CHLD", "CONT", "TSTP", "TTIN", "TTOU", "WINCH", "IO", "VTALRM", "PROF")
    numbers = [int(getattr(signal, "SIG" + word)) for word in words]
    handler_of, timeout_of = plain.getsignal, socket.getdefaulttimeout
    alarm, set_mask, mask_is, block = plain.alarm, plain.pthread_sigmask, int(signal.SIG_SETMASK), int(signal.SIG_BLOCK)
    set_handler = plain.signal
    # Whether handlers may have changed: to ask for each takes longer than many a call.
    is_touched = True

    def touch(number, handler):
        # What `signal.signal` calls, wherever that was imported.
        nonlocal is_touched
        is_touched = True
        return set_handler(number, handler)

    plain.signal = touch

    def note():
        # As it is before a function is called for the first time, with its modules loaded.
        return (
            list(sys.argv),
            list(sys.path),
            list(warnings.filters),
            threading.excepthook,
            timeout_of(),
            list(map(handler_of, numbers)),
            set_mask(block, ()),
        )

    def put_back(noted):
        nonlocal is_touched
        argv, path, filters, hook, timeout, handlers, mask = noted
        # First, as a timer that runs out where its handler is gone ends the interpreter.
        alarm(0)
        for is_now, was in ((sys.argv, argv), (sys.path, path)):
            if is_now != was:
                is_now[:] = was
        if warnings.filters != filters:
            warnings.filters[:] = filters
            getattr(warnings, "_filters_mutated", lambda: None)()
        threading.excepthook = hook
        if timeout_of() != timeout:
            socket.setdefaulttimeout(timeout)
        if is_touched and list(map(handler_of, numbers)) != handlers:
            for timer in (signal.ITIMER_VIRTUAL, signal.ITIMER_PROF):
                plain.setitimer(timer, 0)
            for number, handler in zip(numbers, handlers):
                # None is one that was not set from Python, and cannot be.
                if handler is not None and handler_of(number) != handler:
                    set_handler(number, handler)
        is_touched = False
        # Last, for what was blocked comes now.
        set_mask(mask_is, mask)

    return note, put_back


def _hq_recycling():
    import os
    import resource

    GROWTH_MAX = 2 << 30
    LOOK_SECONDS = 0.1
    page = resource.getpagesize()
    calls, calls_max, growth_max, first, looked = 0, 0, GROWTH_MAX, 0, 0.0

    def resident():
        with open("/proc/self/statm", "rb") as statm:
            return int(statm.read().split()[1]) * page

    def is_worn(now):
        # After a call, at this time of the monotonic clock: whether it is to be the last one.
        nonlocal calls, calls_max, growth_max, first, looked
        calls += 1
        if calls == 1:
            said = os.environ.get("HQ_PYTHON_RECYCLE", "").split()
            if len(said) == 2 and all(number.isdigit() for number in said):
                calls_max, growth_max = map(int, said)
            first, looked = resident(), now
        if calls == calls_max:
            return True
        if now - looked < LOOK_SECONDS:
            return False
        looked = now
        return resident() - first > growth_max

    return is_worn

"""Interpreters that are forked from one that has loaded what an environment preloads: how they begin, and how they end."""

import os
import queue
import random
import signal
import socket
import sys
import threading
import warnings
from pathlib import Path

import pytest

import headquarters as hq


@pytest.fixture
def modules(tmp_path):
    """A directory for modules."""
    return tmp_path


def why_not_forked():
    return sys.modules["_hq_runner"].why_not_forked


def parent_of(pid):
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def who():
    return os.getpid(), os.getppid(), os.getpgid(0), why_not_forked()


def name_of(pid):
    return Path(f"/proc/{pid}/comm").read_text().strip()


def zygotes_of(launcher):
    """Interpreters of no call: below the launcher, with no key in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if parent_of(path.name) == launcher and b"HQ_ACCESS_KEY=---" in (path / "environ").read_bytes():
                found.append(int(path.name))
        except (OSError, IndexError):
            continue
    return found


def test_interpreters_are_forked_with_what_is_preloaded(executor, modules):
    (modules / "counted_here.py").write_text("import os\nloaded_by = os.getpid()\n")
    env = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["counted_here"])

    def look():
        import counted_here

        return counted_here.loaded_by, *who()

    fresh = executor.options(env=env, fresh=True)
    found = [fresh.submit(look).result(60) for _ in range(3)]
    assert len({loader for loader, *_ in found}) == 1, "loaded once"
    assert len({pid for _, pid, *_ in found}) == 3, "an interpreter for each"
    for loader, pid, parent, group, why in found:
        assert why is None and loader != pid
        assert group == pid and name_of(parent) == "hq-launcher"


def test_those_of_other_jobs_find_a_module_as_it_is_now(cluster, modules):
    env = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["edited_here"])

    def look():
        import edited_here

        return edited_here.value, why_not_forked()

    for value in ("first", "the second"):
        (modules / "edited_here.py").write_text(f"value = {value!r}\n")
        with hq.Executor(cluster=cluster, env=env) as executor:
            assert executor.submit(look).result(60) == (value, None)


def test_forked_interpreters_have_chances_and_threads_of_their_own(executor):
    pytest.importorskip("numpy")
    env = hq.PythonEnv(sys.executable, preload=["numpy"])
    fresh = executor.options(env=env, fresh=True)

    def draw():
        import numpy

        return random.random(), float(numpy.random.random()), os.environ.get("OMP_NUM_THREADS"), why_not_forked()

    draws = [fresh.submit(draw).result(60) for _ in range(3)]
    assert len({draw[0] for draw in draws}) == 3
    assert len({draw[1] for draw in draws}) == 3
    assert {draw[2:] for draw in draws} == {("1", None)}
    assert fresh.options(cpus=2).submit(draw).result(60)[2:] == ("2", None)


def test_what_starts_threads_or_says_so_is_not_forked(executor, modules):
    (modules / "busy_here.py").write_text("import threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n")
    busy = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["busy_here"])
    assert "has started threads: there are 2" in executor.options(env=busy).submit(why_not_forked).result(60)
    report = busy.check(executor=executor)
    assert report.is_forked is False and "threads" in report.why_not_forked
    single = hq.PythonEnv(sys.executable, fork=False)
    assert executor.options(env=single).submit(why_not_forked).result(60) == "fork=False says so"
    report = hq.PythonEnv(sys.executable).check(executor=executor)
    assert (report.is_forked, report.why_not_forked) == (True, None)
    between = hq.PythonEnv(sys.executable, wrap=["setsid", "--wait"])
    assert executor.options(env=between).submit(who).result(60)[0] > 0


def test_a_zygote_that_is_killed_is_replaced_and_its_interpreters_go_on(executor):
    env = hq.PythonEnv(sys.executable, env={"KILLED": "yes"})
    view = executor.options(env=env)
    pid, launcher, _, why = view.submit(who).result(60)
    assert why is None
    zygotes = [zygote for zygote in zygotes_of(launcher) if b"KILLED=yes" in Path(f"/proc/{zygote}/environ").read_bytes()]
    assert len(zygotes) == 1
    os.kill(zygotes[0], signal.SIGKILL)
    assert view.submit(os.getpid).result(60) == pid
    assert view.options(fresh=True).submit(who).result(60)[0] != pid


def test_a_module_that_fails_or_kills_is_tried_again_and_then_said(executor, modules):
    count = modules / "count"
    (modules / "dying_here.py").write_text(
        f"import os, sys\nopen({str(count)!r}, 'a').write('x')\nprint('no licence', file=sys.stderr, flush=True)\nos._exit(3)\n"
    )
    env = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["dying_here"])
    futures = [executor.options(env=env).submit(abs, -1) for _ in range(3)]
    for future in futures:
        with pytest.raises(hq.EnvironmentBroken, match="(?s)exited with code 3 before it could .*It said:\nno licence"):
            future.result(60)
    assert count.read_text() == "xxx"


def test_calls_that_wait_for_what_hangs_can_be_canceled(executor, modules):
    (modules / "hanging_here.py").write_text("import time\ntime.sleep(1000)\n")
    env = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["hanging_here"])
    future = executor.options(env=env).submit(abs, -1)
    assert executor.submit(abs, -1).result(60) == 1, "others do not wait"
    assert future.cancel()


def test_interpreters_are_replaced_after_so_many_calls(executor):
    view = executor.options(env=hq.PythonEnv(sys.executable, max_calls=2))
    pids = [view.submit(os.getpid).result(60) for _ in range(5)]
    assert pids[0] == pids[1] != pids[2] == pids[3] != pids[4]
    assert view.options(env=None, fresh=True).submit(os.getpid).result(60) not in pids


def test_an_interpreter_that_grows_is_replaced(executor):
    view = executor.options(env=hq.PythonEnv(sys.executable, max_growth="64 MiB"))

    def eats(size):
        sys.eaten = getattr(sys, "eaten", b"") + bytes(size)
        return os.getpid()

    first = view.submit(eats, 1).result(60)
    assert view.submit(eats, 1).result(60) == first
    assert view.submit(eats, 100 << 20).result(60) == first
    # Some calls later it was looked at, and another one has begun.
    assert any(view.submit(os.getpid).result(60) != first for _ in range(100_000))


def test_wrong_limits_are_said():
    for given in ({"max_calls": 0}, {"max_growth": "2 bananas"}, {"fork": "yes"}):
        with pytest.raises((TypeError, ValueError), match=next(iter(given))):
            hq.PythonEnv(**given)


def test_what_a_call_changes_is_put_back(executor):
    def look():
        return (
            sys.argv[:],
            sys.path[:],
            len(warnings.filters),
            threading.excepthook is threading.__excepthook__,
            socket.getdefaulttimeout(),
            signal.getsignal(signal.SIGUSR1),
            os.getcwd(),
            os.environ.get("LEFT"),
        )

    def spoil():
        sys.argv.append("left")
        sys.path.append("/left")
        warnings.simplefilter("error")
        threading.excepthook = print
        socket.setdefaulttimeout(3)
        signal.signal(signal.SIGUSR1, signal.SIG_IGN)
        os.chdir("/")
        os.environ["LEFT"] = "x"
        os.umask(0o777)
        return os.getpid()

    before, pid = executor.submit(look).result(60), executor.submit(os.getpid).result(60)
    assert executor.submit(spoil).result(60) == pid
    assert executor.submit(look).result(60) == before
    assert executor.submit(os.getpid).result(60) == pid


def test_tools_that_are_missing_are_said(cluster, monkeypatch, modules):
    for option, word in (({"conda": "nope"}, "conda"), ({"modules": ["gcc"]}, "module")):
        with pytest.raises(hq.EnvironmentBroken, match=f"there is no command {word} here, which .* needs"):
            hq.PythonEnv(sys.executable, **option).check(cluster=cluster)
    conda = modules / "conda"
    conda.write_text("#!/bin/sh\necho 'conda() { return 1; }'\n")
    conda.chmod(0o700)
    path = f"{modules}:{os.environ['PATH']}"
    with pytest.raises(hq.EnvironmentBroken, match="conda activate nope has failed"):
        hq.PythonEnv(sys.executable, conda="nope", env={"PATH": path}).check()


def test_nothing_is_left_when_a_worker_is_killed(modules):
    with hq.LocalCluster(cpus=1) as cluster, hq.Executor(cluster=cluster) as executor:
        pid, launcher, _, why = executor.submit(who).result(60)
        zygotes = zygotes_of(launcher)
        assert why is None and len(zygotes) == 1
        watched = [os.pidfd_open(number) for number in (pid, launcher, *zygotes)]
        os.kill(parent_of(launcher), signal.SIGKILL)
        import select

        for number in watched:
            assert select.select([number], [], [], 60)[0], "it has ended"
            os.close(number)
        cluster.stop()


def doubled(number):
    return 2 * number


def calls_with_all_that_calls_may_be_given():
    calls = hq.current()
    first, put = calls.submit(doubled, 1), calls.put([4])

    def reads(handle):
        return handle.get()

    return calls.submit(max, first, 3).result(), calls.submit(reads, hq.lazy(first)).result(), calls.submit(len, put).result()


def test_the_package_may_be_loaded_before_interpreters_are_forked(executor):
    env = hq.PythonEnv(sys.executable, preload=["headquarters.aio"])
    assert executor.options(env=env).submit(why_not_forked).result(60) is None
    assert executor.options(env=env).submit(calls_with_all_that_calls_may_be_given).result(60) == (3, 2, 1)


def test_once_a_call_has_called_others_interpreters_have_loaded_what_that_takes(executor):
    def looks():
        return "headquarters._guest" in sys.modules, why_not_forked()

    def returns():
        return hq.current().submit(doubled, 2)

    env = hq.PythonEnv(sys.executable, env={"WHO": "returns"})
    fresh = executor.options(env=env, fresh=True)
    assert fresh.submit(looks).result(60) == (False, None)
    assert fresh.submit(returns).result(60) == 4
    assert fresh.submit(looks).result(60) == (True, None)
    env = hq.PythonEnv(sys.executable, env={"WHO": "waits"})
    fresh = executor.options(env=env, fresh=True)
    assert fresh.submit(looks).result(60) == (False, None)
    for _ in range(2):
        assert executor.options(env=env).submit(calls_with_all_that_calls_may_be_given).result(60) == (3, 2, 1)
        assert fresh.submit(calls_with_all_that_calls_may_be_given).result(60) == (3, 2, 1)
        assert [fresh.submit(looks).result(60) for _ in range(2)] == [(True, None)] * 2


def test_what_is_not_installed_is_not_loaded_for_others(cluster, modules):
    # The package finds the user's own in place of a module of Python: another job may find another one.
    (modules / "queue.py").write_text(f"{Path(queue.__file__).read_text()}\nis_mine = True\n")

    def looks():
        import queue

        return "headquarters._guest" in sys.modules, hasattr(queue, "is_mine"), why_not_forked()

    variables = {"PYTHONPATH": str(modules)}
    with hq.Executor(cluster=cluster, env=hq.PythonEnv(sys.executable, env=variables)) as executor:
        fresh = executor.options(fresh=True)
        for _ in range(2):
            assert executor.submit(calls_with_all_that_calls_may_be_given).result(60) == (3, 2, 1)
            assert fresh.submit(looks).result(60) == (False, True, None)


@pytest.mark.parametrize(
    "does", ["raise ImportError", "os._exit(3)", "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"]
)
def test_a_package_that_cannot_be_forked_with_is_left_to_each_interpreter(executor, modules, does):
    # What it is there is of no matter: a child of the zygote has tried it.
    (modules / "mine_here.py").touch()
    (modules / "headquarters").mkdir()
    tried = modules / "tried"
    text = f"import os, threading, time\nopen({str(tried)!r}, 'a').write('x')\n{does}\n"
    (modules / "headquarters" / "__init__.py").write_text(text)
    (modules / "headquarters" / "_nested.py").touch()
    env = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["mine_here"])

    def waits():
        import sys

        runner = sys.modules["_hq_runner"]
        if runner.waits():
            runner.goes_on()
        return "headquarters" in sys.modules, runner.why_not_forked

    fresh = executor.options(env=env, fresh=True)
    assert [fresh.submit(waits).result(60) for _ in range(3)] == [(False, None)] * 3
    assert tried.read_text() == "x"

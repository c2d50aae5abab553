"""What cannot be is said at once, with the thing, the value and what to do instead."""

import concurrent.futures
import datetime
import math
import re
import threading

import pytest

import headquarters as hq
from headquarters import _errors as errors
from headquarters import Client, LocalCluster, aio


@pytest.mark.parametrize(
    ("options", "kind", "said"),
    [
        ({"retry": "x"}, TypeError, "retry is 'x': give a whole number from 0"),
        ({"retry": -1}, ValueError, "retry is -1: give a whole number from 0"),
        ({"retry": True}, TypeError, "retry is True: give a whole number"),
        ({"retry": 10**12}, ValueError, "retry is 1000000000000: give a whole number from 0, at most 4294967295"),
        ({"priority": 1.5}, TypeError, "priority is 1.5: give a whole number from -2147483648 to 2147483647"),
        ({"crash_limit": [1]}, TypeError, "crash_limit is [1]: give a whole number from 1"),
        ({"retry_on": [None]}, TypeError, "retry_on is [None]: give exit codes from 1 to 255, 'signal', 'timeout', or a list"),
        ({"retry_on": None}, TypeError, "retry_on is None: give exit codes"),
        ({"retry_on": -1}, ValueError, "retry_on is -1: give exit codes from 1 to 255, 'signal', 'timeout', or a list of these, as in [75"),
        ({"retry_on": "abc"}, ValueError, "retry_on is 'abc': give exit codes from 1"),
        ({"retry_on": b"x"}, TypeError, "retry_on is b'x': give exit codes from 1"),
        ({"cpus": ""}, ValueError, "cpus is '': give a number, or a text such as"),
        ({"resources": {"fpga": " "}}, ValueError, "resources['fpga'] is ' ': give a number"),
        ({"time_limit": 10**30}, ValueError, f"time_limit is {10**30}: durations go up to 1000 years"),
        ({"retry_delay": 10**400}, ValueError, "durations go up to 1000 years"),
        ({"expect": datetime.timedelta(400_000)}, ValueError, "(days=400000): durations go up to 1000 years"),
        ({"locality": 3}, TypeError, "locality is 3: give a text"),
        ({"pin": "x"}, ValueError, "pin is 'x': give 'taskset', 'omp' or 'none'"),
        ({"cwd": 3}, TypeError, "cwd is 3: give a path"),
        ({"stdout": None}, TypeError, "stdout is None: give a path"),
        ({"stderr": "a\0b"}, ValueError, "stderr is 'a\\x00b': no text may have a NUL"),
        ({"variables": ["A"]}, TypeError, "variables is ['A']: give a dict of variables"),
        ({"variables": {"A=B": "1"}}, ValueError, "a variable of variables is 'A=B': give a name without ="),
        ({"variables": {"A": None}}, TypeError, "variables['A'] is None: give a text, such as 'None'"),
        ({"resources": 3}, TypeError, "resources is 3: give a dict of amounts"),
        ({"resources": {"fpga": None}}, TypeError, "resources['fpga'] is None: give a number"),
        ({"cpus": None}, TypeError, "cpus is None: give a number, or a text such as '2 compact'"),
        ({"cpus": math.nan}, ValueError, "cpus is nan: give a number"),
        ({"memory": []}, TypeError, "memory is []: give a number"),
        ({"time_limit": None}, TypeError, "time_limit is None: give seconds, a timedelta, or a text such as '10m'; leave"),
        ({"time_limit": math.inf}, ValueError, "time_limit is inf: give seconds"),
        ({"kill_grace": -1}, ValueError, "kill_grace is -1: give seconds"),
        ({"expect": datetime.timedelta(-1)}, ValueError, "expect is datetime.timedelta(days=-1): give seconds"),
        ({"env": "venv"}, TypeError, "env is 'venv': give a PythonEnv; variables= sets variables"),
        ({"cpu": 1}, TypeError, "'cpu' is no option of a call; cpus is one; there are: cpus, "),
        ({"mp_context": None}, TypeError, "mp_context belongs to executors of the standard library: calls run in interp"),
        ({"max_tasks_per_child": 3}, TypeError, "max_tasks_per_child belongs to executors of the standard library"),
        ({"thread_name_prefix": "x"}, TypeError, "thread_name_prefix belongs to executors of the standard library"),
    ],
)
def test_options_say_what_is_wrong_with_them(make, options, kind, said):
    executor, _ = make()
    with pytest.raises(kind, match=re.escape(said)):
        executor.options(**options)
    with pytest.raises(kind, match=re.escape(said)):
        hq.Executor(cluster="/nowhere", **options)


def test_options_of_tasks_say_it_when_the_task_is_made():
    for options, said in [
        ({"retry": "x"}, "retry is 'x': give a whole number"),
        ({"priority": "x"}, "priority is 'x'"),
        ({"crash_limit": 1.5}, "crash_limit is 1.5: give a whole number from 1"),
        ({"time_limit": [1]}, "time_limit is [1]: give seconds"),
        ({"env": {"A": None}}, "env['A'] is None: give a text"),
        ({"env": 3}, "env is 3: give a dict"),
        ({"cwd": 3}, "cwd is 3: give a path"),
        ({"name": 3}, "name is 3: give a text"),
        ({"deps": 3}, "deps is 3: give tasks of this job"),
        ({"deps": [1]}, "deps[0] is 1: give tasks of this job"),
        ({"resources": "2"}, "resources is '2': give ResourceRequest(cpus=2), or a list of such"),
        ({"after": 3}, "after is 3: give a list of jobs, such as [3]"),
        ({"outputs": "x"}, "outputs is 'x': give a list of texts: ['x']"),
        ({"key": 3}, "key is 3: give a text"),
        ({"stdin": 3}, "stdin is 3: give a text or bytes"),
        ({"task_dir": "x"}, "task_dir is 'x': give True or False"),
    ]:
        with pytest.raises(hq.ValidationException, match=re.escape(said)):
            hq.Job().program(["true"], **options)
    for make, said in [
        (lambda: hq.Job().program(3), "args is 3: give the program and its arguments"),
        (lambda: hq.Job().program("a 'b"), "No closing quotation; close it, or give a list"),
        (lambda: hq.Job().function(3), "the function of a task is 3: it cannot be called"),
        (lambda: hq.Job().function(abs, args=3), "args is 3: give a tuple of arguments, as in (1,)"),
        (lambda: hq.Job(max_fails="x"), "max_fails is 'x': give a whole number"),
        (lambda: hq.Job(broadcast="data"), "broadcast is 'data': give a list of texts: ['data']"),
        (lambda: hq.Job(notify=[3]), "notify[0] is 3: give a text"),
        (lambda: hq.Job(name="a\nb"), "name is 'a\\nb': give a name of 1 to 4096 bytes without tabs and newlines"),
        (lambda: hq.ResourceRequest(cpus=None), "cpus is None: give a number"),
        (lambda: hq.ResourceRequest(n_nodes="x"), "n_nodes is 'x': give a whole number"),
        (lambda: hq.LocalCluster(cpus="x"), "cpus is 'x': give a whole number from 1"),
    ]:
        with pytest.raises(hq.ValidationException, match=re.escape(said)):
            make()


def test_a_task_waits_for_tasks_of_its_own_job_only():
    first, second = hq.Job(name="A"), hq.Job(name="B")
    prepare = first.program(["true"])
    second.program(["true"])
    for add in (lambda: second.program(["true"], deps=[prepare]), lambda: second.function(abs, args=(1,), deps=[prepare])):
        with pytest.raises(hq.ValidationException, match="^task 0 of job A is no task of job B: give tasks of this job, or after="):
            add()
    assert len(second.tasks) == 1
    with pytest.raises(hq.ValidationException, match="^task 0 of another job is no task of this job: "):
        hq.Job().program(["true"], deps=[hq.Job().program(["true"])])
    assert first.program(["true"], deps=[prepare]).dependencies == [prepare]


def test_executors_say_what_cannot_be():
    for arguments, said in [
        ({"max_workers": "4"}, "max_workers is '4': give a whole number from 1"),
        ({"max_workers": 2.5}, "max_workers is 2.5: give a whole number from 1"),
        ({"max_workers": 0}, "max_workers is 0: give a whole number from 1"),
        ({"initializer": 3}, "initializer is 3: it cannot be called; give a function"),
        ({"initializer": abs, "initargs": 3}, "initargs is 3: give a tuple of arguments, as in (1,)"),
        ({"cluster": 3}, "the server_dir of cluster is 3: give a path"),
        ({"cluster": "/nowhere", "job": "x"}, "job is 'x': give a whole number from 0"),
        ({"cluster": "/nowhere", "name": "a\nb"}, "name is 'a\\nb': give a name of 1 to 4096 bytes"),
        ({"cluster": "/nowhere", "max_fails": -1}, "max_fails is -1: give a whole number from 0"),
        ({"cluster": "/nowhere", "echo": "abc"}, "echo is 'abc': give True or False"),
        ({"cluster": "/nowhere", "linger": 10**30}, f"linger is {10**30}: durations go up to 1000 years"),
        ({"cluster": "/nowhere", "linger": -1}, "linger is -1: give seconds, a timedelta, or a text"),
        ({"cluster": "/nowhere", "on_finish": 3}, "on_finish is 3: give a command, a URL or 'mailto:ADDRESS', or a list of such texts"),
        ({"cluster": "/nowhere", "stall_after": None}, "stall_after is None: give seconds"),
    ]:
        with pytest.raises(ValueError, match=re.escape(said)):
            hq.Executor(**arguments)


def test_a_number_beyond_both_bounds_is_told_these_once(make):
    executor, _ = make()
    with pytest.raises(ValueError, match=r"give a whole number from -2147483648 to 2147483647$"):
        executor.options(priority=10**30)


def test_timeouts_are_numbers(make):
    executor, _ = make()
    future, results = executor.submit(abs, -1), executor.starmap(abs, [(-1,)])
    for call, said in [
        (lambda: future.result(timeout="a"), "the timeout of result is 'a': give a number of seconds"),
        (lambda: future.exception("a"), "the timeout of exception is 'a': give a number of seconds"),
        (lambda: results.wait("a"), "the timeout of wait is 'a': give a number of seconds"),
        (lambda: executor.map(abs, [1], timeout="a"), "the timeout of map is 'a': give a number of seconds"),
    ]:
        with pytest.raises(TypeError, match=f"^{re.escape(said)}"):
            call()


def test_modules_by_value_are_modules():
    with pytest.raises(TypeError, match="^the module of by_value is 'json': give the module itself, as in"):
        hq.by_value("json")


def test_an_array_has_no_call_beyond_its_end(make):
    executor, _ = make(automatic=True)
    results = executor.starmap(abs, [(-1,), (-2,)])
    for ask in (lambda: results[2], lambda: results[-3], lambda: results.task(2), lambda: results.exception(2)):
        with pytest.raises(IndexError, match=r"^there is no call -?\d: there are 2, from 0$"):
            ask()
    for ask in (lambda: results["x"], lambda: results.task(None), lambda: results.exception("x")):
        with pytest.raises(hq.ValidationException, match=r"^the index of a call is ('x'|None): give a whole number$") as caught:
            ask()
        assert isinstance(caught.value, TypeError)


def test_who_is_interrupted_while_an_exception_is_waited_for_does_not_get_that(make, monkeypatch):
    executor, _ = make()
    results = executor.starmap(abs, [(-1,)])

    def interrupt(*waiting):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(type(results._blocks[0]), "wait", interrupt)
        with pytest.raises(KeyboardInterrupt):
            results.exception(0)


def test_a_server_that_is_not_there_is_named_in_words_of_python():
    for ask in (lambda: Client("/nowhere"), lambda: hq.Executor(cluster="/nowhere")):
        with pytest.raises(hq.NativeError) as caught:
            ask()
        assert caught.value.code == "no-access"
        assert "Client(server_dir), Executor(cluster=server_dir), or HQ_SERVER_DIR" in str(caught.value)
        assert "--server-dir" not in str(caught.value)


def test_what_cannot_be_called_is_no_call(make):
    executor, calls = make()
    for submit, what in [
        (lambda: executor.submit(3), "the first argument of submit is 3"),
        (lambda: executor.submit(None, 1), "the first argument of submit is None"),
        (lambda: executor.submit_named("a", 3), "the function of submit_named is 3"),
        (lambda: executor.submit_named(3, abs), "the key of submit_named is 3: give a text"),
        (lambda: executor.map(3, [1]), "the first argument of map is 3"),
        (lambda: executor.starmap("abs", []), "the first argument of starmap is 'abs'"),
        (lambda: executor.map(abs, [1], 5), "iterable 1 of map is 5: give a list, such as [1, 2]"),
        (lambda: executor.starmap(abs, 5), "rows is 5: give a list, such as [(1, 2), (3, 4)]"),
        (lambda: hq.task(5), "the function of task is 5: it cannot be called; write @task or @task(cpus=2) above"),
        (lambda: executor.starmap(abs, [1]), "row 0 of starmap is 1: give a tuple of arguments, or use map"),
    ]:
        with pytest.raises(TypeError, match=f"^{re.escape(what)}"):
            submit()
    assert not calls.submits


def test_environments_say_what_cannot_be():
    for make, said in [
        (lambda: hq.PythonEnv(prologue=["a"]), "prologue is ['a']: give a text"),
        (lambda: hq.PythonEnv(3), "python_bin is 3: give a text"),
        (lambda: hq.PythonEnv(env=["A"]), "env is ['A']: give a dict of variables"),
        (lambda: hq.PythonEnv(env={"A": None}), "env['A'] is None: give a text, such as 'None'"),
        (lambda: hq.PythonEnv(venv=3), "venv is 3: give a path"),
        (lambda: hq.PythonEnv(preload=3), "preload is 3: give a list of texts"),
        (lambda: hq.PythonEnv(modules=["gcc", 3]), "modules[1] is 3: give a text"),
        (lambda: hq.PythonEnv(max_growth=0), "max_growth is 0: give bytes, from 1, or a text such as '2 GiB'"),
        (lambda: hq.PythonEnv(max_growth="0 GiB"), "max_growth is '0 GiB': give bytes, from 1"),
        (lambda: hq.PythonEnv(max_growth="much"), "max_growth is 'much': give bytes, from 1"),
        (lambda: hq.PythonEnv().check(timeout="x"), "timeout is 'x': give a number of seconds"),
        (lambda: hq.PythonEnv().check(timeout=-1), "timeout is -1: give a number of seconds"),
    ]:
        with pytest.raises(hq.ValidationException, match=re.escape(said)):
            make()
    for options, said in [
        ({"python_bin": "/p", "venv": "v"}, "python_bin='/p' and venv='v' both say which interpreter; give one of them"),
        ({"venv": "v", "conda": "c"}, "conda='c' and venv='v' both say which interpreter; give one of them"),
    ]:
        with pytest.raises(TypeError, match=f"^{re.escape(said)}$"):
            hq.PythonEnv(**options)
    with pytest.raises(hq.ValidationException) as caught:
        hq.PythonEnv(max_growth=-1)
    assert not isinstance(caught.value, TypeError), "the type is right, and the value is not"
    assert hq.PythonEnv(env={"A": 1}).env == {"A": "1"}


def test_who_waits_for_many_gives_a_list_of_futures(make):
    executor, _ = make(automatic=True)
    first, second, third = (executor.submit(abs, -1) for _ in range(3))
    for call, said in [
        (lambda: hq.wait(first), "wait takes one list of futures: wait([first, second])"),
        (lambda: hq.wait(3), "wait takes a list of futures, and not 3"),
        (lambda: hq.as_completed(first), "as_completed takes one list of futures"),
        (lambda: hq.gather(first, second), "gather takes one list of futures: gather([first, second])"),
        (lambda: hq.gather(first, second, third), "gather takes one list of futures"),
        (lambda: hq.gather([first], "skip", third), "gather takes one list of futures"),
        (lambda: hq.gather([first, 3]), "gather takes a list of futures, and element 1 is 3: submit(...) gives one"),
        (lambda: hq.wait([first], timeout="x"), "timeout is 'x': give a number of seconds"),
        (lambda: hq.as_completed([first], timeout="x"), "timeout is 'x': give a number of seconds"),
        (lambda: hq.get([first], timeout="x"), "timeout is 'x': give a number of seconds"),
        (lambda: hq.get(first), f"refs is {first!r}: give a list of Refs and Futures, as in get([ref]); of one, future.result() is"),
        (lambda: hq.get(5), "refs is 5: give a list, such as [ref]"),
    ]:
        with pytest.raises(TypeError, match=f"^{re.escape(said)}"):
            call()
    for call, said in [
        (lambda: hq.wait([], return_when="X"), "return_when is 'X': give FIRST_COMPLETED, FIRST_EXCEPTION or ALL_COMPLETED"),
        (lambda: hq.gather([first], errors="X"), "errors is 'X': give 'raise', 'return' or 'skip'"),
    ]:
        with pytest.raises(hq.ValidationException, match=f"^{said}$"):
            call()


class Exits:
    def __reduce__(self):
        raise SystemExit(3)


def test_what_wants_to_exit_while_it_is_pickled_ends_its_call_only(make):
    executor, _ = make(automatic=True)
    evil = Exits()
    for future in (executor.submit(abs, evil), executor.submit(abs, x=[1, evil])):
        error = future.exception(30)
        assert isinstance(error, errors.ArgumentsNotPicklable) and "SystemExit: 3" in str(error)
    assert future.exception().path == "kwargs['x'][1]"
    assert isinstance(executor.submit(lambda: evil).exception(30), errors.ArgumentsNotPicklable)
    assert isinstance(executor.starmap(abs, [(evil,)]).exception(0), errors.ArgumentsNotPicklable)


def test_what_stays_in_its_process_says_what_to_give_instead(make):
    executor, calls = make(automatic=True)
    results = executor.starmap(abs, [(-1,)])
    for value, instead in [
        (executor, "TypeError: an executor stays in its process; within a call, headquarters.current() is one"),
        (results, "TypeError: an array of results stays in its process; give the values, as list(results)"),
    ]:
        error = executor.submit(lambda: value).exception(30)
        assert str(error).startswith(f"function.<value> cannot be sent: {instead}") and error.path == "function.<value>"
    assert executor.submit(executor.submit, abs, 1).exception(30).path == "function.__self__"
    cluster = object.__new__(LocalCluster)
    assert "give its server_dir" in str(executor.submit(abs, cluster).exception(30))
    client = object.__new__(Client)
    client.lock = threading.Lock()
    assert "give its server_dir" in str(executor.submit(abs, client).exception(30))


def test_futures_to_be_awaited_are_arguments_like_others(make):
    executor, _ = make(automatic=True)
    assert executor.submit(abs, aio.Future(executor.submit(abs, -4))).result(30) == 4


def test_what_takes_too_long_is_named_by_its_place(make):
    executor, calls = make()
    last = executor.submit(abs, 0)
    values = executor.map(abs, [-1, -2, -3], timeout=0)
    results = executor.starmap(abs, [(-1,), (-2,), (-3,)])
    calls.until_submitted(7)
    for task in (1, 4, 0):
        calls.run(task)
    # When the end of the last one is heard, those of the others have been.
    last.result(30)
    assert next(values) == 1
    with pytest.raises(concurrent.futures.TimeoutError, match=r"^element 1 of the map of abs \(7@2\) has not ended after 0 s"):
        next(values)
    with pytest.raises(concurrent.futures.TimeoutError, match=r"^call 1 of 3 of abs \(7@5\) has not ended after 0 seconds; 1 have"):
        results.wait(0)


def test_a_result_that_is_too_large_says_what_to_do(make):
    import fake

    executor, calls = make()
    future = executor.submit(abs, -1)
    calls.until_submitted(1)
    calls.end(0, 1, fake.failed("too-large", b"", "", "it takes 20000 bytes, and at most 16384 are kept", ""), "exit")
    assert str(future.exception(30)).endswith("16384 are kept; write large values to a file, and return its path")


@pytest.mark.parametrize("name", ["a\nb", "\u00e9" * 300, "", "\ud800"])
def test_functions_may_be_called_anything(make, name):
    def f():
        return 1

    f.__qualname__ = name
    executor, calls = make(automatic=True)
    assert executor.submit(f).result(30) == 1
    sent = calls.submits[0][0][1]
    assert sent and sent.isprintable() and len(sent.encode()) <= 200

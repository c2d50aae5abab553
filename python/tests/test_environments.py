"""Environments of functions: what they load, several at once, and whether they work, on a real cluster."""

import platform
import sys
from pathlib import Path

import pytest

import headquarters as hq

OTHERS = [
    python
    for python in sorted(Path.home().glob(".pyenv/versions/3.*/bin/python"))
    if (3, 10) <= tuple(map(int, python.parts[-3].split(".")[:2])) != sys.version_info[:2]
]


@pytest.fixture
def modules(tmp_path):
    """A directory with a module `found`, and one with a module that cannot be imported."""
    (tmp_path / "found_here.py").write_text("__version__ = '2.5'\n")
    (tmp_path / "broken_here.py").write_text("raise OSError('no library of that name')\n")
    return tmp_path


def script(path, text):
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o700)
    return str(path)


def loaded():
    return [name for name in sys.modules if name.endswith("_here")], sys.path[0]


def test_modules_are_imported_before_the_first_call(executor, modules):
    env = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["found_here", "json.tool"])
    with_env = executor.options(env=env)
    assert with_env.submit(loaded).result(60) == (["found_here"], str(modules))
    assert executor.submit(loaded).result(60)[0] == [], "other environments have interpreters of their own"
    assert with_env.options(env=None).submit(loaded).result(60)[0] == []


def told():
    import os

    return loaded()[0], os.environ.get("MINE"), os.environ.get("ITS")


def told_within(depth):
    return hq.current().submit(told_within, depth - 1).result() if depth else told()


def test_calls_within_calls_inherit_what_theirs_was_given(executor, modules):
    env = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["found_here"], env={"ITS": "b"})
    given = executor.options(env=env, variables={"MINE": "a"})
    assert given.submit(told_within, 2).result(60) == (["found_here"], "a", "b")
    assert executor.options(variables={"MINE": "a"}).submit(told_within, 1).result(60) == ([], "a", None)
    assert executor.submit(told_within, 1).result(60) == ([], None, None)


def test_a_module_that_cannot_be_imported_is_named(executor, modules):
    env = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["found_here", "broken_here"])
    futures = [executor.options(env=env).submit(abs, -1) for _ in range(3)]
    for future in futures:
        with pytest.raises(hq.EnvironmentBroken, match=r"^the module broken_here, which preload names, cannot be impo") as caught:
            future.result(60)
        assert str(caught.value).endswith(f"by {sys.executable}: OSError: no library of that name")


def test_an_initializer_runs_after_what_is_loaded(cluster, modules):
    def start(names):
        names.append(sys.modules["found_here"].__version__)
        sys.found = names

    env = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["found_here"])
    with hq.Executor(cluster=cluster, env=env, initializer=start, initargs=([],)) as executor:
        assert executor.submit(lambda: sys.found).result(60) == ["2.5"]


def test_jobs_of_functions_load_them_too(cluster, modules, tmp_path):
    env = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["found_here"])
    client = cluster.client(python_env=env)
    job = hq.Job(default_workdir=tmp_path)
    task = job.function(loaded)
    submitted = client.submit(job)
    assert client.wait_for_jobs([submitted])
    assert submitted.result(task) == (["found_here"], str(modules))


@pytest.mark.skipif(not OTHERS, reason="there is no other release of Python here")
def test_several_interpreters_live_in_one_executor(executor):
    views = {python: executor.options(env=hq.PythonEnv(str(python))) for python in OTHERS}
    futures = {python: view.submit(platform.python_version) for python, view in views.items()}
    ours = executor.submit(platform.python_version)
    for python, future in futures.items():
        assert future.result(60) == python.parts[-3]
    assert ours.result(60) == platform.python_version()
    for python, view in views.items():
        wanted = ".".join(map(str, sys.version_info[:2]))
        with pytest.raises(hq.EnvironmentBroken, match=f"by value from Python {wanted}, and this is Python"):
            view.submit(lambda: 1).result(60)


@pytest.mark.skipif(not OTHERS, reason="there is no other release of Python here")
def test_a_check_says_which_python_there_is(cluster):
    for where in ({}, {"cluster": cluster}):
        report = hq.PythonEnv(str(OTHERS[0])).check(**where)
        assert (report.python, report.has_minor_of_client) == (OTHERS[0].parts[-3], False)


def test_a_check_tells_what_there_is(cluster, executor, modules, monkeypatch):
    import cloudpickle

    monkeypatch.setattr("tempfile.tempdir", str(modules / "temporary"))
    (modules / "temporary").mkdir()
    env = hq.PythonEnv(sys.executable, "echo noise", sys_path=[modules], preload=["found_here", "json", "pytest"])
    for where in ({}, {"cluster": cluster}, {"executor": executor}):
        report = env.check(**where)
        assert (report.executable, report.python) == (sys.executable, platform.python_version())
        assert report.platform == platform.platform()
        assert report.modules == {"found_here": "2.5", "json": "2.0.9", "pytest": pytest.__version__}
        assert (report.cloudpickle, report.has_minor_of_client) == (cloudpickle.__version__, True)
    assert list((modules / "temporary").iterdir()) == []


def test_a_check_of_what_is_broken_says_how(cluster, modules):
    missing = hq.PythonEnv("/nowhere/python")
    wordy = hq.PythonEnv(script(modules / "wordy", "echo no licence >&2\nexit 3\n"))
    silent = hq.PythonEnv(script(modules / "silent", "kill -9 $$\n"))
    broken = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["broken_here"])
    for where in ({}, {"cluster": cluster}):
        with pytest.raises(hq.EnvironmentBroken, match=r"(?s)/nowhere/python.*(No such file|does not exist)"):
            missing.check(**where)
        with pytest.raises(hq.EnvironmentBroken, match=r"(?s)wordy.* exited with code 3 .* It said:\nno licence"):
            wordy.check(**where)
        with pytest.raises(hq.EnvironmentBroken, match="(?s)silent.* signal 9.*, and said nothing"):
            silent.check(**where)
        with pytest.raises(hq.EnvironmentBroken, match="the module broken_here, which preload names"):
            broken.check(**where)
    with pytest.raises(TypeError, match="give one of them"):
        missing.check(cluster=cluster, executor=cluster)


def test_a_check_waits_no_longer_than_it_should(cluster, modules):
    hangs = hq.PythonEnv(script(modules / "hangs", "echo asking for a licence >&2\nsleep 1000\n"))
    with pytest.raises(hq.EnvironmentBroken, match=r"within 1 seconds. It said:\nasking for a licence"):
        hangs.check(timeout=1)
    # Its last words are known when calls do not wait any more for what others are forked from.
    with pytest.raises(hq.EnvironmentBroken, match=r"(?s)hangs` has not answered within 20 seconds.*asking for a licence"):
        hangs.check(cluster=cluster, timeout=20)


def test_what_is_imported_without_end_or_ends_the_interpreter_is_named(modules):
    (modules / "hangs_here.py").write_text("import threading\nthreading.Event().wait()\n")
    (modules / "exits_here.py").write_text("import os\nos._exit(3)\n")
    for module, how in (("hangs_here", "has not answered within 1 seconds"), ("exits_here", "exited with code 3 before it had answered")):
        env = hq.PythonEnv(sys.executable, sys_path=[modules], preload=["found_here", module])
        with pytest.raises(hq.EnvironmentBroken, match=f" {how}, while it imported the module {module}, which preload names"):
            env.check(timeout=1 if module == "hangs_here" else 60)


def test_an_interpreter_that_a_module_ends_is_told_without_what_shells_are_told(executor, modules):
    (modules / "exits_here.py").write_text("import os\nos._exit(3)\n")
    env = hq.PythonEnv(sys_path=[modules], preload=["exits_here"])
    with pytest.raises(hq.EnvironmentBroken) as caught:
        executor.options(env=env).submit(abs, -1).result(60)
    said = f"The interpreter `{sys.executable}` exited with code 3 before it could call a function, and said nothing; check() of"
    assert str(caught.value).startswith(said)


def test_a_release_that_is_too_old_is_named(cluster, executor, modules):
    # An interpreter that gives itself out for an old one.
    program = "import sys; sys.version_info = (3, 6, 15, 'final', 0); code = sys.argv[2]; sys.argv[1:] = []; exec(code)"
    old = hq.PythonEnv(script(modules / "old", f'exec {sys.executable} -c "{program}" "$@"\n'))
    said = "(?s)exited with code 1 .*this is Python 3.6, and functions need 3.8 or later"
    with pytest.raises(hq.EnvironmentBroken, match=said):
        old.check()
    with pytest.raises(hq.EnvironmentBroken, match=said):
        executor.options(env=old).submit(abs, -1).result(60)


def test_directories_that_are_missing_are_passed_over(executor, modules):
    env = hq.PythonEnv(sys.executable, sys_path=[modules / "missing", modules], preload=["found_here"])
    assert env.check().modules == {"found_here": "2.5"}
    assert executor.options(env=env).submit(abs, -1).result(60) == 1


def test_a_check_here_has_the_cloudpickle_that_calls_would_have(modules):
    import cloudpickle

    # An environment without packages.
    assert hq.PythonEnv(script(modules / "bare", f'exec {sys.executable} -S "$@"\n')).check().cloudpickle == cloudpickle.__version__


def test_an_environment_is_shown_without_what_shells_are_told():
    assert repr(hq.PythonEnv()) == f"<PythonEnv `{sys.executable}`, or `python3` where that is missing>"
    assert repr(hq.PythonEnv("/p", preload=["json", "csv"])) == "<PythonEnv `/p`, which loads json, csv>"


def test_lists_are_no_texts():
    for given, words in (("apptainer exec", ["apptainer", "exec"]), ("a 'b c'", ["a", "b c"]), ("a 'b", ["a 'b"])):
        with pytest.raises(TypeError) as caught:
            hq.PythonEnv(wrap=given)
        assert str(caught.value).endswith(f"is a single text: write {words!r}")
    with pytest.raises(TypeError, match=r"write \['/my files'\]"):
        hq.PythonEnv(sys_path="/my files")
    for name in ("preload", "sys_path", "wrap", "modules"):
        with pytest.raises(TypeError, match=f"{name} is a list, and 'numpy' is a single text: write \\['numpy'\\]"):
            hq.PythonEnv(**{name: "numpy"})

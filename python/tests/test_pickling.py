"""Functions as bytes: which are pickled again, and what runs in an interpreter before the first call."""

import functools
import pickle
import sys

import fake
from headquarters import _errors as errors
from headquarters import _fingerprint
from headquarters import _limits as limits
from headquarters._pickling import Codes, dumps_short_entry


def helper(x):
    return x + OFFSET


OFFSET = 1


def codes_of(*functions):
    codes = Codes()
    return [codes.of(function) for function in functions]


def test_plain_arguments_are_sent_with_the_call_unless_they_are_long():
    for args in ((), (1, 2.5, None, True), ("__main__", b"__main__", 10**100)):
        data, futures = dumps_short_entry(args, {})
        assert pickle.loads(data) == (args, {}) and futures == []
    for long in ("x", b"x"):
        assert dumps_short_entry((long * limits.ARGUMENTS_BYTES,), {}) is None


def test_a_function_that_stays_is_pickled_once():
    a = 5
    of_closure = lambda x: x + a  # noqa: E731
    for function in (helper, len, of_closure, int, int.__add__, str.upper, lambda: helper(1)):
        one, two = codes_of(function, function)
        assert one is two and one.fingerprint is not None


def test_a_changed_cell_global_or_default_is_noticed():
    a = 5

    def f(x=1):
        return x + a

    codes = Codes()
    one = codes.of(f)
    a = 6
    two = codes.of(f)
    assert one.data != two.data
    f.__defaults__ = (2,)
    assert codes.of(f).data != two.data
    names = {"n": 1}
    exec("def g(): return n + m()\ndef m(): return k\nk = 1", names)
    g = names["g"]
    g.__module__ = names["m"].__module__ = "__main__"
    three = codes.of(g)
    assert codes.of(g) is three
    names["k"] = 2
    assert codes.of(g).data != three.data, "also of what it calls"


def test_what_can_change_inside_is_pickled_each_time():
    values = [1]

    def f():
        return values

    codes = Codes()
    one = codes.of(f)
    assert one.fingerprint is None and codes.of(f) is one
    values.append(2)
    assert codes.of(f).data != one.data
    part = functools.partial(pow, 2)
    assert codes.of(part).fingerprint is None and codes.of(part) is codes.of(part)


def test_plain_calls_need_no_cloudpickle():
    import subprocess

    program = """
import sys, math
sys.path[:0] = sys.argv[1].split(":")
from headquarters._pickling import Codes, dumps_entry
import headquarters._executor
Codes().of(math.sqrt); dumps_entry((1, "a"), {"x": [2.0]})
print([name for name in ("cloudpickle", "asyncio", "numpy") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", program, ":".join(sys.path)], capture_output=True, text=True)
    assert (ran.stdout, ran.stderr) == ("[]\n", "")


def test_functions_by_reference_are_found():
    assert _fingerprint.by_reference(helper) and not _fingerprint.by_reference(lambda: 1)


STARTED = []


def note(name):
    STARTED.append(name)


def fails():
    raise OSError("no license")


def test_an_initializer_runs_once_for_all_functions(make):
    STARTED.clear()
    sys.__dict__.pop("_hq_initialized", None)
    executor, calls = make(automatic=True, initializer=note, initargs=("a",))
    assert executor.submit(abs, -1).result() == 1
    assert executor.submit(lambda: len(STARTED)).result() == 1
    assert STARTED == ["a"]


def test_a_failed_initializer_fails_all_calls(make):
    sys.__dict__.pop("_hq_initialized", None)
    executor, calls = make(automatic=True, initializer=fails)
    for _ in range(2):
        error = executor.submit(abs, -1).exception()
        assert isinstance(error, errors.EnvironmentBroken) and "OSError: no license" in str(error)


def test_every_name_of_the_fake_is_of_the_contract():
    import ast
    import pathlib

    import headquarters

    tree = ast.parse(pathlib.Path(headquarters.__file__).with_name("_native.pyi").read_text())
    calls = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == "Calls")
    for node in calls.body:
        if isinstance(node, ast.FunctionDef):
            assert hasattr(fake.Calls(), node.name), node.name

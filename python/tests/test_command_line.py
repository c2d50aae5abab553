"""What the command line says of calls, whose functions and values it never unpickles."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys

import pytest

import headquarters as hq
from headquarters._binary import find


@pytest.fixture
def run(cluster):
    def run(line, exit=0):
        env = {**os.environ, "HQ_SERVER_DIR": os.fspath(cluster.server_dir), "NO_COLOR": "1"}
        command = [os.fspath(find()), *line.split()]
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60)
        assert done.returncode == exit, (line, done)
        return done.stdout, done.stderr

    return run


def talk(n):
    print("out", n)
    print("err", n, file=sys.stderr)
    if n % 3 == 2:
        raise ValueError(f"{n} is no good\x1b[2J")
    return n


def flood(value):
    for n in range(10_000):
        print("line", n)
    return value


def ended(*futures):
    concurrent.futures.wait(futures, 60)
    return futures[0]._session.job


def test_a_failed_call_is_told_with_its_traceback(executor, run):
    job = ended(executor.submit(talk, 5), executor.submit(talk, 0))
    out, _ = run(f"task info {job}@0")
    assert re.search(r"Error +\| ValueError: 5 is no good", out) and "\x1b" not in out
    assert re.search(r"Traceback +\| Traceback \(most recent call last\):", out) and "in talk" in out
    (told,) = json.loads(run(f"--output-mode json task info {job} 0")[0])
    assert (told["kind"], told["exit_code"], told["signal"]) == ("exit", 1, None)
    assert told["exception"]["kind"] == "raised" and told["exception"]["type"] == "ValueError"
    assert told["exception"]["text"] == "5 is no good\x1b[2J" and "in talk" in told["exception"]["traceback"]
    (told,) = json.loads(run(f"--output-mode json task info {job}@1")[0])
    assert "exception" not in told and "kind" not in told and "Traceback" not in run(f"task info {job}@1")[0]
    lost = executor.submit(eval, "(x for x in [1])")
    ended(lost)
    (told,) = json.loads(run(f"--output-mode json task info {lost.task}")[0])
    assert (told["kind"], told["exit_code"], told["exception"]["kind"]) == ("output", None, "not-picklable")


def test_failures_are_counted_by_what_was_raised(executor, run):
    def fail(n):
        raise (KeyError if n % 4 else LookupError)(f"sample {n}")

    results = executor.starmap(fail, ((n,) for n in range(100)))
    results.wait(60)
    (told,) = json.loads(run(f"--output-mode json job failures {results.task(0).split('@')[0]}")[0])
    assert {cause["cause"]: cause["count"] for cause in told["causes"]} == {
        "KeyError: 'sample #'": 75,
        "LookupError: sample #": 25,
    }


def test_what_calls_print_is_printed(executor, run):
    futures = [executor.submit(talk, n) for n in range(4)]
    job = ended(*futures)
    assert run(f"job cat {job} stdout")[0] == "out 0\nout 1\nout 2\nout 3\n"
    assert run(f"job cat {job} stderr --tasks 1-2")[0] == "err 1\nerr 2\n"
    assert run(f"job cat {job} stdout --tasks 2 --print-task-header")[0] == f"# Job {job}, task 2\nout 2\n"
    assert run(f"job cat {job} stdout --task-status failed")[0] == "out 2\n"
    assert run(f"task tail {job}@2 stderr") == ("err 2\n", "")
    flooded = executor.submit(flood, 1)
    ended(flooded)
    assert run(f"task tail {flooded.task} -n 2") == ("line 9998\nline 9999\n", "")
    out, err = run(f"job cat {job} stdout --tasks 4")
    lost = len("".join(f"line {n}\n" for n in range(10_000))) - 4096
    assert len(out) == 4096 and out.endswith("line 9999\n")
    assert f"Only the end of the stdout of 1 call of job {job} is kept: {lost} bytes are missing" in err
    out, err = run(f"task tail {flooded.task} -n 9000")
    assert len(out) == 4096 and f"{lost} earlier bytes are not kept" in err


def test_what_a_call_that_runs_prints_comes_with_its_end(cluster, executor, run, tmp_path):
    end = tmp_path / "end"
    os.mkfifo(end)
    started = tmp_path / "started"
    os.mkfifo(started)

    def wait():
        print("waits")
        open(started, "w").close()
        open(end).close()

    future = executor.submit(wait)
    open(started).close()
    out, err = run(f"task tail {future.task}")
    assert out == "" and "has not ended yet" in err
    out, err = run(f"job cat {future._session.job} stdout")
    assert out == "" and "1 call of job" in err
    follow = subprocess.Popen(
        [os.fspath(find()), "task", "tail", "--follow", future.task],
        env={**os.environ, "HQ_SERVER_DIR": os.fspath(cluster.server_dir)},
        stdout=subprocess.PIPE,
        text=True,
    )
    open(end, "w").close()
    assert follow.communicate(timeout=60)[0] == "waits\n" and follow.returncode == 0


def test_results_are_described(executor, run):
    job = ended(*(executor.submit(talk, n) for n in range(3)), executor.submit(abs, -1))
    out, err = run(f"job result {job}")
    assert out == (
        "0: <pickle of 5 bytes; printed 6 bytes to stdout and 6 bytes to stderr>\n"
        "1: <pickle of 5 bytes; printed 6 bytes to stdout and 6 bytes to stderr>\n"
        "3: <pickle of 5 bytes>\n"
    )
    assert f"task 2 of job {job} failed: ValueError: 2 is no good" in err and "\x1b" not in err
    told = json.loads(run(f"--output-mode json job result {job} --tasks 0")[0])
    assert told == [
        {"job": job, "task": 0, "result": None, "pickle": "80054b002e", "stdout": "out 0\n", "stderr": "err 0\n"}
    ]
    _, err = run(f"job result {job} --tasks 0-2", exit=1)
    assert f"task 2 of job {job} has no result" in err
    _, err = run(f"job result {job} --tasks 2", exit=1)
    assert f"Task 2 of job {job} has no result" in err and "ValueError" in err


@pytest.mark.parametrize("count", [1, 2000])
def test_many_calls_are_read_as_one_is(executor, run, count):
    results = executor.starmap(talk, ((3 * n + 2,) for n in range(count)))
    results.wait(60)
    job = results.task(0).split("@")[0]
    assert run(f"job cat {job} stdout")[0].splitlines()[-1] == f"out {3 * count - 1}"
    told = json.loads(run(f"--output-mode json task info {job} 0-{count - 1}")[0])
    assert [task["exception"]["text"] for task in told] == [f"{3 * n + 2} is no good\x1b[2J" for n in range(count)]
    assert f"{count} tasks of job {job} failed in total" in run(f"job result {job}", exit=1)[1] or count == 1

"""Jobs of programs and functions, as users of `hyperqueue` write them."""

import concurrent.futures
import datetime
import os
import re
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headquarters
from headquarters import _limits
from headquarters import (
    Client,
    FailedJobsException,
    Forked,
    Job,
    LocalCluster,
    PythonEnv,
    ResourceRequest,
    StdioDef,
    ValidationException,
)
from headquarters.ffi.protocol import duration
from headquarters.output import default_stdout


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """One for all tests here, each of which has a directory of its own."""
    with LocalCluster(workers=1, cpus=4, resources={"gpus": 2}, journal=True) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    monkeypatch.chdir(tmp_path)
    return cluster.client()


def test_programs_have_the_outputs_that_they_always_had(client: Client, tmp_path: Path) -> None:
    job = Job(name="sweep", default_env={"A": "1", "B": "1"})
    first = job.program(["sh", "-c", "echo $A$B"], env={"B": "2"})
    second = job.program("sh -c 'cat; echo gone >&2'", stdin=b"\xffbytes", stdout="out.txt", stderr=None)
    third = job.program(["true"], stdout=StdioDef.remove_if_finished(), stderr=StdioDef.from_path("err"))
    assert [task.task_id for task in job.tasks] == [0, 1, 2]
    assert (first.label, second.label, job.task_by_id(2)) == ("0", "1", third)
    assert default_stdout() == "%{CWD}/%{TASK_ID}.stdout"
    submitted = client.submit(job)
    assert client.wait_for_jobs([submitted])
    assert (tmp_path / "0.stdout").read_text() == "12\n"
    assert (tmp_path / "0.stderr").read_text() == ""
    assert (tmp_path / "out.txt").read_bytes() == b"\xffbytes"
    assert sorted(os.listdir(tmp_path)) == ["0.stderr", "0.stdout", "err", f"job-{submitted.id}", "out.txt"]
    assert os.listdir(tmp_path / f"job-{submitted.id}") == []


def test_tasks_wait_for_others(client: Client, tmp_path: Path) -> None:
    job = Job(default_workdir=tmp_path / "work")
    a = job.program(["sh", "-c", "echo 1 > a"])
    b = job.program(["sh", "-c", "echo 2 > b"])
    job.program(["sh", "-c", "cat a b > c"], deps=[a, b])
    assert client.wait_for_jobs([client.submit(job)])
    assert (tmp_path / "work" / "c").read_text() == "1\n2\n"


def test_failures_say_what_where_and_why(client: Client, tmp_path: Path) -> None:
    job = Job()
    job.program(["sh", "-c", "exit 1"], name="bad")
    submitted = client.submit(job)
    with pytest.raises(FailedJobsException) as caught:
        client.wait_for_jobs([submitted])
    text = str(caught.value)
    assert text.startswith(f"The following tasks of job `{submitted.id}` have failed:\nTask bad (id=0):\n")
    assert f"Working directory: {tmp_path}\nStdout: {tmp_path}/0.stdout\nStderr: {tmp_path}/0.stderr\n" in text
    assert client.wait_for_jobs([submitted], raise_on_error=False) is False
    context = client.get_failed_tasks(submitted)[0]
    assert context.error == "Program terminated with exit code 1."


def test_what_cannot_be_is_refused_before_it_is_sent(client: Client) -> None:
    with pytest.raises(Exception, match="Submitted job must have at least a single task"):
        client.submit(Job())
    with pytest.raises(ValidationException, match="Each program argument must be a string"):
        Job().program(["a", 1])  # type: ignore[list-item]
    with pytest.raises(ValidationException, match="Invalid value provided for `stdout`"):
        Job().program(["a"], stdout=5)  # type: ignore[arg-type]
    with pytest.raises(ValidationException, match="no option timelimit"):
        Job().program(["a"], timelimit=5)  # type: ignore[call-arg]
    job = Job()
    job.program(["a"], time_limit="soon")
    with pytest.raises(ValidationException, match="task with id 0: time_limit: `soon` is not a duration"):
        client.submit(job)


def test_a_client_says_what_cannot_be(cluster: LocalCluster, client: Client) -> None:
    other = Job().program(["true"])
    job = Job()
    job.program(["true"])
    submitted = client.submit(job)
    anything: Any = client
    for order in (client.job, client.tasks, client.cancel, client.forget, client.close_job, client.get_failed_tasks):
        for value, said in [
            ("x", "job is 'x': give the id of a job, or what Client.submit has returned"),
            (-1, "job is -1: give a whole number from 0"),
            (job, f"job is {job!r}: it is not submitted"),
        ]:
            with pytest.raises(ValidationException, match=f"^{re.escape(said)}"):
                order(value)  # type: ignore[operator]
    for ask, said in [
        (lambda: anything.wait_for_jobs("x"), "jobs is 'x': give a list of jobs, such as [submitted] or [3]"),
        (lambda: anything.wait_for_jobs(submitted), f"jobs is {str(submitted)[:50]}"),
        (lambda: anything.wait_for_jobs([submitted, -1]), "jobs[1] is -1: give a whole number from 0"),
        (lambda: anything.submit(5), "job is 5: give a Job; functions are called by an Executor"),
        (lambda: anything.submit(job, open_job="x"), "open_job is 'x': give the id of a job"),
        (lambda: anything.result(submitted, 0, timeout="x"), "timeout is 'x': give a number of seconds"),
        (lambda: anything.result(submitted, "x"), "task is 'x': give a whole number from 0"),
        (lambda: submitted.result(other), f"task is {other!r}: it is no task of job {submitted.id}; give one of these"),
        (lambda: anything.tasks(submitted, "failed"), "states is 'failed': give a list of texts: ['failed']"),
        (lambda: anything.tasks(submitted, ["x"]), "states[0] is 'x': give states of tasks: waiting, running, finished, failed, canceled, aborted"),
        (lambda: anything.cancel(submitted, 5), "tasks is 5: give a list, such as [0, 1]"),
        (lambda: anything.cancel(submitted, ["x"]), "tasks[0] is 'x': give a whole number from 0"),
        (lambda: anything.cancel(submitted, [], 5), "reason is 5: give a text"),
        (lambda: anything.workers("x"), "with_ended is 'x': give True or False"),
        (lambda: cluster.client(python_env=5), "python_env is 5: give a PythonEnv"),
        (lambda: Client(5), "server_dir is 5: give a path"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(ValidationException, match=f"^{re.escape(said)}"):
            ask()
    assert client.wait_for_jobs([submitted])


def test_a_job_with_more_than_a_submit_carries_is_refused(client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_limits, "JOB_BYTES_MAX", 10_000)
    job = Job()
    for _ in range(3):
        job.function(len, args=("x" * 4_000,))
    with pytest.raises(ValidationException, match=r"^the functions of the job and their arguments are 1\d{4} bytes long, more than 10000: submit"):
        client.submit(job)


def test_values_that_only_the_extension_reads_are_validated_as_others_are(client: Client) -> None:
    with headquarters.Executor(cluster=client) as executor:
        for options, said in [
            ({"cpus": 0}, "cpus = 0: Zero resources cannot be requested"),
            ({"cpus": "x"}, "cpus = x: `x` is not an amount: use a number"),
            ({"memory": "lots"}, "mem = lots: `lots` is not a memory size: use 4GiB"),
            ({"time_limit": "ten"}, "time_limit: `ten` is not a duration: use 90s"),
            ({"retry_on": [300]}, "retry_on: `300` is not a list of exit codes"),
            ({"ranks": 3, "nodes": 2}, "ranks=3 cannot be as many on each of 2 nodes"),
        ]:
            with pytest.raises(ValidationException, match=said):
                executor.options(**options)  # type: ignore[arg-type]
    for make, said in [
        (lambda: headquarters.Executor(cluster=client, budget=-1), "budget: `-1` is not a number of node hours"),
        (lambda: headquarters.Executor(cluster=client, linger="soon"), "linger: `soon` is not a duration"),
        (lambda: client.open_job(budget=-1), "budget: `-1` is not a number of node hours"),
        (lambda: client.open_job(stall_after="x"), "stall_after: `x` is not a duration"),
    ]:
        with pytest.raises(ValidationException, match=said):
            make()


def test_errors_have_the_words_of_programs(client: Client) -> None:
    job = Job()
    job.function(abs, args=(1,), resources=ResourceRequest(n_nodes=1))
    with pytest.raises(ValidationException, match="nodes= of a function works only together with ranks= or ranks_per_node=$"):
        client.submit(job)
    job = Job()
    job.program(["true"], ranks=2, gather=True)
    with pytest.raises(ValidationException, match="mpi= or gather= works only together with Job.function$"):
        client.submit(job)
    with headquarters.Executor(cluster=client, max_fails=0) as executor:
        with pytest.raises(headquarters.NativeError, match="^Task 99 not found in job .*: `Client.tasks"):
            client.cancel(executor.job_id, [99])
        with pytest.raises(headquarters.NativeError, match=r"`Client.cancel\(\d+\)` ends them\).*closed with `Client.close_job\(\d+\)`"):
            client.forget(executor.job_id)
        assert executor.submit(int, "x").exception(60)
        with pytest.raises(headquarters.JobAborted, match="than the 0 that its max_fails= allows. .* with a larger max_fails= if"):
            executor.submit(int, "1").result(60)


def test_options_are_those_of_the_command_line(client: Client) -> None:
    job = Job(max_fails=None)
    job.program(
        ["sh", "-c", 'test "$HQ_CPUS" && exit 3'],
        resources=[ResourceRequest(cpus=64), ResourceRequest(cpus=2, resources={"gpus": 1})],
        time_limit=datetime.timedelta(minutes=5),
        retry=1,
        retry_on="3",
        pin="taskset",
        crash_limit=4,
        priority=-1,
    )
    job.program(["sleep", "1000"], time_limit=0.05)
    submitted = client.submit(job)
    assert not client.wait_for_jobs([submitted], raise_on_error=False)
    failed = client.get_failed_tasks(submitted)
    assert "exit code 3" in failed[0].error
    assert "limit" in failed[1].error
    assert [duration(value) for value in (1.5, "2h", datetime.timedelta(days=2))] == ["1.5s", "2h", "172800s"]


def test_jobs_are_told_as_they_are(client: Client) -> None:
    job = Job()
    job.program(["true"])
    submitted = client.submit(job)
    client.wait_for_jobs([submitted])
    info = client.job(submitted)
    assert (info.name, info.state, info.finished, info.max_fails) == ("PyAPI job", "finished", 1, 1)
    assert info.submitted and info.ended and info.submitted <= info.ended
    assert submitted.id in [job.id for job in client.jobs()]
    task = client.tasks(submitted)[0]
    assert (task.id, task.state, task.worker) == (0, "finished", 1)
    worker = client.workers()[0]
    assert (worker.id, worker.ended, set(worker.resources) >= {"cpus", "gpus"}) == (1, None, True)
    assert "job-created" in {event.type for event in client.events()}
    client.forget(submitted)
    with pytest.raises(Exception, match=f"Cannot forget job {submitted.id}"):
        client.forget(submitted)


def test_open_jobs_take_tasks_until_they_are_closed(client: Client) -> None:
    open_job = client.open_job("open")
    job = Job()
    job.program(["sleep", "1000"])
    submitted = client.submit(job, open_job)
    assert submitted.id == open_job
    assert client.cancel(submitted, reason="enough") == 1
    client.close_job(submitted)
    assert (client.job(open_job).state, client.job(open_job).cancel_reason) == ("canceled", "enough")
    with pytest.raises(headquarters.NativeError) as caught:
        client.submit(job, open_job)
    assert caught.value.code == "job-not-open"


def test_somebody_is_told_of_a_job(client: Client, tmp_path: Path) -> None:
    # Who opens it for reading waits for the command.
    told = tmp_path / "told"
    os.mkfifo(told)
    job = Job(on_failure=["true", f"sh -c 'cat > {told}'"], notify="true", stall_after="1h")
    job.program(["false"])
    submitted = client.submit(job)
    assert f'"id":{submitted.id},' in told.read_text().replace(" ", "")
    assert not client.wait_for_jobs([submitted], raise_on_error=False)
    opened = client.open_job("open", on_finish="true", budget=2.5)
    with pytest.raises(ValidationException, match="on_failure is .*: it belongs to a new job"):
        client.submit(job, opened)
    client.close_job(opened)
    with pytest.raises(ValueError, match="on_stall"):
        bad = Job(on_stall="mailto:")
        bad.program(["true"])
        client.submit(bad)
    with pytest.raises(ValidationException, match="budget is None: give node hours"):
        Job(budget=None)  # type: ignore[typeddict-item]
    with pytest.raises(ValueError, match="budget"):
        client.open_job("open", budget="much")


def test_all_tasks_of_a_job_get_what_is_broadcast(client: Client, tmp_path: Path) -> None:
    (tmp_path / "genome").write_text("acgt")
    job = Job(broadcast=["genome", f"again={tmp_path / 'genome'}"])
    for name in ("a", "b"):
        job.program(["sh", "-c", f"cat $HQ_BROADCAST_DIR/genome $HQ_BROADCAST_DIR/again > {name}"])
    submitted = client.submit(job)
    client.wait_for_jobs([submitted])
    assert [(tmp_path / name).read_text() for name in "ab"] == ["acgtacgt"] * 2
    assert {"broadcast genome", "broadcast again"} <= {one.name for one in client.jobs()}
    source = next(one.id for one in client.jobs() if one.name == "broadcast again")
    job = Job(broadcast=[f"{source}@0:again"])
    job.program(["sh", "-c", "cat $HQ_BROADCAST_DIR/again > c"])
    client.wait_for_jobs([client.submit(job)])
    assert (tmp_path / "c").read_text() == "acgt"
    job.function(abs, args=(1,))
    with pytest.raises(ValueError, match="functions of a job cannot receive broadcasts"):
        client.submit(job)


def test_waiting_can_be_interrupted(client: Client, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "told")
    job = Job()
    job.program(["sh", "-c", "echo > told; exec sleep 1000"])
    submitted = client.submit(job)

    def interrupt() -> None:
        with open(tmp_path / "told") as told:
            told.readline()
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with pytest.raises(KeyboardInterrupt):
        # The interrupt may come before the call that it is for.
        thread.start()
        client.wait_for_jobs([submitted])
    thread.join()
    assert client.cancel(submitted) == 1


def test_a_forked_process_cannot_use_a_client(client: Client) -> None:
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            client.jobs()
        except Forked:
            code = 7
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7


def test_a_cluster_without_workers_starts_one_at_the_first_submit(tmp_path: Path) -> None:
    with LocalCluster() as cluster:
        client = cluster.client()
        assert client.workers() == []
        job = Job(default_workdir=tmp_path)
        job.program(["true"])
        assert client.wait_for_jobs([client.submit(job)])
        assert len(client.workers()) == 1


def test_functions_are_called_and_leave_results(client: Client, tmp_path: Path) -> None:
    factor = 3

    def score(x: int, k: int = 0) -> int:
        print("scoring", x)
        Path("made").write_text(os.environ["HQ_TASK_ID"])
        return factor * x + k

    job = Job(name="functions")
    task = job.function(score, args=(2,), kwargs={"k": 1}, cwd=tmp_path / "f")
    after = job.program(["sh", "-c", "cat f/made > seen"], deps=[task])
    assert (task.label, repr(task)) == ("score/0", "<PyFunction fn=score>")
    submitted = client.submit(job)
    assert client.wait_for_jobs([submitted])
    assert submitted.result(task) == 7
    assert (tmp_path / "f" / "0.stdout").read_text() == "scoring 2\n"
    assert (tmp_path / "seen").read_text() == "0"
    with pytest.raises(LookupError, match="has left no result"):
        submitted.result(after)


def test_a_result_is_waited_for(client: Client, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "told")
    job = Job(max_fails=None)
    later = job.function(lambda path: open(path).read(), args=(str(tmp_path / "told"),))
    wrong = job.function(divmod, args=(1, 0))
    never = job.function(abs, args=(1,), deps=[wrong])
    program = job.program(["sh", "-c", "exit 3"])
    submitted = client.submit(job)
    with pytest.raises(TimeoutError, match=f"task {submitted.id}@0 has not ended within 0 seconds"):
        submitted.result(later, timeout=0)
    with pytest.raises(ZeroDivisionError):
        submitted.result(wrong, timeout=60)
    with pytest.raises(headquarters.DependencyFailed, match=f"Task {submitted.id}@1 failed"):
        submitted.result(never, timeout=60)
    with pytest.raises(FailedJobsException, match="Program terminated with exit code 3"):
        submitted.result(program)
    thread = threading.Thread(target=(tmp_path / "told").write_text, args=("words",))
    thread.start()
    assert submitted.result(later) == "words"
    thread.join()
    with pytest.raises(headquarters.NativeError, match=f"Task 99 not found in job {submitted.id}"):
        submitted.result(99)
    waits = Job()
    canceled = waits.function(abs, args=(1,), resources=ResourceRequest(cpus=64))
    submitted = client.submit(waits)
    client.cancel(submitted)
    with pytest.raises(concurrent.futures.CancelledError):
        submitted.result(canceled)


def test_a_task_is_no_argument_of_another(client: Client) -> None:
    job = Job()
    first = job.function(abs, args=(-1,))
    job.function(abs, args=([first],))
    with pytest.raises(headquarters.ArgumentsNotPicklable, match="a task of a job is no argument of another one") as caught:
        client.submit(job)
    assert caught.value.path == "args[0][0]"


def test_many_functions_are_one_array(client: Client) -> None:
    def double(x: int) -> int:
        return 2 * x

    job = Job()
    tasks = [job.function(double, args=(x,), stdout=None, stderr=None) for x in range(300)]
    submitted = client.submit(job)
    assert client.wait_for_jobs([submitted])
    assert [submitted.result(task) for task in tasks[::50]] == [0, 100, 200, 300, 400, 500]


def test_a_function_that_raises_says_where(client: Client) -> None:
    def broken() -> None:
        raise ValueError("no such thing")

    job = Job()
    job.function(broken)
    submitted = client.submit(job)
    with pytest.raises(FailedJobsException, match="Task broken/0 \\(id=0\\)") as caught:
        client.wait_for_jobs([submitted])
    text = caught.value.failed_tasks[submitted.id][0].error
    assert "ValueError: no such thing" in text


def test_an_environment_says_how_interpreters_start(cluster: LocalCluster, tmp_path: Path) -> None:
    def seen() -> str:
        return os.environ["FROM_PROLOGUE"] + os.environ["FROM_ENV"]

    env = PythonEnv(prologue="export FROM_PROLOGUE='a b'", env={"FROM_ENV": "c"})
    client = cluster.client(python_env=env)
    job = Job(default_workdir=tmp_path)
    task = job.function(seen)
    submitted = client.submit(job)
    assert client.wait_for_jobs([submitted])
    assert submitted.result(task) == "a bc"
    assert PythonEnv(venv="/v").interpreter() == ["/v/bin/python"]
    assert PythonEnv("py", wrap=("apptainer", "exec", "I")).interpreter() == ["apptainer", "exec", "I", "py"]

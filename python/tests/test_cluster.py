"""Local clusters: how they start, and that nothing is left of them however they end."""

import concurrent.futures
import os
import re
import select
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import headquarters
from headquarters import _limits
from headquarters import ClusterError, Forked, LocalCluster, WorkerConfig

PATIENCE = 60.0


def lines_of(directory: str) -> list[str]:
    """The command lines of processes that speak of this directory."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit() and int(process.name) != os.getpid():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(directory.encode() in word for word in words):
                found.append(b" ".join(words).decode())
    return found


def end_of(pid: int) -> None:
    """Waits until a process that is no child of ours has ended."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    with os.fdopen(descriptor) as process:
        assert select.select([process], [], [], PATIENCE)[0], f"process {pid} still runs"


def test_a_private_cluster_is_gone_when_it_is_stopped() -> None:
    with LocalCluster(workers=1, cpus=1) as cluster:
        directory = cluster.server_dir
        assert stat.S_IMODE(os.stat(directory).st_mode) == 0o700
        host, port = cluster.address.rsplit(":", 1)
        assert host and int(port) > 0
        cluster.wait_for_workers(1)
        assert any("worker" in line for line in lines_of(directory))
    assert not os.path.exists(directory)
    assert lines_of(directory) == []


def test_a_stopped_cluster_may_be_stopped_again_and_starts_nothing() -> None:
    cluster = LocalCluster()
    cluster.stop()
    cluster.stop()
    with pytest.raises(ClusterError, match="Cluster was already stopped"):
        cluster.start_worker()


def test_workers_are_waited_for_as_long_as_one_wants() -> None:
    with LocalCluster() as cluster:
        with pytest.raises(concurrent.futures.TimeoutError, match="^0 of 1 workers of .* are connected after 0.01 seconds$"):
            cluster.wait_for_workers(1, timeout=0.01)
        cluster.start_worker(WorkerConfig(cores=1))
        cluster.wait_for_workers(1, timeout=PATIENCE)
        for call, said in [
            (lambda: cluster.wait_for_workers(-1), "count is -1: give a whole number from 0"),
            (lambda: cluster.wait_for_workers("x"), "count is 'x': give a whole number from 0"),  # type: ignore[arg-type]
            (lambda: cluster.wait_for_workers(1, "x"), "timeout is 'x': give a number of seconds"),  # type: ignore[arg-type]
            (lambda: cluster.start_worker(5), "config is 5: give a WorkerConfig"),  # type: ignore[arg-type]
            (lambda: cluster.start_worker(WorkerConfig(cores=-2)), "cores is -2: give a whole number from 1"),
        ]:
            with pytest.raises(headquarters.ValidationException, match=f"^{re.escape(said)}"):
                call()


def test_what_cannot_be_is_said_before_anything_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").write_text("")
    for options, said in [
        ({"resources": {"gpus": -1}}, "resources['gpus'] is -1: give a number above zero"),
        ({"resources": {"gpus": 0}}, "resources['gpus'] is 0: give a number above zero"),
        ({"resources": {"gpus": "x"}}, "resources['gpus'] is 'x': give a number above zero, or a text such as '[0,2]'"),
        ({"resources": {"mem": "lots"}}, "resources['mem'] is 'lots': give a number above zero, or a text such as '[0,2]' or '8 GiB'"),
        ({"resources": {"gpus": None}}, "resources['gpus'] is None: give a number above zero"),
        ({"resources": {"1x": 1}}, "a name in resources is '1x': give a letter, and then letters, digits"),
        ({"resources": {3: 1}}, "a name in resources is 3: give a letter"),
        ({"resources": {"cpus": 2}}, "resources['cpus'] is 2: CPUs are given as cpus= of LocalCluster"),
        ({"resources": ["gpus"]}, "resources is ['gpus']: give a dict of amounts"),
        ({"worker_config": 5}, "worker_config is 5: give a WorkerConfig, such as WorkerConfig(cores=2)"),
        ({"worker_config": WorkerConfig(cores=-1)}, "cores is -1: give a whole number from 1"),
        ({"worker_config": WorkerConfig(cores=0)}, "cores is 0: give a whole number from 1"),
        ({"worker_config": WorkerConfig(cores="x")}, "cores is 'x': give a whole number from 1"),  # type: ignore[arg-type]
        ({"worker_config": WorkerConfig(), "cpus": 2}, "cpus is 2: worker_config says it; give one of them"),
        ({"workers": -1}, "workers is -1: give a whole number from 0"),
        ({"journal": "x"}, "journal is 'x': give True or False"),
        ({"server_dir": 5}, "server_dir is 5: give a path"),
        ({"server_dir": tmp_path / "file"}, f"server_dir is '{tmp_path}/file': it is no directory; give one"),
    ]:
        with pytest.raises(headquarters.ValidationException, match=f"^{re.escape(said)}"):
            LocalCluster(**options)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == ["file"]


def test_a_server_that_does_not_end_by_itself_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "hq"
    program.write_text(f"#!/bin/sh\ntrap '' TERM\necho $$ > {tmp_path}/pid.new\nmv {tmp_path}/pid.new {tmp_path}/pid\nsleep 1000\n")
    program.chmod(0o700)
    monkeypatch.setenv("HQ_BINARY", str(program))
    monkeypatch.setattr(_limits, "SERVER_END_S", 0.1)

    def fails(cluster: LocalCluster, config: object) -> None:
        while not (tmp_path / "pid").exists():
            os.sched_yield()
        raise OSError("no more processes")

    monkeypatch.setattr(LocalCluster, "start_worker", fails)
    with pytest.raises(OSError, match="no more processes"):
        LocalCluster(workers=1)
    end_of(int((tmp_path / "pid").read_text()))


def test_a_directory_of_the_user_stays_and_a_journal_continues(tmp_path: Path) -> None:
    directory = tmp_path / "server"
    for _ in range(2):
        with LocalCluster(directory, WorkerConfig(cores=2), journal=True) as cluster:
            assert cluster.server_dir == str(directory)
            cluster.wait_for_workers(1)
    assert (directory / "002").is_dir()


def test_what_does_not_start_says_why(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "server", journal=True):
        with pytest.raises(ClusterError, match="did not start: .*server"):
            LocalCluster(tmp_path / "server", journal=True)


def children_of(pid: int) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            if process.name.isdigit() and (process / "stat").read_text().rpartition(")")[2].split()[1] == str(pid):
                found.append(int(process.name))
        except OSError:
            # It has ended meanwhile.
            pass
    return found


def join(*names: str) -> None:
    """Waits for the threads that watch these workers."""
    for thread in threading.enumerate():
        if thread.name in names:
            thread.join(PATIENCE)
            assert not thread.is_alive()


def test_a_worker_whose_launcher_was_killed_is_replaced() -> None:
    with LocalCluster(workers=1, cpus=1) as cluster, cluster.executor() as executor:
        assert executor.submit(abs, -1).result(PATIENCE) == 1
        worker = cluster._children._processes[1]
        for launcher in children_of(worker.pid):
            os.kill(launcher, signal.SIGKILL)
        assert executor.submit(abs, -2).result(PATIENCE) == 2
        assert (worker.returncode, cluster._workers) == (1, 2)


def test_workers_that_never_start_end_the_cluster() -> None:
    cluster = LocalCluster(workers=1, resources={"gpus": "[0,"})
    directory = cluster.server_dir
    with cluster.executor() as executor:
        error = executor.submit(abs, -1).exception(PATIENCE)
        assert isinstance(error, headquarters.ClusterStopped)
        assert str(error).startswith("5 workers in a row have ended before they were connected; the last one exited with code ")
        assert "[0," in str(error), "the worker's own words are there"
    with pytest.raises(ClusterError, match="^Cluster was already stopped: 5 workers in a row"):
        cluster.executor()
    join("hq-worker-5")
    assert not os.path.exists(directory)


def test_a_worker_that_never_starts_leaves_the_others(caplog: pytest.LogCaptureFixture) -> None:
    with LocalCluster(workers=1, cpus=1) as cluster, cluster.executor() as executor:
        cluster.wait_for_workers(1)
        cluster.start_worker(WorkerConfig(cores=1, resources={"gpus": "[0,"}))
        for number in range(2, 7):
            join(f"hq-worker-{number}")
        assert "is not replaced: 5 workers in a row have ended" in caplog.text
        assert executor.submit(abs, -1).result(PATIENCE) == 1


def test_a_worker_that_is_told_to_end_is_not_replaced() -> None:
    with LocalCluster(workers=1, cpus=1) as cluster:
        cluster.wait_for_workers(1)
        command = [cluster._hq, "--server-dir", cluster.server_dir, "worker", "stop", "all"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        join("hq-worker-1")
        assert cluster._workers == 1


def test_a_cluster_that_nobody_uses_ends() -> None:
    cluster = LocalCluster()
    directory = cluster.server_dir
    del cluster
    assert lines_of(directory) == []
    assert not os.path.exists(directory)


def test_nothing_is_left_of_a_client_that_is_killed() -> None:
    script = (
        "import signal, sys\n"
        "from headquarters import LocalCluster\n"
        "cluster = LocalCluster(workers=2, cpus=1)\n"
        "cluster.wait_for_workers(2)\n"
        "pids = [process.pid for process in cluster._children._processes]\n"
        "print(cluster.server_dir, *pids, flush=True)\n"
        "signal.pause()\n"
    )
    client = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    with client.stdout:
        directory, *pids = client.stdout.readline().split()
    assert len(pids) == 3
    client.send_signal(signal.SIGKILL)
    client.wait()
    for pid in pids:
        end_of(int(pid))
    assert lines_of(directory) == []
    assert not os.path.exists(directory)


def test_a_forked_process_has_no_part_in_it() -> None:
    with LocalCluster(workers=1, cpus=1) as cluster:
        pid = os.fork()
        if pid == 0:
            # Nothing of pytest may run here.
            code = 1
            try:
                cluster.start_worker()
            except Forked:
                code = 7
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
        cluster.wait_for_workers(1)


def test_a_forked_process_does_not_hold_it_up() -> None:
    script = (
        "import os, signal\n"
        "from headquarters import LocalCluster\n"
        "cluster = LocalCluster()\n"
        "child = os.fork()\n"
        "if child == 0:\n"
        "    signal.pause()\n"
        "print(cluster.server_dir, cluster._children._processes[0].pid, child, flush=True)\n"
        "signal.pause()\n"
    )
    client = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert client.stdout is not None
    directory, server, child = client.stdout.readline().split()
    client.kill()
    client.wait()
    end_of(int(server))
    assert not os.path.exists(directory)
    os.kill(int(child), signal.SIGKILL)
    client.stdout.close()


def test_importing_is_cheap() -> None:
    script = "import sys, headquarters; print([name for name in ('asyncio', 'numpy', 'cloudpickle', 'subprocess') if name in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", script], text=True) == "[]\n"
    for name in headquarters.__all__:
        assert getattr(headquarters, name) is not None

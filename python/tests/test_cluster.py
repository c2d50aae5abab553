"""Local clusters: how they start, and that nothing is left of them however they end."""

import os
import select
import signal
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import headquarters
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


def test_a_second_stop_raises() -> None:
    cluster = LocalCluster()
    cluster.stop()
    with pytest.raises(ClusterError, match="Cluster was already stopped"):
        cluster.stop()
    with pytest.raises(ClusterError):
        cluster.start_worker()


def test_a_directory_of_the_user_stays_and_a_journal_continues(tmp_path: Path) -> None:
    directory = tmp_path / "server"
    for _ in range(2):
        with LocalCluster(directory, WorkerConfig(cores=2), journal=True) as cluster:
            assert cluster.server_dir == str(directory)
            cluster.wait_for_workers(1)
    assert (directory / "002").is_dir()


def test_what_does_not_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        LocalCluster(tmp_path / "file")
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

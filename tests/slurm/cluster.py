#!/usr/bin/env python3
"""A real Slurm cluster in one directory, for tests. Needs Debian's slurm-wlm and nothing beyond Python.

    cluster.py up DIR [options]      starts it, or starts again what has ended; returns when all nodes are usable
    cluster.py down DIR              ends all of it, jobs included, and removes the directory
    cluster.py kill DIR NODE         the power cord of a node: its slurmd and all its jobs' processes, at once
    cluster.py crash DIR NODE        its slurmd alone; `crash DIR head` ends the controller alone
    cluster.py start DIR NODE        brings either back; returns when the node is usable, or the controller answers
    cluster.py status DIR            one line per node

README.md, beside this file, tells what such a cluster is like.
"""

import argparse
import contextlib
import ctypes
import getpass
import hashlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

STATE = "cluster.json"
PROGRAMS = ("slurmctld", "slurmd", "sinfo")
# Sockets of Slurm live below the directory, and the kernel takes 107 bytes for their paths.
LONGEST_BASE = 60
PR_SET_CHILD_SUBREAPER = 36
USABLE = {"idle", "mixed", "allocated", "completing", "draining", "drained", "reserved"}


def fail(text: str) -> None:
    sys.exit(f"cluster.py: {text}")


# ---- processes -----------------------------------------------------------------------------------------------


def stat(pid: int) -> tuple[int, str] | None:
    """The parent and the start time of a process, or None if it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else (int(fields[1]), fields[19])


def descendants(root: int) -> list[int]:
    """All live processes below `root`, children first."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit() and (seen := stat(int(name))):
            children.setdefault(seen[0], []).append(int(name))
    found: list[int] = []
    waiting = [root]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def end(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def wait_until(what, limit: float, pause: float = 0.02) -> bool:
    deadline = time.monotonic() + limit
    while not (done := what()) and time.monotonic() < deadline:
        time.sleep(pause)
    return bool(done)


def keep(base: str, host: str, owner: int, argv: list[str]) -> None:
    """The keeper of a host: runs its daemon, adopts what the daemon's jobs leave, and ends with all of it.

    SIGTERM ends the host, SIGUSR1 starts its daemon again. The end of `owner`, if there is one, ends it too; the
    head then removes the cluster's directory.
    """
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    asked: set[int] = {signal.SIGUSR1}
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD):
        signal.signal(number, lambda number, _: asked.add(number))
    watched = [woken]
    if owner:
        try:
            watched.append(os.pidfd_open(owner))
        except ProcessLookupError:
            asked.add(signal.SIGTERM)
    is_orphan = False
    daemon = None
    log = open(f"{base}/log/{host}.out", "ab")
    while signal.SIGTERM not in asked:
        if daemon is not None and daemon.poll() is not None:
            daemon = None
        if signal.SIGUSR1 in asked:
            asked.discard(signal.SIGUSR1)
            if daemon is None:
                daemon = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/",
                                          start_new_session=True)
        ready, _, _ = select.select(watched, [], [])
        if woken in ready:
            os.read(woken, 4096)
        if len(ready) > (woken in ready):
            is_orphan = True
            break
        # Adopted ones; the daemon itself is asked for by its number.
        for pid in adopted_dead(daemon.pid if daemon else 0):
            os.waitpid(pid, os.WNOHANG)
    wait_until(lambda: not [end(pid, signal.SIGKILL) for pid in descendants(os.getpid())], 10)
    if is_orphan and host == "head":
        cluster = Cluster(base)
        wait_until(lambda: not any(map(cluster.keeper, cluster.nodes())), 15)
        remove(cluster)


def adopted_dead(besides: int) -> list[int]:
    """Zombies whose parent is this process."""
    dead = []
    for name in os.listdir("/proc"):
        try:
            fields = Path(f"/proc/{name}/stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] == "Z" and int(fields[1]) == os.getpid() and int(name) != besides:
            dead.append(int(name))
    return dead


# ---- the cluster's files -------------------------------------------------------------------------------------


class Cluster:
    """What is known of a cluster between two commands."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory).resolve()
        try:
            known = json.loads((self.directory / STATE).read_text())
        except (OSError, ValueError):
            known = {}
        self.is_known = bool(known)
        self.base: str = known.get("base", short(self.directory))
        self.hosts: dict[str, list[str]] = known.get("hosts", {})
        self.keepers: dict[str, list] = known.get("keepers", {})
        self.owner: int = known.get("owner", 0)

    def save(self) -> None:
        text = json.dumps({"base": self.base, "hosts": self.hosts, "keepers": self.keepers, "owner": self.owner})
        new = self.directory / f"{STATE}.new"
        new.write_text(text)
        new.replace(self.directory / STATE)

    def nodes(self) -> list[str]:
        return [host for host in self.hosts if host != "head"]

    def keeper(self, host: str) -> int | None:
        """The number of a host's keeper, if it lives."""
        pid, started = self.keepers.get(host, (0, ""))
        seen = stat(pid) if pid else None
        return pid if seen and seen[1] == started else None

    def start(self, host: str) -> None:
        """Starts a host, or its daemon if only that has ended."""
        if pid := self.keeper(host):
            end(pid, signal.SIGUSR1)
            return
        # The variables of the caller's own job, or of a Slurm elsewhere, are not ours.
        environment = {name: value for name, value in os.environ.items()
                       if not name.startswith(("SLURM", "SBATCH", "PMI"))}
        keeper = subprocess.Popen(
            [sys.executable, "-S", "-E", os.path.abspath(__file__), "keep", self.base, host, str(self.owner),
             *self.hosts[host]],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=open(f"{self.base}/log/{host}.out", "ab"),
            start_new_session=True, env=environment, cwd="/")
        self.keepers[host] = [keeper.pid, stat(keeper.pid)[1]]
        self.save()

    def states(self) -> dict[str, str]:
        try:
            answer = subprocess.run(["sinfo", "--noheader", "--Node", "--format=%N %T"], capture_output=True,
                                    text=True, timeout=10, env={**os.environ, "SLURM_CONF": self.conf()})
        except subprocess.TimeoutExpired:
            return {}
        return dict(line.split()[:2] for line in answer.stdout.splitlines())

    def conf(self) -> str:
        return f"{self.base}/slurm.conf"

    def wait(self, nodes: list[str], limit: float) -> None:
        def usable() -> bool:
            states = self.states()
            return bool(states) and all(states.get(node) in USABLE for node in nodes)

        if not wait_until(usable, limit, 0.1):
            for host in self.hosts:
                with contextlib.suppress(OSError):
                    tail = Path(f"{self.base}/log/{host}.out").read_text(errors="replace").splitlines()[-3:]
                    print(f"{host}: " + " / ".join(tail), file=sys.stderr)
            fail(f"after {limit:g} s the nodes are {self.states() or 'not known: the controller does not answer'}")


def short(directory: Path) -> str:
    if len(str(directory)) <= LONGEST_BASE:
        return str(directory)
    return "/tmp/hq-slurm-" + hashlib.sha256(bytes(directory)).hexdigest()[:12]


def free_ports(count: int) -> list[int]:
    """Ports below those that the kernel hands out by itself, so that nobody gets them meanwhile by chance."""
    held: list[socket.socket] = []
    while len(held) < count:
        one = socket.socket()
        try:
            one.bind(("127.0.0.1", 15000 + int.from_bytes(os.urandom(2), "big") % 15000))
            held.append(one)
        except OSError:
            one.close()
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def configure(cluster: Cluster, options: argparse.Namespace) -> None:
    base, user, here = cluster.base, getpass.getuser(), socket.gethostname()
    nodes = [f"node{number}" for number in range(options.nodes + options.gpu_nodes)]
    with_gpu = nodes[options.nodes:]
    for name in ("log", "state", "dev", "tmp", *(f"{name}/{node}" for name in ("spool", "tmp") for node in nodes)):
        os.makedirs(f"{base}/{name}", exist_ok=True)
    control, *ports = free_ports(1 + len(nodes))
    lines = f"""
        ClusterName=test
        SlurmctldHost={here}(127.0.0.1)
        SlurmctldPort={control}
        SlurmUser={user}
        SlurmdUser={user}
        AuthType=auth/none
        CredType=cred/none
        StateSaveLocation={base}/state
        SlurmdSpoolDir={base}/spool/%n
        TmpFS={base}/tmp
        TaskProlog={base}/task-prolog
        SlurmctldPidFile={base}/slurmctld.pid
        SlurmdPidFile={base}/slurmd-%n.pid
        SlurmctldLogFile={base}/log/slurmctld.log
        SlurmdLogFile={base}/log/slurmd-%n.log
        ProctrackType=proctrack/linuxproc
        TaskPlugin=task/none
        SwitchType=switch/none
        MpiDefault=none
        SelectType=select/cons_tres
        SelectTypeParameters=CR_Core_Memory
        DefMemPerCPU={max(1, options.memory // options.cpus)}
        SlurmdParameters=config_overrides
        EnforcePartLimits={options.enforce}
        ReturnToService=2
        GresTypes=gpu
        AccountingStorageType=accounting_storage/none
        SlurmdTimeout={options.slurmd_timeout}
        SlurmctldTimeout=10
        MessageTimeout=10
        KillWait={options.kill_wait}
        MinJobAge={options.min_job_age}
        SchedulerType=sched/backfill
        SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,sched_min_interval=0
        PartitionName=cpu Nodes={','.join(nodes[:options.nodes])} Default=YES MaxTime={options.max_minutes}
    """.split("\n")
    if with_gpu:
        lines.append(f"PartitionName=gpu Nodes={','.join(with_gpu)} MaxTime={max(1, options.max_minutes // 2)}")
    # Not known to its controller: it is for tests of a partition that is not up.
    lines.append(f"PartitionName=down Nodes={nodes[0]} MaxTime={options.max_minutes} State=DOWN")
    for node, port in zip(nodes, ports):
        gpus = f" Gres=gpu:{options.gpus}" if node in with_gpu else ""
        lines.append(f"NodeName={node} NodeHostname={here} NodeAddr=127.0.0.1 Port={port} CPUs={options.cpus} "
                     f"Boards=1 SocketsPerBoard=1 CoresPerSocket={options.cpus} ThreadsPerCore=1 "
                     f"RealMemory={options.memory}{gpus}")
    lines += options.set
    # Partitions name nodes, so nodes come first.
    lines = [line.strip() for line in lines if line.strip()]
    lines.sort(key=lambda line: line.startswith("PartitionName="))
    Path(cluster.conf()).write_text("\n".join(lines) + "\n")
    devices = [gpu_device(base, number) for number in range(options.gpus)]
    gres = [f"NodeName={node} Name=gpu File={device}" for node in with_gpu for device in devices]
    Path(f"{base}/gres.conf").write_text("\n".join([*gres, ""]))
    Path(f"{base}/env.sh").write_text(f"export SLURM_CONF='{cluster.conf()}'\n")
    # As on real nodes, each has temporary files of its own: daemons of Open MPI make directories named after the host.
    prolog = Path(f"{base}/task-prolog")
    prolog.write_text(f'#!/bin/sh\necho "export TMPDIR={base}/tmp/$SLURMD_NODENAME"\n')
    prolog.chmod(0o755)
    cluster.hosts = {"head": ["slurmctld", "-D", "-f", cluster.conf()]}
    cluster.hosts |= {node: ["slurmd", "-D", "-f", cluster.conf(), "-N", node] for node in nodes}


def gpu_device(base: str, number: int) -> str:
    """Slurm takes character devices only: copies of /dev/null, or without the right to make one, a terminal."""
    path = f"{base}/dev/nvidia{number}"
    try:
        if not os.path.exists(path):
            os.mknod(path, 0o020666, os.makedev(1, 3))
        return path
    except OSError:
        return f"/dev/tty{number}"


# ---- commands ------------------------------------------------------------------------------------------------


def up(options: argparse.Namespace) -> None:
    missing = [program for program in PROGRAMS if not shutil.which(program)]
    if missing:
        fail(f"not installed: {' '.join(missing)} (apt-get install --no-install-recommends slurm-wlm)")
    directory = Path(options.dir).resolve()
    directory.mkdir(parents=True, exist_ok=True)
    cluster = Cluster(options.dir)
    if not cluster.is_known:
        if any(directory.iterdir()):
            fail(f"{directory} holds something that is not a cluster")
        if cluster.base != str(directory):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(cluster.base)
            os.symlink(directory, cluster.base)
        cluster.owner = options.owner
        configure(cluster, options)
        cluster.save()
    for host in cluster.hosts:
        cluster.start(host)
    cluster.wait(cluster.nodes(), options.timeout)
    print(f"SLURM_CONF={cluster.conf()}")


def down(options: argparse.Namespace) -> None:
    cluster = Cluster(options.dir)
    if not cluster.is_known:
        return
    for is_head in (False, True):
        keepers = [pid for host in cluster.hosts if (host == "head") == is_head and (pid := cluster.keeper(host))]
        for pid in keepers:
            end(pid, signal.SIGTERM)
        if not wait_until(lambda: not [pid for pid in keepers if stat(pid)], 15):
            fail(f"processes {keepers} do not end")
    remove(cluster)


def remove(cluster: Cluster) -> None:
    if cluster.base != str(cluster.directory):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(cluster.base)
    shutil.rmtree(cluster.directory)


def known_host(options: argparse.Namespace) -> Cluster:
    cluster = Cluster(options.dir)
    if options.node not in cluster.hosts:
        fail(f"no node {options.node} in {options.dir}: {' '.join(cluster.hosts) or 'no cluster'}")
    return cluster


def kill(options: argparse.Namespace) -> None:
    cluster = known_host(options)
    if pid := cluster.keeper(options.node):
        end(pid, signal.SIGTERM)
        if not wait_until(lambda: not stat(pid), 15):
            fail(f"process {pid} does not end")


def crash(options: argparse.Namespace) -> None:
    cluster = known_host(options)
    keeper = cluster.keeper(options.node)
    program = cluster.hosts[options.node][0]
    for pid in descendants(keeper) if keeper else []:
        with contextlib.suppress(OSError):
            if os.path.basename(Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()) == program:
                end(pid, signal.SIGKILL)
                wait_until(lambda pid=pid: not stat(pid), 5)


def start(options: argparse.Namespace) -> None:
    cluster = known_host(options)
    cluster.start(options.node)
    # Nodes may be away for reasons of their own: of the head it is asked only that it answers.
    cluster.wait([] if options.node == "head" else [options.node], options.timeout)


def status(options: argparse.Namespace) -> None:
    cluster = Cluster(options.dir)
    states = cluster.states() if cluster.keeper("head") else {}
    for host in cluster.hosts:
        print(host, "runs" if cluster.keeper(host) else "ended", states.get(host, ""))
    sys.exit(0 if cluster.hosts and all(cluster.keeper(host) for host in cluster.hosts) else 1)


def main() -> None:
    if sys.argv[1:2] == ["keep"]:
        base, host, owner, *argv = sys.argv[2:]
        keep(base, host, int(owner), argv)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True)
    for run, takes_node in ((up, 0), (down, 0), (kill, 1), (crash, 1), (start, 1), (status, 0)):
        command = commands.add_parser(run.__name__)
        command.add_argument("dir")
        if takes_node:
            command.add_argument("node")
        if run in (up, start):
            command.add_argument("--timeout", type=float, default=60, help="seconds to wait for nodes (60)")
        command.set_defaults(run=run)
        if run is up:
            number = lambda name, default, text: command.add_argument(
                name, type=int, default=default, help=f"{text} ({default})")
            number("--nodes", 3, "nodes of the partition `cpu`")
            number("--gpu-nodes", 1, "nodes of the partition `gpu`")
            number("--cpus", 4, "CPUs that each node claims")
            number("--memory", 4096, "MiB that each node claims")
            number("--gpus", 2, "GPUs that each node of `gpu` claims")
            number("--max-minutes", 60, "longest time limit in `cpu`; in `gpu` half of it")
            number("--kill-wait", 2, "seconds between TERM and KILL")
            number("--min-job-age", 300, "seconds an ended job is remembered")
            number("--slurmd-timeout", 10, "seconds until a silent node is down")
            number("--owner", 0, "a process whose end is the cluster's end; 0: none")
            command.add_argument("--enforce", default="ALL", help="EnforcePartLimits: ALL, ANY or NO (ALL)")
            command.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                                 help="one more line of slurm.conf")
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()

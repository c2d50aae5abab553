"""A server and workers on this machine, which end with this process, however it ends."""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import signal
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import IO, TYPE_CHECKING, Any, TypeAlias

from . import _binary, validation
from . import _limits as limits
from ._base import Forked, HqError, StaysHere
from .validation import ValidationException, WrongType

if TYPE_CHECKING:
    import concurrent.futures
    import subprocess
    from types import TracebackType

    from typing_extensions import Self

    from ._executor import Executor
    from ._native import Session
    from .client import Client

GenericPath: TypeAlias = "str | os.PathLike[str]"
Amount: TypeAlias = "int | float | str"

# A child of a shell that removes what it was given once that is over. Workers have directories of their own, which they
# remove, and would make again while they live.
_THEN_REMOVE = '"$@"; until rm -rf -- "$0" 2>/dev/null; do sleep 0.01; done'
# How long processes that were told to end may take, in seconds.
_END_TIMEOUT = 30.0


class ClusterError(RuntimeError):
    """A server or worker of a local cluster does not start, or has ended by itself; the text has its last words."""


@dataclass
class WorkerConfig:
    """What a worker of a local cluster offers."""

    cores: int | None = None
    """Its CPUs; all of this machine by default."""
    resources: Mapping[str, Amount] = field(default_factory=dict)
    """Other resources by name. A whole number counts indices (`{"gpus": 2}`), others and `mem` are sums; a text is taken
    as it is by `hq worker start --resource`."""


class LocalCluster(StaysHere):
    """A server and workers on this machine. They end when it is stopped, and when this process ends, also when it is killed.

    Without `workers`, `cpus` or a `worker_config`, one worker is started at the first submit, unless there is one by then.

    :param server_dir: Directory of the server; a private one by default, which is removed when the cluster is stopped.
    :param worker_config: Start a worker like this.
    :param workers: Start so many workers.
    :param cpus: CPUs of each of these.
    :param resources: Other resources of each of these.
    :param journal: Keep what happens on disk.
    """

    _instead = "a cluster stays in the process that started it; give its server_dir, which Client and Executor take"

    def __init__(
        self,
        server_dir: GenericPath | None = None,
        worker_config: WorkerConfig | None = None,
        *,
        workers: int | None = None,
        cpus: int | None = None,
        resources: Mapping[str, Amount] | None = None,
        journal: bool = False,
    ) -> None:
        # All of it before anything is started.
        for name, value in (("workers", workers), ("cpus", cpus)):
            if value is not None:
                validation.whole(name, value, int(name == "cpus"))
        validation.flag("journal", journal)
        if worker_config is None:
            worker_config = WorkerConfig(cpus, {} if resources is None else resources)
            is_described = cpus is not None or bool(resources)
        else:
            is_described = True
            for name, given in (("cpus", cpus), ("resources", resources)):
                if given is not None:
                    raise validation.wrong(name, given, "worker_config says it; give one of them", ValidationException)
        _offered(worker_config, "worker_config")
        if server_dir is not None:
            server_dir = validation.path("server_dir", server_dir)
            if os.path.exists(server_dir) and not os.path.isdir(server_dir):
                raise validation.wrong("server_dir", server_dir, "it is no directory; give one, or a path where there is nothing", ValidationException)
        self._hq = _binary.find()
        self._config = worker_config
        self._children = _Children(is_private=server_dir is None)
        self._workers = 0
        self._stopped = False
        # By itself.
        self._why_ended = ""
        self._lock = threading.Lock()
        if server_dir is None:
            import tempfile

            self._dir = tempfile.mkdtemp(prefix="hq-")
        else:
            self._dir = os.path.abspath(server_dir)
            os.makedirs(self._dir, mode=0o700, exist_ok=True)
        self._children.directory = self._dir
        self._finalizer = weakref.finalize(self, _Children.end, self._children)
        if workers is None:
            workers = int(is_described)
        try:
            options = [] if journal else ["--journal", "none"]
            started = self._children.start(self._argv("server", "start", "--host", "localhost", *options), "server", True)
            # Beside the server: a worker waits for one that starts.
            for _ in range(workers):
                self.start_worker(self._config)
            # What the first call needs, while the server starts.
            importlib.import_module("headquarters._executor")
            importlib.import_module("headquarters._native")
            self._await(started)
            self._children.has_begun.set()
        except BaseException:
            self._finalizer()
            raise
        threading.Thread(target=_notice, args=(weakref.ref(self), started), daemon=True, name="hq-server").start()

    @property
    def server_dir(self) -> str:
        """Directory of the server."""
        return self._dir

    @property
    def stopped(self) -> bool:
        """True once it was stopped."""
        return self._stopped

    # Whoever has lost the server asks: its end may be seen later than that of its connections.
    def _server_has_ended(self) -> bool:
        import subprocess

        try:
            self._children._processes[0].wait(limits.SERVER_END_S)
        except subprocess.TimeoutExpired:
            return False
        except IndexError:
            pass
        return True

    @property
    def address(self) -> str:
        """Host and port at which clients reach the server."""
        return self._session().address

    def client(self, **client_args: Any) -> Client:
        """A client of this cluster."""
        self._check()
        from .client import Client

        return Client(self._dir, _cluster=self, **client_args)

    def executor(self, max_workers: int | None = None, **options: Any) -> Executor:
        """An executor whose calls run in this cluster."""
        self._check()
        from ._executor import Executor

        return Executor(max_workers, cluster=self, **options)

    def start_worker(self, config: WorkerConfig | None = None) -> None:
        """Adds a worker; it is there when it has connected, a moment later. One that ends by itself is replaced."""
        config = self._config if config is None else config
        _offered(config, "config")
        self._start_worker(config, 0)

    # Those before it that have not connected are `failed`.
    def _start_worker(self, config: WorkerConfig, failed: int) -> None:
        self._check()
        with self._lock:
            self._workers += 1
            name = f"worker-{self._workers}"
        argv = [*self._argv("worker", "start", "--manager", "none", "--on-server-lost", "stop"), *_offered(config, "config")]
        process = self._children.start(argv, name, False)
        watch = threading.Thread(target=_replace, args=(weakref.ref(self), self._children, process, name, config, failed))
        watch.daemon = True
        watch.name = f"hq-{name}"
        watch.start()

    def wait_for_workers(self, count: int = 1, timeout: float | None = None) -> None:
        """Waits until so many workers are connected; raises TimeoutError where they are not after `timeout` seconds."""
        validation.whole("count", count)
        validation.timeout("timeout", timeout)
        session = self._session()
        if timeout is None:
            session.wait_for_workers(count)
            return
        import concurrent.futures

        here: concurrent.futures.Future[None] = concurrent.futures.Future()
        threading.Thread(target=_wait, args=(session, count, here), daemon=True, name="hq-workers").start()
        try:
            here.result(timeout)
        except concurrent.futures.TimeoutError:
            if here.done():
                raise
            connected = len(self._session().workers())
            text = f"{connected} of {count} workers of {self._dir} are connected after {timeout} seconds"
            raise concurrent.futures.TimeoutError(text) from None

    def stop(self) -> None:
        """Ends the workers with what they run, and the server. Does nothing where that has been done."""
        if self._stopped:
            return
        self._check()
        self._stopped = True
        self._finalizer()

    def __enter__(self) -> Self:
        self._check()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if not self._stopped and not self._children.forked:
            self.stop()

    def __repr__(self) -> str:
        state = "stopped" if self._stopped else f"{self._workers} workers started"
        return f"<LocalCluster {self._dir}, {state}>"

    def _repr_html_(self) -> str:
        from ._notebook import of_cluster

        return of_cluster(self)

    def _check(self) -> None:
        if self._children.forked:
            raise Forked("this cluster belongs to the process that started it, not to one that it forked")
        if self._stopped:
            raise ClusterError("Cluster was already stopped" + (self._why_ended and f": {self._why_ended}"))

    def _session(self) -> Session:
        self._check()
        from ._native import Session

        return Session(self._dir)

    # A submit would wait for ever where there is no worker.
    def _ensure_worker(self) -> None:
        if self._workers == 0:
            self.start_worker()

    def _workers_alive(self) -> int:
        # The first process is the server.
        return sum(process.poll() is None for process in self._children._processes[1:])

    def _argv(self, *words: str) -> list[str]:
        return [self._hq, "--output-mode", "quiet", "--server-dir", self._dir, *words, "--lifeline"]

    # The server prints where it is once it answers.
    def _await(self, server: subprocess.Popen[bytes]) -> None:
        assert server.stdout is not None
        line = server.stdout.readline()
        server.stdout.close()
        if not line:
            server.wait()
            raise ClusterError(f"the server of the cluster did not start: {self._last_words('server')}")

    def _last_words(self, name: str) -> str:
        try:
            with open(os.path.join(self._dir, f"{name}.log"), "rb") as log:
                words = log.read()[-limits.LAST_WORDS_BYTES :]
        except FileNotFoundError:
            words = b""
        return words.decode(errors="replace").strip()

    def _has_connected(self, pid: int) -> bool:
        try:
            return any(worker["pid"] == pid for worker in self._session().workers(True))
        except HqError:
            # The server does not answer yet, or no more, which another thread sees.
            return False

    # The whole cluster ends, as it cannot go on.
    def _give_up(self, reason: str) -> None:
        from ._sessions import cluster_ended

        self._why_ended = reason
        self._stopped = True
        cluster_ended(self, reason)
        self._finalizer()


class _Children:
    """What a cluster has started. It does not know the cluster, so that one which nobody uses any more is ended."""

    def __init__(self, is_private: bool) -> None:
        self.is_private = is_private
        self.directory = ""
        self.forked = False
        self._processes: list[subprocess.Popen[bytes]] = []
        self._lifelines: list[IO[bytes]] = []
        # What would be started while the others are ended would be left.
        self._lock = threading.Lock()
        self._ended = False
        # The server answers, or all is over.
        self.has_begun = threading.Event()
        _ALL.add(self)

    def start(self, argv: list[str], name: str, is_server: bool) -> subprocess.Popen[bytes]:
        import subprocess

        if is_server and self.is_private:
            # Also when this process is killed, somebody has to remove it.
            argv = ["/bin/sh", "-c", _THEN_REMOVE, self.directory, *argv]
        # What a task prints and where it runs is its own: variables that speak of another server are not for this one.
        env = {key: value for key, value in os.environ.items() if key not in _FOREIGN}
        with self._lock, open(os.path.join(self.directory, f"{name}.log"), "ab") as log:
            if self._ended:
                raise ClusterError("Cluster was already stopped")
            process = subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE if is_server else subprocess.DEVNULL,
                stderr=log,
                cwd=self.directory,
                env=env,
                start_new_session=True,
            )
            assert process.stdin is not None
            self._lifelines.append(process.stdin)
            self._processes.append(process)
        return process

    # Workers first, so that what they run ends before the server wonders where they are.
    def end(self) -> None:
        if self.forked:
            return
        import subprocess

        with self._lock:
            self._ended = True
        # A server that has not answered yet has nothing to bring to an end.
        grace = _END_TIMEOUT if self.has_begun.is_set() else limits.SERVER_END_S
        self.has_begun.set()
        for lifeline in reversed(self._lifelines):
            lifeline.close()
        for process in reversed(self._processes):
            try:
                process.wait(grace)
            except subprocess.TimeoutExpired:
                # With what it has started: the server is the child of a shell.
                if process.poll() is None:
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        self._lifelines.clear()
        self._processes.clear()
        if self.is_private:
            import shutil

            shutil.rmtree(self.directory, ignore_errors=True)

    # In a process that was forked: it must not keep the cluster alive, nor end it.
    def forget(self) -> None:
        self.forked = True
        for lifeline in self._lifelines:
            lifeline.close()
        for process in self._processes:
            process.returncode = 0


_ALL: weakref.WeakSet[_Children] = weakref.WeakSet()
_FOREIGN = {"HQ_RUN", "HQ_SERVER_DIR", "HQ_JOB_ID", "HQ_TASK_ID", "HQ_INSTANCE_ID"}


def _forked() -> None:
    for children in list(_ALL):
        children.forget()


os.register_at_fork(after_in_child=_forked)


# A server that ends by itself takes the cluster with it: nobody starts another one that knows what it knew.
def _notice(of: weakref.ref[LocalCluster], process: subprocess.Popen[bytes]) -> None:
    process.wait()
    cluster = of()
    if cluster is not None and not cluster._stopped and not cluster._children.forked:
        from ._sessions import ENDED

        cluster._give_up(ENDED)


# A worker that was killed, or that ends because what belongs to it was killed, has a successor, so that what it had ends
# somewhere. One that was told to end has none.
def _replace(
    of: weakref.ref[LocalCluster],
    children: _Children,
    process: subprocess.Popen[bytes],
    name: str,
    config: WorkerConfig,
    failed: int,
) -> None:
    code = process.wait()
    # Workers start beside the server, and may have ended before it answers.
    children.has_begun.wait()
    cluster = of()
    if code == 0 or cluster is None or cluster._stopped or children.forked:
        return
    try:
        failed = 0 if cluster._has_connected(process.pid) else failed + 1
        if failed < limits.WORKERS_FAILED_MAX:
            cluster._start_worker(config, failed)
            return
        how = f"was ended by signal {-code}" if code < 0 else f"exited with code {code}"
        reason = f"{failed} workers in a row have ended before they were connected; the last one {how}: {cluster._last_words(name)}"
        if cluster._workers_alive():
            logging.getLogger("headquarters").warning("a worker of %s is not replaced: %s", cluster, reason)
        else:
            cluster._give_up(reason)
    except (ClusterError, Forked, OSError):
        # The cluster was stopped meanwhile, or nothing can be started here any more.
        pass


# For whoever waits only for so long.
def _wait(session: Session, count: int, here: concurrent.futures.Future[None]) -> None:
    try:
        session.wait_for_workers(count)
    except BaseException as error:
        here.set_exception(error)
    else:
        here.set_result(None)


_RESOURCE = re.compile(r"[A-Za-z][A-Za-z0-9/_-]*")


# The words of `hq worker start` for what a worker offers.
def _offered(config: WorkerConfig, called: str) -> list[str]:
    if not isinstance(config, WorkerConfig):
        raise validation.wrong(called, config, "give a WorkerConfig, such as WorkerConfig(cores=2)")
    words = [] if config.cores is None else ["--cpus", str(validation.whole("cores", config.cores, 1))]
    if not isinstance(config.resources, Mapping):
        raise validation.wrong("resources", config.resources, "give a dict of amounts, such as {'gpus': 2}")
    for name, amount in config.resources.items():
        if not isinstance(name, str) or not _RESOURCE.fullmatch(name):
            instead = "give a letter, and then letters, digits, /, - and _"
            raise validation.wrong("a name in resources", name, instead, WrongType if not isinstance(name, str) else ValidationException)
        if name == "cpus":
            raise validation.wrong("resources['cpus']", amount, "CPUs are given as cpus= of LocalCluster, or cores= of WorkerConfig", ValidationException)
        words += ["--resource", f"{name}={_definition(name, amount)}"]
    return words


# What `hq worker start --resource` takes.
def _definition(name: str, given: Amount) -> str:
    what = f"resources[{name!r}]"
    instead = "give a number above zero, or a text such as '[0,2]'" + (" or '8 GiB'" if name == "mem" else "")
    amount = validation.amount(what, given, instead)
    if isinstance(amount, str):
        if amount[:1] == "[" or "(" in amount:
            return amount
        is_known = amount.strip()[:1].isdigit()
    else:
        is_known = amount > 0
    if not is_known:
        raise validation.wrong(what, given, instead, ValidationException)
    return f"range(0-{amount - 1})" if isinstance(amount, int) and name != "mem" else f"sum({amount})"

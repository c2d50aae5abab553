#!/usr/bin/env python3
"""A stand-in for PBS, for tests: the commands and their answers, with jobs that run on this machine.

    pbs.py install DIR [options]        makes DIR/bin with qsub, qstat, qdel, qselect, qrls, pbsnodes and pbsdsh
    pbs.py set DIR ID KEY=VALUE...      changes attributes of a job, for states that only a real PBS reaches
    pbs.py end DIR                      ends all jobs and their processes

The commands know DIR by where they were started from. No server runs: every command looks after the queue, and each
running job has one process that minds it. README.md, beside this file, tells what is like PBS and what is not.
"""

import argparse
import contextlib
import fcntl
import getpass
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

SERVER = "pbs0"
COMMANDS = ("qsub", "qstat", "qdel", "qselect", "qrls", "pbsnodes", "pbsdsh")
SHORT_PATH = "/usr/local/bin:/usr/bin:/bin"
RESOURCES = {"select", "place", "walltime", "ncpus", "mem", "nodes", "ngpus", "mpiprocs", "host", "software"}
# Numbers of PBS's errors; a command exits with the remainder by 256.
UNKNOWN_ID, UNKNOWN_QUEUE, UNKNOWN_RESOURCE = 15001, 15018, 15035
OVER_LIMITS, OVER_USER_LIMIT, NO_SERVER, FINISHED = 15036, 15142, 15010, 15139


class Refusal(Exception):
    """What a command says before it ends with a number."""

    def __init__(self, number: int, text: str) -> None:
        super().__init__(text)
        self.number = number


# ---- what is kept --------------------------------------------------------------------------------------------


class Server:
    """The queue on disk, held by one command at a time."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.config = json.loads((directory / "config.json").read_text())

    @contextlib.contextmanager
    def held(self):
        with open(self.directory / "lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            path = self.directory / "jobs.json"
            try:
                self.jobs = json.loads(path.read_text())
            except FileNotFoundError:
                self.jobs = {}
            yield self.jobs
            new = self.directory / "jobs.json.new"
            new.write_text(json.dumps(self.jobs))
            new.replace(path)

    def find(self, ident: str) -> str | None:
        """The full id of what was written as `12`, `12.pbs0` or `12.pbs0.site`."""
        number = ident.split(".")[0]
        full = f"{number}.{SERVER}"
        return full if full in self.jobs else None

    def reachable(self, command: str) -> None:
        if (self.directory / "down").exists():
            text = f"Connection refused\n{command}: cannot connect to server {SERVER} (errno={NO_SERVER})"
            raise Refusal(NO_SERVER, text)

    # -- the scheduler

    def chunks(self, resources: dict) -> list[dict]:
        found = []
        for part in str(resources.get("select", "1")).split("+"):
            words = part.split(":")
            count = int(words.pop(0)) if words[0].isdigit() else 1
            asked = dict(word.split("=", 1) for word in words)
            found += [{"ncpus": int(asked.get("ncpus", 1)), "ngpus": int(asked.get("ngpus", 0)),
                       "mpiprocs": int(asked.get("mpiprocs", 1))} for _ in range(count)]
        return found

    def place(self, resources: dict, used: dict) -> list[str] | None:
        """A host for each chunk, or None."""
        taken: dict = {host: dict(amounts) for host, amounts in used.items()}
        hosts: list[str] = []
        for chunk in self.chunks(resources):
            for host, has in self.config["nodes"].items():
                of = taken.setdefault(host, {"ncpus": 0, "ngpus": 0})
                if "scatter" in str(resources.get("place", "")) and host in hosts:
                    continue
                if all(of[key] + chunk[key] <= has[key] for key in ("ncpus", "ngpus")):
                    for key in ("ncpus", "ngpus"):
                        of[key] += chunk[key]
                    hosts.append(host)
                    break
            else:
                return None
        return hosts

    def schedule(self) -> None:
        now = time.time()
        used: dict = {}
        for job in self.jobs.values():
            if job["job_state"] in "RES" and job.get("hosts"):
                for host, chunk in zip(job["hosts"], self.chunks(job["Resource_List"])):
                    of = used.setdefault(host, {"ncpus": 0, "ngpus": 0})
                    for key in ("ncpus", "ngpus"):
                        of[key] += chunk[key]
        for ident, job in self.jobs.items():
            if job["job_state"] == "W" and now >= job["not_before"]:
                job["job_state"] = "Q"
            if job["job_state"] == "H" and job.get("substate") == 22 and self.is_over(job["after"]):
                job["job_state"], job["substate"] = "Q", 10
            if job["job_state"] != "Q" or job.get("is_forced"):
                continue
            if self.place(job["Resource_List"], {}) is None:
                job["comment"] = "Can Never Run: Insufficient amount of resource: ncpus"
            elif (hosts := self.place(job["Resource_List"], used)) is None:
                job["comment"] = "Not Running: Not enough free nodes available"
            else:
                for host, chunk in zip(hosts, self.chunks(job["Resource_List"])):
                    of = used.setdefault(host, {"ncpus": 0, "ngpus": 0})
                    for key in ("ncpus", "ngpus"):
                        of[key] += chunk[key]
                self.run(ident, job, hosts)

    def is_over(self, ident: str) -> bool:
        full = self.find(ident)
        return full is None or self.jobs[full]["job_state"] in "FX"

    def run(self, ident: str, job: dict, hosts: list[str]) -> None:
        chunks = self.chunks(job["Resource_List"])
        job["hosts"] = hosts
        job["job_state"], job["substate"] = "R", 42
        job["comment"] = f"Job run at {stamp()} on " + "+".join(
            f"({host}:ncpus={chunk['ncpus']})" for host, chunk in zip(hosts, chunks))
        job["exec_host"] = "+".join(f"{host}/{at}*{chunk['ncpus']}"
                                    for at, (host, chunk) in enumerate(zip(hosts, chunks)))
        job["exec_vnode"] = "+".join(f"({host}:ncpus={chunk['ncpus']})" for host, chunk in zip(hosts, chunks))
        job["stime"] = stamp()
        job["run_count"] = job.get("run_count", 0) + 1
        nodefile = self.directory / "aux" / ident
        nodefile.write_text("".join(f"{host}\n" * chunk["mpiprocs"] for host, chunk in zip(hosts, chunks)))
        minder = subprocess.Popen([sys.executable, os.path.abspath(__file__), "mind", str(self.directory), ident],
                                  stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True, cwd="/")
        job["minder"] = minder.pid


def stamp(at: float | None = None) -> str:
    return time.strftime("%a %b %e %H:%M:%S %Y", time.localtime(at))


def seconds(text: str) -> int:
    total = 0
    for part in text.split(":"):
        total = total * 60 + int(part)
    return total


# ---- a running job -------------------------------------------------------------------------------------------


def mind(directory: str, ident: str) -> None:
    """Runs a job's script, and ends it when its time is over or when it is deleted."""
    server = Server(Path(directory))
    asked: list[int] = []
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGUSR1, lambda number, _: asked.append(number))
    signal.signal(signal.SIGCHLD, lambda *_: None)
    with server.held() as jobs:
        job = dict(jobs[ident])
    home = os.path.expanduser("~")
    environment = {
        "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_JOBID": ident, "PBS_JOBNAME": job["Job_Name"],
        "PBS_QUEUE": job["queue"], "PBS_NODENUM": "0", "PBS_TASKNUM": "1", "NCPUS": str(server.chunks(job["Resource_List"])[0]["ncpus"]),
        "OMP_NUM_THREADS": "1",
        "PBS_NODEFILE": str(server.directory / "aux" / ident),
        "PBS_CONF_FILE": str(server.directory / "pbs.conf"), "PATH": f"{directory}/bin:{SHORT_PATH}", "HOME": home,
        "SHELL": "/bin/bash", "USER": getpass.getuser(), "LOGNAME": getpass.getuser(), **job["Variable_List"],
    }
    outputs = {}
    for key in ("Output_Path", "Error_Path"):
        final = job[key].partition(":")[2]
        # Without `-k d` output lies elsewhere until the job's end.
        outputs[key] = final if "d" in job["keep"] else str(server.directory / "aux" / f"{ident}.{key}")
    files = [open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") for path in outputs.values()]
    script = open(server.directory / "aux" / f"{ident}.script", "rb")
    # The shell reads the script as its standard input, as PBS does it.
    shell = subprocess.Popen([job["shell"], "-l"], stdin=script, stdout=files[0], stderr=files[1], env=environment,
                             cwd=home, start_new_session=True)
    limit = time.monotonic() + seconds(job["Resource_List"]["walltime"])
    kill_at, why = None, None
    while shell.poll() is None:
        now = time.monotonic()
        if why is None and (asked or now >= limit):
            why = "deleted" if asked else "walltime"
            if why == "walltime":
                used = job["Resource_List"]["walltime"]
                files[1].write(f"=>> PBS: job killed: walltime {seconds(used) + 1} exceeded limit "
                               f"{seconds(used)}\n".encode())
                files[1].flush()
            tell(server, ident, shell.pid, signal.SIGTERM)
            kill_at = now + server.config["kill_delay"]
        elif why is not None and now >= kill_at:
            tell(server, ident, shell.pid, signal.SIGKILL)
            kill_at = now + 1
        wait_for(woken, (limit if why is None else kill_at) - now)
    tell(server, ident, shell.pid, signal.SIGKILL)
    code = shell.returncode
    status = {None: code if code >= 0 else 256 - code, "deleted": 271, "walltime": -29}[why]
    for key, path in outputs.items():
        if path != (final := job[key].partition(":")[2]):
            with contextlib.suppress(OSError):
                os.replace(path, final)
    with server.held() as jobs:
        job = jobs[ident]
        job |= {"job_state": "F", "Exit_status": status, "mtime": stamp(),
                "substate": {None: 92, "deleted": 91, "walltime": 93}[why]}
        job.pop("hosts")
        if not server.config["history"]:
            del jobs[ident]
        server.schedule()


def wait_for(woken: int, limit: float) -> None:
    import select

    if select.select([woken], [], [], max(0.0, limit))[0]:
        os.read(woken, 4096)


def tell(server: Server, ident: str, shell: int, number: int) -> None:
    """Sends a signal to all processes of a job: the shell's session, and those that pbsdsh started."""
    sessions = {shell}
    with contextlib.suppress(FileNotFoundError):
        sessions |= {int(line) for line in (server.directory / "aux" / f"{ident}.tasks").read_text().split()}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if os.getsid(int(name)) in sessions:
                    os.kill(int(name), number)


def pbsdsh(server: Server, args: list[str]) -> int:
    """Runs a command for each line of the node file, or for one of them."""
    ident, at = os.environ["PBS_JOBID"], None
    while args and args[0].startswith("-"):
        option = args.pop(0)
        if option == "--":
            break
        if option == "-n":
            at = int(args.pop(0))
        else:
            raise Refusal(2, f"usage: pbsdsh [-n node_index] -- program [args]: {option}")
    lines = Path(os.environ["PBS_NODEFILE"]).read_text().split()
    if at is not None and at >= len(lines):
        raise Refusal(1, f"pbsdsh: node {at} does not exist")
    tasks = []
    environment = {name: value for name, value in os.environ.items() if name.startswith("PBS_")}
    environment |= {"PATH": f"{server.directory}/bin:{SHORT_PATH}", "HOME": os.path.expanduser("~")}
    # Like the real one: a signal is for the tasks, which get it from PBS.
    signal.signal(signal.SIGTERM, lambda *_: None)
    for index, host in enumerate(lines):
        if at in (None, index):
            task = subprocess.Popen(args, env={**environment, "PBS_NODENUM": str(index), "PBS_HOST": host},
                                    stdin=subprocess.DEVNULL, cwd=environment["HOME"], start_new_session=True)
            with open(server.directory / "aux" / f"{ident}.tasks", "a") as file:
                file.write(f"{task.pid}\n")
            tasks.append(task)
    codes = [task.wait() for task in tasks]
    return max(code if code >= 0 else 128 - code for code in codes)


# ---- commands ------------------------------------------------------------------------------------------------


def read_options(words: list[str], options: dict, resources: dict) -> list[str]:
    """Takes options off a list of words; returns what is left."""
    takes = "aAceJjklmMNopPqrRSuvW"
    words = list(words)
    while words and words[0].startswith("-") and words[0] not in ("-", "--"):
        word = words.pop(0)
        letter, value = word[1], word[2:]
        if letter in takes:
            if not value:
                if not words:
                    raise Refusal(2, f"qsub: option requires an argument -- '{letter}'")
                value = words.pop(0)
            if letter == "l":
                for entry in split_resources(value):
                    key, _, amount = entry.partition("=")
                    resources[key] = amount
            else:
                options[letter] = value
        elif letter in "hVIzXf":
            options[letter] = "yes"
        else:
            raise Refusal(2, f"qsub: invalid option -- '{letter}'")
    return words


def split_resources(text: str) -> list[str]:
    return [entry for entry in text.split(",") if entry]


def header_words(line: str) -> list[str]:
    """Words of a header line: either kind of quotes, no backslash."""
    return ["".join(parts) for parts in
            ([quoted[1:-1] if quoted[0] in "'\"" else quoted for quoted in re.findall(r"\"[^\"]*\"|'[^']*'|[^\s'\"]+", word)]
             for word in re.findall(r"(?:\"[^\"]*\"|'[^']*'|[^\s'\"])+", line))]


def qsub(server: Server, args: list[str]) -> int:
    server.reachable("qsub")
    from_line, line_resources = {}, {}
    rest = read_options(args, from_line, line_resources)
    if from_line.get("I"):
        raise Refusal(1, "qsub: standard input and output must be a terminal for interactive job submission")
    name = "STDIN"
    if rest and rest[0] == "--":
        text, name = " ".join(rest[1:]).encode(), os.path.basename(rest[1])
    elif rest:
        try:
            text, name = Path(rest[0]).read_bytes(), os.path.basename(rest[0])
        except OSError as error:
            raise Refusal(1, f"qsub: script file:: {error.strerror}") from None
    else:
        text = sys.stdin.buffer.read()
    options, resources = {}, {}
    for line in text.decode(errors="surrogateescape").splitlines():
        if line.startswith("#PBS "):
            read_options(header_words(line[5:]), options, resources)
        elif line.strip() and not line.startswith("#"):
            break
    options |= from_line
    resources |= line_resources
    queue = options.get("q", "workq").split("@")[0]
    if queue not in server.config["queues"]:
        raise Refusal(UNKNOWN_QUEUE, "qsub: Unknown queue")
    limits = server.config["queues"][queue]
    for key in resources:
        if key not in RESOURCES:
            raise Refusal(UNKNOWN_RESOURCE, f"qsub: Unknown resource Resource_List.{key}")
    for key in re.findall(r"[:+]([A-Za-z_]+)=", ":" + resources.get("select", "")):
        if key not in RESOURCES or key == "ngpus" and not any(node["ngpus"] for node in server.config["nodes"].values()):
            raise Refusal(UNKNOWN_RESOURCE, f"qsub: Unknown resource: {key}")
    longest = limits.get("max_walltime", 5 * 3600)
    walltime = seconds(resources["walltime"]) if "walltime" in resources else longest
    if walltime > limits.get("max_walltime", walltime):
        raise Refusal(OVER_LIMITS, "qsub: Job violates queue and/or server resource limits")
    chunks = server.chunks(resources)
    with server.held() as jobs:
        living = [job for job in jobs.values() if job["queue"] == queue and job["job_state"] not in "FX"]
        if len(living) >= limits.get("max_queued", len(living) + 1):
            raise Refusal(OVER_USER_LIMIT, "qsub: would exceed queue generic's per-user limit")
        counter = server.directory / "number"
        number = int(counter.read_text()) if counter.exists() else 0
        counter.write_text(str(number + 1))
        ident = f"{number}[].{SERVER}" if "J" in options else f"{number}.{SERVER}"
        here, host = os.getcwd(), os.uname().nodename
        job_name = options.get("N", name)

        def path(letter: str, ending: str) -> str:
            return f"{host}:" + os.path.join(here, options.get(letter, f"{job_name}.{ending}{number}"))

        job = {
            "Job_Name": job_name, "Job_Owner": f"{getpass.getuser()}@{host}", "job_state": "Q", "queue": queue,
            "server": SERVER, "Error_Path": path("e", "e"), "Output_Path": path("o", "o"),
            "Hold_Types": "u" if "h" in options else "n", "Rerunable": options.get("r", "y") == "y",
            "Resource_List": {**resources, "ncpus": sum(chunk["ncpus"] for chunk in chunks), "nodect": len(chunks),
                              "walltime": f"{walltime // 3600:02}:{walltime // 60 % 60:02}:{walltime % 60:02}"},
            "Variable_List": {"PBS_O_WORKDIR": here, "PBS_O_HOST": host, "PBS_O_HOME": os.path.expanduser("~"),
                              "PBS_O_PATH": os.environ.get("PATH", ""), "PBS_O_QUEUE": queue},
            "ctime": stamp(), "mtime": stamp(), "qtime": stamp(), "etime": stamp(), "substate": 10,
            "keep": options.get("k", ""), "shell": options.get("S", "/bin/bash"),
        }
        (server.directory / "aux" / f"{ident}.script").write_bytes(text)
        depend = re.search(r"depend=(after\w*):([^,:]+)", options.get("W", ""))
        if "h" in options:
            job |= {"job_state": "H", "substate": 20}
        elif "J" in options:
            job |= {"job_state": "B", "is_forced": True}
        elif depend:
            if server.find(depend[2]) is None:
                raise Refusal(UNKNOWN_ID, "qsub: Unknown Job Id in dependency list")
            job |= {"job_state": "H", "substate": 22, "after": depend[2], "depend": f"{depend[1]}:{depend[2]}"}
        elif "a" in options:
            job |= {"job_state": "W", "substate": 30, "not_before": time.time() + 3600}
        jobs[ident] = job
        server.schedule()
    print(ident)
    return 0


HIDDEN = ("hosts", "minder", "keep", "shell", "after", "not_before", "is_forced")


def qstat(server: Server, args: list[str]) -> int:
    server.reachable("qstat")
    letters, idents = "", []
    words = list(args)
    while words:
        word = words.pop(0)
        if word == "-F":
            if words.pop(0) != "json":
                raise Refusal(2, "qstat: only json is known here")
        elif word.startswith("-"):
            letters += word[1:]
        else:
            idents.append(word)
    if "E" in letters and not server.config["groups"]:
        raise Refusal(2, "qstat: invalid option -- 'E'\nusage: qstat [-f] [-J] [-p] [-t] [-x] [job_identifier...]")
    # Releases of 2024 print only the first id where they do not put ids together.
    if server.config["first_only"] and "E" not in letters:
        idents = idents[:1]
    print_json = lambda key, value: print(json.dumps(
        {"timestamp": int(time.time()), "pbs_version": "23.06.06", "pbs_server": SERVER,
         **({key: value} if value else {})}, indent=4))
    if "Q" in letters:
        print_json("Queue", {name: {"queue_type": "Execution", "enabled": "True", "resources_max": {
            "walltime": "{:02}:{:02}:{:02}".format(*split_time(queue["max_walltime"]))} if "max_walltime" in queue else {}}
            for name, queue in server.config["queues"].items() if not idents or name in idents})
        return 0
    has_history = server.config["history"]
    if "x" in letters and not has_history:
        print("PBS is not configured to maintain job history")
        return 0
    code, shown = 0, {}
    with server.held() as jobs:
        server.schedule()
        for ident in idents or list(jobs):
            full = server.find(ident)
            if full is None:
                print(f"qstat: Unknown Job Id {ident}", file=sys.stderr)
                code = UNKNOWN_ID % 256
            elif jobs[full]["job_state"] in "FX" and "x" not in letters:
                if idents:
                    print(f"qstat: {full} Job has finished, use -x or -H to obtain historical job information",
                          file=sys.stderr)
                    code = code or 35
            else:
                shown[full] = {key: value for key, value in jobs[full].items() if key not in HIDDEN}
    print_json("Jobs", shown)
    return code


def split_time(total: int) -> tuple[int, int, int]:
    return total // 3600, total // 60 % 60, total % 60


def qdel(server: Server, args: list[str]) -> int:
    server.reachable("qdel")
    code = 0
    with server.held() as jobs:
        for ident in args:
            full = server.find(ident)
            if full is None:
                print(f"qdel: Unknown Job Id {ident}", file=sys.stderr)
                code = UNKNOWN_ID % 256
            elif jobs[full]["job_state"] in "FX":
                print(f"qdel: Job has finished {full}", file=sys.stderr)
                code = code or 35
            elif jobs[full].get("hosts"):
                jobs[full]["comment"] += f" and terminated by {getpass.getuser()}@{os.uname().nodename}"
                with contextlib.suppress(ProcessLookupError):
                    os.kill(jobs[full]["minder"], signal.SIGUSR1)
            elif server.config["history"]:
                jobs[full] |= {"job_state": "F", "substate": 91}
            else:
                del jobs[full]
        server.schedule()
    return code


def qselect(server: Server, args: list[str]) -> int:
    server.reachable("qselect")
    name = args[args.index("-N") + 1] if "-N" in args else None
    if "-x" in args and not server.config["history"]:
        print("PBS is not configured to maintain job history")
        return 0
    with server.held() as jobs:
        for ident, job in jobs.items():
            if name in (None, job["Job_Name"]) and ("-x" in args or job["job_state"] not in "FX"):
                print(ident)
    return 0


def qrls(server: Server, args: list[str]) -> int:
    server.reachable("qrls")
    with server.held() as jobs:
        for ident in args:
            full = server.find(ident)
            if full is None:
                raise Refusal(UNKNOWN_ID, f"qrls: Unknown Job Id {ident}")
            if jobs[full]["job_state"] == "H":
                jobs[full] |= {"job_state": "Q", "substate": 10, "Hold_Types": "n"}
        server.schedule()
    return 0


def pbsnodes(server: Server, args: list[str]) -> int:
    server.reachable("pbsnodes")
    nodes = {}
    for host, has in server.config["nodes"].items():
        # A host with several sockets may be shown as several virtual nodes.
        count = server.config["vnodes"]
        for at in range(count):
            name = host if count == 1 else f"{host}[{at}]"
            nodes[name] = {"Mom": host, "ntype": "PBS", "state": "free", "resources_available": {
                "arch": "linux", "host": host, "vnode": name, "ncpus": has["ncpus"] // count,
                "mem": f"{has['mem_kb'] // count}kb", **({"ngpus": has["ngpus"] // count} if has["ngpus"] else {})}}
    print(json.dumps({"timestamp": int(time.time()), "pbs_version": "23.06.06", "pbs_server": SERVER, "nodes": nodes},
                     indent=4))
    return 0


def install(options: argparse.Namespace) -> None:
    directory = Path(options.dir).absolute()
    for name in ("bin", "aux"):
        (directory / name).mkdir(parents=True, exist_ok=True)
    nodes = {f"pbs{number + 1}": {"ncpus": options.ncpus, "ngpus": options.ngpus, "mem_kb": 8 << 20}
             for number in range(options.nodes)}
    queues: dict = {"workq": {"max_walltime": options.max_walltime}, "generic": {"max_queued": 3}}
    (directory / "config.json").write_text(json.dumps({
        "nodes": nodes, "queues": queues, "history": not options.no_history, "vnodes": options.vnodes,
        "first_only": options.first_only, "groups": not options.no_groups,
        "kill_delay": options.kill_delay}))
    (directory / "pbs.conf").write_text(f"PBS_EXEC={directory}\n")
    for command in COMMANDS:
        link = directory / "bin" / command
        if not link.exists():
            link.write_text(f'#!/bin/sh\nexec {sys.executable} {os.path.abspath(__file__)} run "{directory}" {command} "$@"\n')
            link.chmod(0o755)


def set_attributes(directory: str, ident: str, changes: list[str]) -> None:
    server = Server(Path(directory))
    with server.held() as jobs:
        full = server.find(ident)
        if full is None:
            sys.exit(f"pbs.py: no job {ident}")
        jobs[full]["is_forced"] = True
        for change in changes:
            key, _, value = change.partition("=")
            jobs[full][key] = int(value) if value.lstrip("-").isdigit() else value


def end(directory: str) -> None:
    server = Server(Path(directory))
    with server.held() as jobs:
        for ident, job in jobs.items():
            if job["job_state"] not in "FX" and not job.get("hosts"):
                job |= {"job_state": "F", "substate": 91}
        minders = [job["minder"] for job in jobs.values() if job.get("hosts")]
    config = server.config | {"kill_delay": 0}
    (server.directory / "config.json").write_text(json.dumps(config))
    for pid in minders:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGUSR1)
    deadline = time.monotonic() + 30
    while any(os.path.exists(f"/proc/{pid}/cmdline") and b"mind" in Path(f"/proc/{pid}/cmdline").read_bytes()
              for pid in minders):
        if time.monotonic() > deadline:
            sys.exit(f"pbs.py: jobs do not end: {minders}")
        time.sleep(0.02)


def main() -> None:
    if sys.argv[1:2] == ["run"]:
        directory, command, *args = sys.argv[2:]
        try:
            sys.exit(globals()[command](Server(Path(directory)), args))
        except Refusal as refusal:
            print(refusal, file=sys.stderr)
            sys.exit(refusal.number % 256)
    if sys.argv[1:2] == ["mind"]:
        mind(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    one = commands.add_parser("install")
    one.add_argument("dir")
    one.add_argument("--nodes", type=int, default=2)
    one.add_argument("--ncpus", type=int, default=4)
    one.add_argument("--ngpus", type=int, default=0)
    one.add_argument("--vnodes", type=int, default=1, help="virtual nodes per host")
    one.add_argument("--kill-delay", type=float, default=1, help="seconds between TERM and KILL")
    one.add_argument("--max-walltime", type=int, default=3600, help="seconds, of the queue workq")
    one.add_argument("--no-history", action="store_true", help="forget ended jobs, as PBS does by default")
    one.add_argument("--first-only", action="store_true", help="qstat prints the first of several ids, unless with -E")
    one.add_argument("--no-groups", action="store_true", help="qstat does not know -E")
    two = commands.add_parser("set")
    two.add_argument("dir")
    two.add_argument("id")
    two.add_argument("changes", nargs="+")
    commands.add_parser("end").add_argument("dir")
    options = parser.parse_args()
    if options.command == "install":
        install(options)
    elif options.command == "set":
        set_attributes(options.dir, options.id, options.changes)
    else:
        end(options.dir)


if __name__ == "__main__":
    main()

"""The extension's side of the contract in this process: calls are unpickled and made here, when the test says so."""

import os
import pickle
import shutil
import struct
import sys
import tempfile
import threading
import traceback
import types

RESULT_MAX = 16384
GIVEN_FROM = 3_000_000_000


def failed(how, exception, name, text, trace):
    """What a call that failed leaves behind."""
    told = zip((5, 6, 7, 8), (word.encode() for word in (how, name, text, trace)))
    return b"E" + b"".join(struct.pack("<BH", kind, len(data)) + data for kind, data in told) + exception


class NativeError(Exception):
    def __init__(self, code, message):
        super().__init__(code, message)
        self.code = code


class ServerLost(Exception):
    pass


class Objects:
    """The stores of some workers, as directories of this machine, and what the server knows of objects. `workers` are the stores
    by the ids of their workers; one that is not `near` has the name of another machine."""

    def __init__(self, sizes=(1 << 30,), near=True):
        self.dirs = [tempfile.mkdtemp(prefix="hq-objects-") for _ in sizes]
        self.host = os.uname().nodename if near else "far"
        self.workers = {}
        for at, size in enumerate(sizes):
            os.mkdir(os.path.join(self.dirs[at], "put"))
            self.workers[at + 1] = {
                "worker": at + 1, "hostname": self.host, "dir": self.dirs[at], "size": size, "used": 0, "spill": None, "largest": size,
            }  # fmt: skip
        self.known = {}
        self.released, self.kept, self.dropped = [], [], []
        self.asked = []
        self.given = 0
        self.without = 0
        self.refuses = None
        self.changed = threading.Condition()

    def remove(self):
        while self.dirs:
            shutil.rmtree(self.dirs.pop())

    # The contract.

    def stores(self):
        return list(self.workers.values())

    def storeless(self):
        return self.without

    def info(self, job, task, name):
        self.asked.append("info")
        return self.known.get((job, task, name))

    def find(self, job, name):
        tasks = [task for of, task, known in self.known if (of, known) == (job, name)]
        return tasks[0] if tasks else None

    def fetch(self, job, task, name, path):
        self.asked.append("fetch")
        with open(self.path(job, task, name), "rb") as source, open(path, "wb") as target:
            shutil.copyfileobj(source, target)

    def give(self, job, name, worker, file):
        if self.refuses is not None:
            raise self.refuses
        with self.changed:
            task = GIVEN_FROM + self.given
            self.given += 1
        self.store(job, task, name, 0, worker, file)
        return task, 0

    def put(self, job, name, worker, path):
        self.asked.append("put")
        with open(path, "rb") as source, open(os.path.join(self.workers[worker]["dir"], "put", "n-1"), "wb") as target:
            shutil.copyfileobj(source, target)
        return self.give(job, name, worker, "n-1")

    def release(self, objects):
        with self.changed:
            self.released += [tuple(one) for one in objects]
            self.changed.notify_all()

    def keep(self, objects):
        self.kept += [tuple(one) for one in objects]

    def drop(self, objects):
        for one in objects:
            self.dropped.append(tuple(one))
            self.known[tuple(one)] = {**self.known[tuple(one)], "state": "gone", "why": "it was dropped", "copies": 0}

    # What a test does.

    def store(self, job, task, name, instance, worker, file):
        """A worker takes a file."""
        directory = self.workers[worker]["dir"]
        path = os.path.join(directory, f"v-{job}-{task}-{instance}" if name == "value" else f"{task}-{name}")
        os.rename(os.path.join(directory, "put", file), path)
        size = os.stat(path).st_size
        self.workers[worker]["used"] += size
        self.known[job, task, name] = {
            "state": "stored", "instance": instance, "size": size, "copies": 1, "holders": [(worker, self.host)],
            "is_kept": False, "why": None,
        }  # fmt: skip
        return path

    def path(self, job, task, name="value"):
        known = self.known[job, task, name]
        worker = known["holders"][0][0]
        end = f"v-{job}-{task}-{known['instance']}" if name == "value" else f"{task}-{name}"
        return os.path.join(self.workers[worker]["dir"], end)

    def left(self, job, task, value, worker=1, packed=None):
        """A call has left a value that stays there; gives what the end of the call says."""
        from headquarters import _pickling, _values

        packed = _values.Packed(packed, []) if packed else _pickling.dumps_value(value)[0]
        nonce = os.urandom(16)
        path = os.path.join(self.workers[worker]["dir"], "put", "r-1-1")
        with open(path, "xb") as file:
            packed.write(file.fileno(), nonce)
        self.store(job, task, "value", 1, worker, "r-1-1")
        return b"E" + struct.pack("<BHQ16s", 9, 24, packed.size, nonce)

    def value(self, job, task):
        """What a call gets that takes it."""
        from headquarters import _values

        name = next(name for of, known, name in self.known if (of, known) == (job, task))
        with open(self.path(job, task, name), "rb") as file:
            return _values.load(file.fileno())

    def until_released(self, count):
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.released) >= count, 30), self.released


class Calls:
    """Makes calls by itself if `is_automatic`, else with `run`. `on_submit` may raise what a submit is to raise; while
    `answers` is not set, submits are done but not answered."""

    def __init__(self, server_dir="", options="{}", *, job=None):
        self.server_dir, self.options = server_dir, options
        self.server_uid = "fake01"
        self.job = 7 if job is None else job
        self.next_id = 0
        self.is_automatic = False
        self.on_submit = None
        self.answers = threading.Event()
        self.answers.set()
        self.submits = []
        self.templates = []
        self.tasks = {}
        self.waiting = {}
        self.values = {}
        self.ended = {}
        self.keys = {}
        self.orders = []
        self.is_closed = False
        self.lost = None
        self._codes = {}
        # Without, values stay as long as they like.
        self.stores = None
        self.wakes = 0
        self._woken = 0
        self._hearing = 0
        self._changed = threading.Condition(threading.RLock())

    # The contract.

    def is_open(self):
        return not self.is_closed

    def objects(self):
        return self.stores or Objects(())

    def template(self, options, env, interpreter):
        if '"bad"' in options:
            raise ValueError("cpus: bad is no amount")
        self.templates.append((options, env, interpreter))
        return len(self.templates) - 1

    def submit(self, batches):
        with self._changed:
            self._check()
            if self.on_submit is not None:
                self.on_submit(batches)
            ids = []
            self.submits.append(batches)
            for template, name, code, first, entries, waits, keys in batches:
                assert len(entries) <= 8192 and not (keys and len(keys) != len(entries))
                refs = dict(waits)
                for at, entry in enumerate(entries):
                    task = first + at
                    if keys:
                        if keys[at] in self.keys:
                            there = self.keys[keys[at]]
                            if self.tasks[there] not in (None, (name, code, entry, refs.get(at, []))):
                                raise NativeError("key-taken", f"The key `{keys[at]}` names task {there} already")
                            ids.append(there)
                            continue
                        self.keys[keys[at]] = task
                        ids.append(task)
                    if task in self.tasks:
                        raise NativeError("task-exists", f"task {task} exists")
                    self.tasks[task] = self.waiting[task] = (name, code, entry, refs.get(at, []))
            self._changed.notify_all()
        if self.is_automatic:
            self.run_all()
        self.answers.wait()
        return ids

    def ends(self, known):
        assert known == sorted(known)
        with self._changed:
            while True:
                self._check()
                new = [end for task, end in self.ended.items() if not any(a <= task <= b for a, b in known)]
                if new:
                    return new
                if self._woken:
                    self._woken = 0
                    return []
                self._hearing += 1
                self._changed.notify_all()
                self._changed.wait()
                self._hearing -= 1

    def wake(self):
        with self._changed:
            self.wakes += 1
            self._woken += 1
            self._changed.notify_all()

    def cancel(self, ids, only_waiting):
        with self._changed:
            self._check()
            self.orders.append((ids, only_waiting))
            done = []
            for first, last in ids:
                for task in range(first, last + 1):
                    if self.waiting.pop(task, None) is None and (only_waiting or task in self.ended):
                        continue
                    self.end(task, 2, None, "", "canceled")
                    if done and done[-1][1] == task - 1:
                        done[-1] = (done[-1][0], task)
                    else:
                        done.append((task, task))
            return done

    def info(self, task):
        state = "waiting" if task in self.waiting else "ended" if task in self.ended else "running"
        return {"state": state, "worker": 1, "usage": None}

    def explain(self, task):
        return f"task {task} waits for the test"

    def close(self):
        self.is_closed = True

    # What a test does.

    def until_it_listens(self, wakes):
        """Waits until the executor was woken more often, has heard all there is, and waits for more."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.wakes > wakes and self._hearing and not self._woken, 60)

    def end(self, task, state, payload=None, kind="", message=""):
        with self._changed:
            self.waiting.pop(task, None)
            self.ended[task] = (task, state, payload, kind, message)
            self._changed.notify_all()

    def lose(self, error):
        with self._changed:
            self.lost = error
            self._changed.notify_all()

    def until_submitted(self, count):
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.tasks) >= count, 30)

    def start(self, task):
        """A worker has it now."""
        with self._changed:
            assert self._changed.wait_for(lambda: task in self.tasks, 30)
            return self.waiting.pop(task)

    def run_all(self, submitted=0):
        """Makes the calls that wait, once so many were submitted."""
        self.until_submitted(submitted)
        with self._changed:
            waiting = sorted(self.waiting)
        for task in waiting:
            self.run(task)

    def run(self, task):
        from headquarters import _pickling

        name, code, entry, waits = self.start(task)
        for job, other in waits:
            assert job != self.job or other in self.tasks or other >= GIVEN_FROM, "what a call waits for is there"
            if job == self.job and other in self.ended and self.ended[other][1] != 0:
                return self.end(task, 3, None, "", f"task {other} failed")
        known = _pickling.resolve
        _pickling.resolve = self._resolve
        try:
            state, payload, kind = self._call(task, code, entry)
        finally:
            _pickling.resolve = known
        self.end(task, state, payload, kind)

    def _call(self, task, code, entry):
        try:
            python, directory, paths, function = pickle.loads(code)
            function = self._codes.get(code) or pickle.loads(function)
            self._codes[code] = function
            args, kwargs = pickle.loads(entry)
            value = function(*args, **kwargs)
        except BaseException as error:
            text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
            try:
                exception = pickle.dumps(error)
            except Exception:
                exception = b""
            name = f"{type(error).__module__}.{type(error).__qualname__}"
            return 1, failed("raised", exception, name, str(error), text), "exit"
        runner = sys.modules["_hq_runner"]
        try:
            runner.returned = []
            payload = pickle.dumps(value, 5)
            held = b"".join(dict.fromkeys(runner.returned))
        except Exception as error:
            return 1, failed("not-picklable", b"", "", str(error), ""), "exit"
        finally:
            runner.returned = None
        if not held:
            ALL_VALUES[self.job, task] = value
        head = struct.pack("<BBH", 0x45, 10, len(held)) + held if held else b""
        if self.stores is not None and len(payload) > RESULT_MAX:
            left = self.stores.left(self.job, task, value, packed=payload if held else None)
            return 0, head + left[1:] if held else left, ""
        return 0, head + payload, ""

    def _resolve(self, job, task):
        if self.stores is not None and any((of, known) == (job, task) for of, known, _ in self.stores.known):
            return self.stores.value(job, task)
        return ALL_VALUES[job, task]

    def _check(self):
        if self.lost is not None:
            raise self.lost


ALL_VALUES = {}


def _with_options(calls, options):
    calls.options = options
    return calls


def module(calls):
    """A `headquarters._native` that gives out these, one after the other."""
    made = types.ModuleType("headquarters._native")
    left = iter(calls)
    made.Objects = lambda server_dir: calls[0].stores
    made.Calls = lambda server_dir, options, **kwargs: _with_options(next(left), options)
    made.NativeError, made.ServerLost = NativeError, ServerLost
    return made

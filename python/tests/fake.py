"""The extension's side of the contract in this process: calls are unpickled and made here, when the test says so."""

import pickle
import struct
import threading
import traceback
import types


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


class Calls:
    """Makes calls by itself if `is_automatic`, else with `run`. `on_submit` may raise what a submit is to raise; while
    `answers` is not set, submits are done but not answered."""

    def __init__(self, server_dir="", name="", *, max_fails=None, job=None):
        self.server_dir, self.name = server_dir, name
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
        self.wakes = 0
        self._woken = 0
        self._hearing = 0
        self._changed = threading.Condition(threading.RLock())

    # The contract.

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
            assert job != self.job or other in self.tasks, "what a call waits for is there"
            if job == self.job and other in self.ended and self.ended[other][1] != 0:
                return self.end(task, 3, None, "", f"task {other} failed")
        known = _pickling.resolve
        _pickling.resolve = lambda job, other: ALL_VALUES[job, other]
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
        try:
            payload = pickle.dumps(value, 5)
        except Exception as error:
            return 1, failed("not-picklable", b"", "", str(error), ""), "exit"
        ALL_VALUES[self.job, task] = value
        return 0, payload, ""

    def _check(self):
        if self.lost is not None:
            raise self.lost


ALL_VALUES = {}


def module(calls):
    """A `headquarters._native` that gives out these, one after the other."""
    made = types.ModuleType("headquarters._native")
    left = iter(calls)
    made.Calls = lambda *args, **kwargs: next(left)
    made.NativeError, made.ServerLost = NativeError, ServerLost
    return made

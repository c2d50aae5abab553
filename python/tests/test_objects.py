"""Values in stores, against a fake server and stores that are directories of this machine."""

import concurrent.futures
import gc
import os
import threading

import numpy
import pytest

import fake
import headquarters as hq
from headquarters import _errors as errors
from headquarters import _limits as limits
from headquarters import _native_types, _outcome


@pytest.fixture
def there(make):
    """An executor that calls by itself, its fake, and the fake's stores."""

    def there(sizes=(1 << 30,), near=True, **options):
        calls = fake.Calls()
        calls.stores = fake.Objects(sizes, near)
        executor, calls = make(automatic=True, calls=calls, **options)
        return executor, calls, calls.stores

    return there


BIG = numpy.arange(30_000.0)


def big():
    return numpy.arange(30_000.0)


def test_a_large_value_is_mapped_where_it_lies_and_is_the_same_each_time(there):
    executor, calls, stores = there()
    future = executor.submit(big)
    assert future.exception(30) is None and stores.asked == []
    value = future.result()
    assert (value == BIG).all() and future.result() is value and "fetch" not in stores.asked
    value[:] = 0
    assert stores.value(7, 0)[1] == 1


@pytest.mark.parametrize("change", ["far", "nonce", "size"])
def test_a_value_that_is_not_here_is_fetched(there, change):
    executor, calls, stores = there(near=change != "far")
    future = executor.submit(big)
    future.exception(30)
    if change == "nonce":
        with open(stores.path(7, 0), "r+b") as file:
            file.seek(8)
            file.write(bytes(16))
    if change == "size":
        stores.known[7, 0, "value"] = {**stores.known[7, 0, "value"], "size": 1}
    assert (future.result() == BIG).all() and stores.asked.count("fetch") == 1
    future.result()
    assert stores.asked.count("fetch") == 1


def test_a_value_that_is_not_needed_is_released_once_nobody_waits_for_it(there):
    executor, calls, stores = there()
    future = executor.submit(big)
    future.exception(30)
    calls.is_automatic = False
    taker = executor.submit(numpy.sum, future)
    calls.until_submitted(2)
    del future
    gc.collect()
    assert stores.released == []
    calls.run(1)
    assert taker.result(30) == BIG.sum()
    stores.until_released(1)
    assert stores.released == [(7, 0, "value")]


def test_values_of_futures_that_nobody_has_are_released(there):
    executor, calls, stores = there()
    for _ in range(3):
        executor.submit(big)
    stores.until_released(3)
    assert len(set(stores.released)) == 3


def test_a_done_future_as_an_argument_is_not_fetched(there):
    executor, calls, stores = there(near=False)
    future = executor.submit(big)
    future.exception(30)
    assert executor.submit(numpy.sum, future).result(30) == BIG.sum()
    assert stores.asked == [] and calls.submits[-1][-1][5] == [(0, [(7, 0)])]


def test_map_and_starmap_give_large_values_and_release_them(there):
    executor, calls, stores = there()
    for value in executor.map(numpy.arange, [30_000, 30_001]):
        assert value[-1] == len(value) - 1
        del value
    stores.until_released(2)
    results = executor.starmap(numpy.arange, [(30_000,), (3,)])
    assert [len(one) for one in results] == [30_000, 3] and len(results[0]) == 30_000
    del results
    stores.until_released(3)


def test_put_and_get_and_what_a_ref_knows(there):
    executor, calls, stores = there()
    ref = executor.put(BIG)
    assert ref.nbytes > BIG.nbytes and ref.task == "7@3000000000" and repr(ref) == f"<Ref {ref.task}, {ref.nbytes} bytes>"
    assert (ref.get() == BIG).all() and ref.get() is ref.get() and hq.get([ref])[0] is ref.get()
    ref.get()[0] = 5
    assert ref.get(writable=False)[0] == 0
    with pytest.raises(ValueError, match="read-only"):
        ref.get(writable=False)[0] = 1
    assert ref.where() == {
        "state": "stored", "workers": [(1, stores.host)], "is_near": True, "is_kept": False,
    }  # fmt: skip
    assert os.listdir(os.path.join(stores.dirs[0], "put")) == []
    for where in (ref, [ref], {"a": (1, ref)}):
        assert executor.submit(_first, where).result(30) == 0
    del ref, where
    stores.until_released(1)


def _first(where):
    while not isinstance(where, numpy.ndarray):
        where = list(where.values())[0] if isinstance(where, dict) else where[-1]
    return where[0]


def test_a_lazy_one_arrives_as_a_handle(there, monkeypatch):
    from headquarters import _pickling

    executor, calls, stores = there()
    ref, future = executor.put(BIG), executor.submit(big)
    handle = hq.lazy(ref)
    assert (handle.get() == BIG).all() and handle.nbytes == ref.nbytes and repr(handle) == "<Lazy 7@3000000000>"
    entry, found = _pickling.dumps_entry((handle, hq.lazy(future)), {})
    monkeypatch.setattr("_hq_runner.lazy", lambda job, task: (job, task), raising=False)
    import pickle

    assert pickle.loads(entry)[0] == ((7, fake.GIVEN_FROM), future.ref)
    assert [one.ref for one in found] == [(7, fake.GIVEN_FROM), future.ref]


def test_kept_ones_stay_and_dropped_ones_are_lost(there):
    executor, calls, stores = there()
    kept, dropped = executor.put(BIG).keep(), executor.put(BIG)
    assert stores.kept == [(7, fake.GIVEN_FROM, "value")]
    dropped.drop()
    with pytest.raises(hq.ObjectLost, match=r"7@3000000001 \(.* bytes\) cannot be had: it was dropped"):
        dropped.get()
    lost = r"7@3000000001 \(.* bytes\) cannot be had: it was dropped$"
    for call in (
        lambda: executor.submit(numpy.sum, dropped).result(30),
        lambda: next(executor.map(numpy.sum, [dropped])),
        lambda: executor.starmap(numpy.sum, [(dropped,)])[0],
        lambda: executor.put([dropped]),
    ):
        with pytest.raises(hq.ObjectLost, match=lost):
            call()
    with pytest.raises(hq.ObjectLost, match=r"^args\[0\]\['a'\]: the value of " + lost):
        executor.submit(len, {"a": dropped}).result(30)
    with pytest.raises(hq.ObjectLost, match=r"^function.<dropped>: the value of " + lost):
        executor.submit(lambda: dropped).result(30)
    assert dropped.where()["state"] == "gone"
    after = executor.put(BIG)
    assert (after.get() == BIG).all()
    del kept, dropped, call
    gone = after.task_id if hasattr(after, "task_id") else None
    del after
    stores.until_released(1)
    assert stores.released == [(7, fake.GIVEN_FROM + 2, "value")] and gone is None


def test_what_cannot_be_put_is_named(there):
    executor, calls, stores = there()
    with pytest.raises(hq.ArgumentsNotPicklable, match=r"the value\['a'\] cannot be sent"):
        executor.put({"a": threading.Lock()})
    with pytest.raises(TypeError, match="as an argument"):
        import pickle

        pickle.dumps(executor.put(1))


def _sums(value):
    return [int(value["a"].sum()), value["n"], int(value["of"]["b"][0].sum())]


def test_what_is_put_may_hold_others(there):
    executor, calls, stores = there()
    parts = executor.put({"b": [executor.submit(big)], "long": bytes(20_000)})
    whole = executor.put({"a": executor.put(BIG), "n": executor.submit(abs, -3), "of": parts})
    del parts
    gc.collect()
    expected = [int(BIG.sum()), 3, int(BIG.sum())]
    assert executor.submit(_sums, whole).result(30) == expected == _sums(whole.get())
    # The call waits for all that it may read.
    assert len(calls.submits[-1][-1][5][0][1]) == 5 and not stores.released
    assert executor.submit(_sums, hq.lazy(whole)).result(30) == expected
    assert (whole.get(writable=False)["a"] == BIG).all()
    del whole
    gc.collect()
    # The two that were put, the one that holds them, and what the call has left.
    stores.until_released(4)


def test_what_is_put_and_holds_what_has_failed_says_so(there):
    executor, calls, stores = there()
    ref = executor.put([executor.submit(int, "x")])
    with pytest.raises(ValueError, match="invalid literal"):
        ref.get()
    assert isinstance(executor.submit(len, ref).exception(30), hq.DependencyFailed)


def test_no_store_and_stores_that_are_too_small(there):
    executor, calls, stores = there(sizes=())
    with pytest.raises(hq.NotStored, match="there is no worker that stores objects: start one"):
        executor.put(1)
    executor, calls, stores = there(sizes=(1000, 2000))
    with pytest.raises(hq.NotStored, match=r"takes \d+ bytes, and the largest store of a worker has 2000"):
        executor.put(BIG)


def test_a_worker_that_refuses_leaves_no_file(there):
    executor, calls, stores = there(sizes=(1 << 30, 1 << 30))
    stores.refuses = fake.NativeError("not-stored", "there is no room")
    with pytest.raises(hq.NotStored, match="no worker stores the value of .* bytes: worker 1: there is no room; worker 2"):
        executor.put(BIG)
    assert [os.listdir(os.path.join(directory, "put")) for directory in stores.dirs] == [[], []] or stores.asked


def test_workers_that_came_meanwhile_are_asked(there):
    executor, calls, stores = there()
    executor.put(BIG)
    gone, stores.workers = stores.workers[1], {2: {**stores.workers[1], "worker": 2, "dir": stores.dirs[0] + "/2"}}
    os.makedirs(stores.dirs[0] + "/2/put")
    os.rename(gone["dir"] + "/put", gone["dir"] + "/no")
    put = stores.put

    def is_gone(job, name, worker, path):
        if worker == 1:
            raise fake.NativeError("not-stored", "worker 1 cannot be reached: it is gone")
        return put(job, name, worker, path)

    stores.put = is_gone
    assert executor.put(BIG).where()["workers"] == [(2, stores.host)]


def test_values_are_put_far_over_the_network(there):
    executor, calls, stores = there(near=False)
    ref = executor.put(BIG)
    assert stores.asked == ["put"] and (ref.get() == BIG).all()


def test_large_arguments_go_to_a_store_once_while_they_are_in_use(there):
    executor, calls, stores = there()
    calls.is_automatic = False
    futures = [executor.submit(numpy.dot, BIG, BIG.copy()), executor.submit(_take, BIG, 1, big=BIG, small=2)]
    calls.run_all(2)
    assert [future.result(30) for future in futures] == [numpy.dot(BIG, BIG), (BIG.sum() * 2, 3)]
    assert stores.given == 1
    entries = [entry for batch in calls.submits for group in batch for entry in group[4]]
    assert all(len(entry) < 1000 for entry in entries)
    other = executor.submit(numpy.sum, BIG + 1)
    calls.run(2)
    assert other.result(30) == (BIG + 1).sum() and stores.given == 2
    stores.until_released(1)


def _take(first, second, *, big, small):
    return first.sum() + big.sum(), second + small


def test_short_arguments_travel_with_the_call(there):
    executor, calls, stores = there()
    short = numpy.zeros(2000)
    assert executor.submit(numpy.sum, short).result(30) == 0
    assert executor.submit(len, [short] * 3).result(30) == 3
    assert executor.submit(len, "x" * 60_000).result(30) == 60_000
    assert stores.given == 0
    assert executor.submit(len, "x" * 70_000).result(30) == 70_000
    assert list(executor.map(len, ["x" * 70_000, "y"])) == [70_000, 1]
    assert stores.given == 1


def test_without_a_store_arguments_travel_as_far_as_they_may(there):
    executor, calls, stores = there(sizes=())
    assert executor.submit(len, "x" * 500_000).result(30) == 500_000
    error = executor.submit(len, "x" * 2_000_000).exception(30)
    assert isinstance(error, hq.ArgumentsNotPicklable)
    assert "2000040 bytes long" in str(error) or "bytes long, more than 1048576" in str(error)
    assert "there is no worker that stores objects" in str(error)


def test_futures_within_a_large_argument(there):
    executor, calls, stores = there()
    inner = executor.submit(abs, -3)
    assert inner.result(30) == 3
    assert executor.submit(_sum, [BIG, inner]).exception(30) is None
    waits = calls.submits[-1][-1][5]
    assert waits == [(0, [(7, fake.GIVEN_FROM), (7, 0)])]


def _sum(parts):
    return float(sum(numpy.sum(part) for part in parts))


def test_a_key_means_the_same_arguments_also_when_the_program_starts_again(there, make):
    executor, calls, stores = there()
    first = executor.submit_named("a", numpy.sum, BIG)
    assert first.result(30) == BIG.sum() and executor.submit_named("a", numpy.sum, BIG.copy()) is first
    with pytest.raises(hq.Refused):
        executor.submit_named("a", numpy.sum, BIG + 1)
    name = next(name for _, _, name in stores.known)
    # It stays as long as its job, and makes room then.
    assert name.startswith("arg-") and stores.kept == []
    # Another client of the same job.
    again = fake.Calls(job=7)
    again.stores, again.keys, again.tasks, again.ended = stores, calls.keys, calls.tasks, calls.ended
    again.next_id = 100
    executor, again = make(calls=again)
    assert executor.submit_named("a", numpy.sum, BIG).result(30) == BIG.sum()
    assert stores.given == 2


def test_a_lost_value_is_rebuilt_by_a_call_that_takes_it(there):
    executor, calls, stores = there()
    future = executor.submit(big)
    future.exception(30)
    there_again = stores.known[7, 0, "value"]
    stores.known[7, 0, "value"] = {**there_again, "state": "lost", "why": "worker 1 was lost", "copies": 0}

    def rebuild(batches):
        if batches[0][1] == "callable":
            stores.known[7, 0, "value"] = there_again

    calls.on_submit = rebuild
    assert (future.result() == BIG).all()
    assert calls.submits[-1][0][5] == [(0, [(7, 0)])]


@pytest.mark.parametrize("state", ["gone", "lost", "unknown"])
def test_a_value_that_is_gone_is_lost_in_words(there, state):
    executor, calls, stores = there()
    future = executor.submit(big)
    future.exception(30)
    named = (7, 0, "value")
    if state == "unknown":
        del stores.known[named]
    else:
        stores.known[named] = {**stores.known[named], "state": state, "why": "worker 1 was lost", "copies": 0}
    with pytest.raises(hq.ObjectLost, match="the value of 7@0 .* cannot be had: ") as error:
        future.result()
    why = {"unknown": "does not know it", "gone": "worker 1 was lost", "lost": "It was made 3 times more"}[state]
    assert why in str(error.value)
    # It is asked for anew each time.
    assert future.exception() is None


def test_a_value_whose_worker_is_away_is_waited_for_by_a_call(there):
    executor, calls, stores = there(near=False)
    future = executor.submit(big)
    future.exception(30)
    known = stores.known[7, 0, "value"]
    stores.known[7, 0, "value"] = {**known, "copies": 0, "holders": []}
    calls.on_submit = lambda batches: stores.known.update({(7, 0, "value"): known})
    assert (future.result() == BIG).all()


@pytest.mark.parametrize("tries", [1, 9])
def test_a_worker_that_cannot_be_reached_is_asked_again_after_a_call(there, tries):
    executor, calls, stores = there(near=False)
    future = executor.submit(big)
    future.exception(30)
    fetch, left = stores.fetch, [tries]

    def unreachable(*named):
        if left[0] == 0:
            return fetch(*named)
        left[0] -= 1
        raise fake.NativeError("unreachable", "nobody listens there")

    stores.fetch = unreachable
    if tries == 1:
        assert (future.result() == BIG).all()
    else:
        with pytest.raises(hq.ObjectLost, match="nobody listens there"):
            future.result()
        assert left[0] == 7


def test_values_of_this_machine_outlive_their_executor(there):
    executor, calls, stores = there()
    here, late = executor.submit(big), executor.put(BIG)
    here.exception(30)
    executor.shutdown()
    stores.remove()
    stores.known.clear()
    assert (here.result() == BIG).all() and (late.get() == BIG).all()
    # Elsewhere they travel by value, and a handle of what no store has is refused.
    other, _, others = there()
    assert other.submit(numpy.sum, late).result(30) == other.submit(numpy.sum, here).result(30) == BIG.sum()
    assert len(others.known) == 1
    error = str(other.submit(numpy.sum, hq.lazy(late)).exception(30))
    assert "the executor that had it has ended" in error and "other.put(ref.get())" in error


def test_who_waits_for_a_value_may_stop_to(there):
    executor, calls, stores = there()
    refs = [executor.put(BIG), executor.submit(big).stored()]
    stores_info, comes = stores.info, threading.Event()

    def late(*named):
        assert comes.wait(30)
        return stores_info(*named)

    stores.info = late
    for ask in (lambda: refs[0].get(timeout=0), lambda: hq.get(refs, timeout=0)):
        with pytest.raises(concurrent.futures.TimeoutError, match=r"the value of 7@3000000000 \(\d+ bytes\) was not here after 0"):
            ask()
    comes.set()
    assert (refs[0].get(timeout=30) == BIG).all() and [one.sum() for one in hq.get(refs, timeout=30)] == [BIG.sum()] * 2
    # What is here is not waited for.
    stores.info = None
    assert (refs[0].get(timeout=0) == BIG).all()


def test_what_cannot_be_had_is_said_whatever_the_time(there):
    executor, calls, stores = there()
    ref = executor.put(BIG)
    ref.drop()
    with pytest.raises(hq.ObjectLost, match="it was dropped"):
        ref.get(timeout=30)


def test_the_thread_that_releases_ends_with_its_session(there):
    executor, calls, stores = there()
    ref = executor.put(BIG)
    releaser = executor._session.objects._releaser
    assert releaser.is_alive()
    executor.shutdown()
    releaser.join(30)
    assert not releaser.is_alive() and (ref.get() == BIG).all()


def test_ends_are_heard_while_an_argument_is_put(there):
    executor, calls, stores = there()
    give, is_put, goes_on = stores.give, threading.Event(), threading.Event()

    def slow(*given):
        is_put.set()
        assert goes_on.wait(30)
        return give(*given)

    stores.give = slow
    putting = threading.Thread(target=executor.submit, args=(numpy.sum, BIG))
    putting.start()
    assert is_put.wait(30)
    assert (executor.submit(big).result(30) == BIG).all()
    goes_on.set()
    putting.join(30)


def test_far_values_of_an_executor_that_has_ended_are_had_while_they_are_there(there):
    executor, calls, stores = there(near=False)
    there_still, gone = executor.submit(big), executor.submit(big)
    gone.exception(30)
    executor.shutdown()
    stores.known[7, 1, "value"] = {**stores.known[7, 1, "value"], "state": "lost", "why": "a store needed room", "copies": 0}
    assert (there_still.result() == BIG).all()
    with pytest.raises(hq.ObjectLost, match="a store needed room, and its executor has ended, so"):
        gone.result()


def test_a_ref_of_another_executor_of_the_server(there):
    first, calls, stores = there()
    ref = first.put(BIG)
    calls.job = 7
    second, others, unused = there()
    unused.remove()
    others.stores, others.job = stores, 8
    second._session.job = 8
    assert second.submit(numpy.sum, ref).result(30) == BIG.sum()
    assert others.submits[-1][-1][5] == [(0, [(7, fake.GIVEN_FROM)])]


def test_short_values_have_no_ref(there):
    executor, calls, stores = there()
    with pytest.raises(ValueError, match=r"the value of 7@0 travelled with the end of the call"):
        executor.submit(abs, -1).stored()
    ref = executor.submit(big).stored()
    assert isinstance(ref, hq.Ref) and (ref.get() == BIG).all()
    with pytest.raises(ZeroDivisionError):
        executor.submit(divmod, 1, 0).stored()


def test_a_server_that_is_away_is_waited_for_as_by_calls(there, monkeypatch):
    monkeypatch.setattr(limits, "SERVER_PAUSE_S", 0)
    executor, calls, stores = there()
    future = executor.submit(big)
    future.exception(30)
    asked = []

    def info(*named):
        asked.append(named)
        if len(asked) == 3:
            del stores.info
        raise fake.ServerLost("nobody answers")

    stores.info = info
    assert (future.result() == BIG).all()
    assert len(asked) == 3
    # The session knows that it does not come back.
    other = executor.submit(big)
    other.exception(30)
    executor._session._broken = hq.ServerLost("nobody answers")
    stores.info = info
    asked.clear()
    with pytest.raises(hq.ServerLost):
        other.result()
    assert len(asked) == 1


def test_a_value_in_asyncio_does_not_hold_the_loop(there):
    import asyncio

    from headquarters import aio

    executor, calls, stores = there()
    loading = []
    stores_info = stores.info
    stores.info = lambda *named: loading.append(threading.current_thread()) or stores_info(*named)

    async def main():
        twin = aio.Executor.of(executor)
        assert (await twin.submit(big) == BIG).all()
        ref = await twin.put(BIG)
        assert await twin.submit(numpy.sum, ref) == await twin.submit(numpy.sum, hq.lazy(ref.ref)) == BIG.sum()
        assert (await ref.get() == BIG).all() and (await ref.get(writable=False) == BIG).all()
        made = await twin.submit(big).stored()
        assert (await made.get()).sum() == BIG.sum() and made.nbytes > BIG.nbytes and made.task == made.ref.task
        assert [one.sum() for one in await aio.get([ref, twin.submit(big), await made.keep()])] == [BIG.sum()] * 3
        assert (await made.where())["state"] == "stored" and len(stores.kept) == 1
        await made.drop()
        assert [len(one) for one in await aio.gather([twin.submit(big)])] == [30_000]

    asyncio.run(main())
    assert loading and threading.main_thread() not in loading


def test_in_a_forked_process_values_are_not_had(there):
    executor, calls, stores = there()
    ref = executor.put(BIG)
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for use in (ref.get, ref.where, lambda: executor.put(BIG), lambda: executor.submit(len, [BIG]).result()):
                try:
                    use()
                    os.write(write, b"got ")
                except errors.Forked:
                    os.write(write, b"Forked ")
        finally:
            os._exit(0)
    os.waitpid(child, 0)
    assert os.read(read, 100) == b"Forked " * 4


def test_parts_that_are_cut_do_not_stand_for_a_value():
    from headquarters import _outcome

    whole = b"E" + bytes([9, 24, 0]) + (5).to_bytes(8, "little") + bytes(16)
    assert _outcome.stored(whole) == (5, bytes(16))
    for wrong in (b"", None, whole[:-1], whole[:2], b"E" + bytes([9, 2, 0, 1, 1]), b"\x80" + whole):
        assert _outcome.stored(wrong) is None


def test_what_is_said_where_a_value_finds_no_store():
    from headquarters import _outcome

    text = "The value of f cannot be stored: it takes 5 bytes, and the store has 4"
    for left in (None, b"E" + bytes([9, 24, 0]) + bytes(24)):
        error = _outcome.decode((0, 1, left, "output", text), "f")[1]
        assert isinstance(error, hq.NotStored) and str(error) == text
    assert isinstance(_outcome.decode((0, 1, fake.failed("not-stored", b"", "", text, ""), "exit", ""), "f")[1], hq.NotStored)
    assert limits.HELD_MAX > 0


def test_what_is_on_another_server_is_refused(there, make):
    executor, _, _ = there()
    ref = executor.put(big())
    calls = fake.Calls()
    calls.server_uid = "fake02"
    other, _ = make(automatic=True, calls=calls)
    with pytest.raises(hq.ArgumentsNotPicklable, match="another server"):
        other.submit(len, ref)


def test_only_values_of_calls_are_taken_lazily():
    with pytest.raises(TypeError, match="put the value first"):
        hq.lazy(5)


def test_a_call_that_is_given_up_for_a_value_says_so():
    for message, kind in [
        ("Tried 8 times: object 3@1:value, which it leaves, could not be stored; the last time: no room", hq.NotStored),
        ("Object 3@1:value is gone, which this task takes: it was dropped.", hq.ObjectLost),
        ("Task 3@1 failed, for which this task waits.", errors.DependencyFailed),
    ]:
        end = (1, _native_types.ABORTED, None, "", message)
        value, error = _outcome.decode(end, "f")
        assert value is None and type(error) is kind and str(error) == message


def test_the_way_to_what_cannot_be_sent_is_not_endless(there):
    executor, _, _ = there()
    value = threading.Lock()
    for _ in range(300):
        value = [value]
    error = executor.submit(len, value).exception()
    assert isinstance(error, hq.ArgumentsNotPicklable) and len(str(error)) < 600


def test_many_are_had_at_once(there):
    executor, _, _ = there()
    ref, future = executor.put(big()), executor.submit(len, "abc")
    values = hq.get([ref, future], writable=False)
    assert (values[0] == BIG).all() and values[1] == 3 and not values[0].flags.writeable
    with pytest.raises(TypeError, match="Refs and Futures"):
        hq.get([1])

"""The async twins and the decorator, against a fake server."""

import asyncio
import math

import pytest

from headquarters import aio
from headquarters._task import task


def test_calls_are_awaited(make):
    executor, calls = make(automatic=True)

    async def main():
        async with aio.Executor.of(executor) as ex:
            assert await ex.submit(abs, -2) == 2
            futures = [ex.submit(abs, -i) for i in range(100)]
            assert sorted([await future async for future in ex.as_completed(futures)]) == list(range(100))
            assert await aio.gather(futures) == list(range(100))
            with pytest.raises(ValueError):
                await ex.options(cpus=2).submit(math.sqrt, -1)
            assert [value async for value in ex.map(abs, range(50), buffersize=8)] == list(range(50))
            assert list(await ex.starmap(pow, [(2, 3), (3, 2)])) == [8, 9]
            loop = asyncio.get_running_loop()
            assert await loop.run_in_executor(executor, abs, -3) == 3
            assert await asyncio.wrap_future(executor.submit(abs, -4)) == 4

    asyncio.run(main())
    assert calls.is_closed


def test_who_stops_waiting_cancels(make):
    executor, calls = make()

    async def main():
        ex = aio.Executor.of(executor)
        future = ex.submit(abs, -2)
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(future, 0)
        other = ex.submit(abs, -2)
        assert await other.cancel()
        await ex.shutdown(wait=False, cancel_futures=True)

    asyncio.run(main())
    assert not calls.waiting


@task
def double(x: int) -> int:
    return 2 * x


@task(cpus=2)
def triple(x: int) -> int:
    return 3 * x


def test_a_task_is_called_here_or_there(make):
    executor, calls = make(automatic=True)
    assert double(2) == 4 and not calls.tasks
    with executor:
        assert double.submit(2).result() == 4
        assert list(triple.map([1, 2])) == [3, 6]
        assert list(double.options(gpus=1).starmap([(1,)])) == [2]
        assert triple.on(executor).submit(5).result() == 15
    texts = [options for options, _, _ in calls.templates]
    assert '"cpus": 2' in texts[1] and '"gpus": 1' in texts[2]
    with pytest.raises(TypeError):
        task(cpu=3)

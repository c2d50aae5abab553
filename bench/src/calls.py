"""One case of the benchmark of the Python package, in a process of its own; prints numbers as JSON.

calls.py CASE SERVER_DIR COUNT
"""

import json
import os
import sys
import time


def nothing(*_):
    return 1


def add(value):
    return value + 1


def twenty():
    return b"12345"


def resident(what):
    # Bytes of this process: VmRSS is what it has now, VmHWM what it had at most.
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith(what))


def calls_of(executor, count):
    [future.result() for future in [executor.submit(nothing) for _ in range(4)]]
    begun = time.perf_counter()
    assert sum(future.result() for future in [executor.submit(nothing) for _ in range(count)]) == count
    return {"seconds": time.perf_counter() - begun}


def pool(_, count):
    from concurrent.futures import ProcessPoolExecutor

    with ProcessPoolExecutor(2) as executor:
        return calls_of(executor, count)


def dask(_, count):
    from distributed import Client, LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster, Client(cluster) as client:
        client.gather([client.submit(nothing, n) for n in range(4)])
        begun = time.perf_counter()
        # Calls that are the same are made once, but for these.
        assert sum(client.gather([client.submit(nothing, n, pure=False) for n in range(count)])) == count
        return {"seconds": time.perf_counter() - begun}


def submit(server, count):
    import headquarters

    with headquarters.Executor(cluster=server) as executor:
        return calls_of(executor, count)


def map_of(server, count):
    import headquarters

    with headquarters.Executor(cluster=server) as executor:
        executor.submit(nothing).result()
        before = resident("VmRSS")
        begun = time.perf_counter()
        assert sum(executor.map(nothing, range(count))) == count
        return {"seconds": time.perf_counter() - begun, "bytes": resident("VmHWM") - before}


def latency(server, count):
    import headquarters

    with headquarters.Executor(cluster=server) as executor:
        executor.submit(nothing).result()
        times = []
        for _ in range(count):
            begun = time.perf_counter()
            executor.submit(nothing).result()
            times.append(time.perf_counter() - begun)
        times.sort()
        return {"median": times[count // 2], "p99": times[count * 99 // 100]}


def runners(server, count):
    # Until a call has returned that has an interpreter of its own, with numpy in it: forked, started by itself, and after a crash.
    import headquarters

    found = {}
    for word, fork in (("forked", "auto"), ("started", False)):
        env = headquarters.PythonEnv(sys.executable, preload=["numpy"], fork=fork)
        with headquarters.Executor(cluster=server, env=env) as executor:
            fresh = executor.options(fresh=True)
            fresh.submit(nothing).result()
            found[word] = median(took(lambda: fresh.submit(nothing).result()) for _ in range(count))
            crashes = []
            for _ in range(count):
                assert executor.submit(os._exit, 1).exception()
                crashes.append(took(lambda: executor.submit(nothing).result()))
            found[word + " after a crash"] = median(crashes)
    return found


def took(body):
    begun = time.perf_counter()
    body()
    return time.perf_counter() - begun


def median(times):
    times = sorted(times)
    return times[len(times) // 2]


def chain(server, count):
    import headquarters

    with headquarters.Executor(cluster=server) as executor:
        executor.submit(nothing).result()
        begun = time.perf_counter()
        last = executor.submit(add, 0)
        for _ in range(count - 1):
            last = executor.submit(add, last)
        assert last.result() == count
        return {"seconds": time.perf_counter() - begun}


def on_ranks(server, count):
    import headquarters

    def bare(count, comm):
        group = comm.Get_group()
        begun = time.perf_counter()
        for _ in range(count):
            comm.Create_group(group).Free()
        return time.perf_counter() - begun

    with headquarters.Executor(cluster=server, ranks=4) as executor:
        executor.submit(has_comm).result()
        own = executor.submit(bare, count).result()
        begun = time.perf_counter()
        for future in [executor.submit(has_comm) for _ in range(count)]:
            assert future.result() is None
        return {"seconds": time.perf_counter() - begun, "bare": own}


def has_comm(comm):
    pass


def fan_in(server, count):
    import headquarters

    with headquarters.Executor(cluster=server) as executor:
        futures = [executor.submit(nothing) for _ in range(count)]
        headquarters.wait(futures)
        begun = time.perf_counter()
        assert executor.submit(sum, futures).result() == count
        return {"seconds": time.perf_counter() - begun}


def clients(server, count):
    import subprocess

    command = [sys.executable, __file__, "submit", server, str(count)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    seconds = [json.loads(client.communicate()[0])["seconds"] for client in running]
    return {"rate": sum(count / each for each in seconds)}


def fib(n):
    import headquarters

    here = headquarters.current()
    return n if n < 2 else here.submit(int.__add__, here.submit(fib, n - 1), here.submit(fib, n - 2))


def nested(server, n):
    import headquarters

    with headquarters.Executor(cluster=server) as executor:
        executor.submit(fib, 2).result()
        begun = time.perf_counter()
        # Of each number: its call, that of the sum, and those of the two before.
        calls = [1, 1]
        while len(calls) <= n:
            calls.append(calls[-1] + calls[-2] + 2)
        executor.submit(fib, n).result()
        return {"rate": calls[n] / (time.perf_counter() - begun)}


def spin():
    while True:
        pass


def hold():
    import ctypes

    # No handler of a signal runs meanwhile.
    ctypes.PyDLL(None).sleep(60)


def ended(server, function):
    import concurrent.futures

    import headquarters

    with headquarters.Executor(cluster=server, kill_grace="1s") as executor:
        future = executor.submit(function)
        while not future.running():
            pass
        begun = time.perf_counter()
        future.kill()
        concurrent.futures.wait([future])
        return {"seconds": time.perf_counter() - begun}


def interrupt(server, _):
    return ended(server, spin)


def interrupt_c(server, _):
    return ended(server, hold)


def five(_, count):
    import headquarters

    begun = time.perf_counter()
    with headquarters.Executor(count) as executor:
        assert headquarters.gather([executor.submit(nothing) for _ in range(count)]) == [1] * count
    return {"seconds": time.perf_counter() - begun}


def outputs(server, count):
    from headquarters import Client, Job

    client = Client(server)
    job = Job(default_workdir="outputs")
    for _ in range(count):
        job.function(nothing)
    begun = time.perf_counter()
    client.wait_for_jobs([client.submit(job)])
    return {"seconds": time.perf_counter() - begun}


def first(_, __):
    import headquarters

    begun = time.perf_counter()
    with headquarters.LocalCluster() as cluster, headquarters.Executor(cluster=cluster) as executor:
        assert executor.submit(nothing).result() == 1
        return {"seconds": time.perf_counter() - begun}


def imported(_, __):
    begun = time.perf_counter()
    # Names are loaded when they are asked for.
    from headquarters import Executor, LocalCluster  # noqa: F401

    return {"seconds": time.perf_counter() - begun}


def results(server, count):
    import pickle

    import headquarters

    assert len(pickle.dumps(twenty(), 5)) == 20
    with headquarters.Executor(cluster=server) as executor:
        [future.result() for future in [executor.submit(twenty) for _ in range(count)]]
    return {}


def pending(server, count):
    import headquarters

    executor = headquarters.Executor(cluster=server)
    client = headquarters.Client(server)
    futures = [executor.submit(nothing) for _ in range(1000)]
    before = resident("VmRSS")
    futures += [executor.submit(nothing) for _ in range(count)]
    # What is on its way to the server is no matter of futures.
    while client.job(executor.job_id).waiting < len(futures):
        time.sleep(0.01)
    print(json.dumps({"bytes": resident("VmRSS") - before}), flush=True)
    # Nobody will ever run them.
    os._exit(0)


CASES = {"map": map_of, "import": imported, "ranks": on_ranks}

if __name__ == "__main__":
    case, server, count = sys.argv[1:]
    print(json.dumps((CASES.get(case) or globals()[case])(server, int(count))))

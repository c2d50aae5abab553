"""Writes random instances with a bound on the optimum that HiGHS proves.

    pip install highspy numpy
    python optimum.py ../tests/instances

Each instance is one priority: the sum of weights of the tasks placed is to be as large as possible. The bound is
the linear program over all contents of a worker (patterns), by column generation: each pricing problem is an exact
integer program of one worker with its groups. No integer placement exceeds it, so a plan's part of the bound is at
most its part of the optimum.
"""

import random
import sys
from pathlib import Path

import highspy

INF = highspy.kHighsInf


def instance(rng, classes_max, workers_max):
    shapes = []
    for _ in range(rng.randint(1, 4)):
        groups = rng.choice([1, 1, 2, 4])
        shape = {"cpus": [rng.choice([4, 8, 16, 32])] * groups, "mem": rng.choice([64, 128, 256])}
        if rng.random() < 0.5:
            shape["gpus/nvidia"] = [rng.choice([1, 2])] * groups
        shapes.append(shape)
    left = rng.randint(1, workers_max)
    bins = []
    while left > 0:
        shape = rng.randrange(len(shapes))
        count = rng.randint(1, left)
        free = {
            name: [rng.randint(0, n) if rng.random() < 0.4 else n for n in have] if isinstance(have, list) else have
            for name, have in shapes[shape].items()
        }
        bins.append((shape, count, free))
        left -= count
    workers = sum(count for _, count, _ in bins)
    classes = []
    for _ in range(rng.randint(1, classes_max)):
        ready = rng.choice([rng.randint(1, 10), rng.randint(1, 1 + 2 * workers), rng.randint(1, 1 + 20 * workers)])
        weight = rng.choice([10_000, 10_000, 5_000, 20_000, rng.randint(1_000, 50_000)])
        variants = []
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            request = {"cpus": (rng.choice([1, 1, 2, 3, 4, 6, 8]), "")}
            if rng.random() < 0.15:
                request["cpus"] = (rng.choice([2, 3, 4]), "!")
            if rng.random() < 0.5:
                request["mem"] = (rng.choice([1, 4, 16, 30, 50]), "")
            if rng.random() < 0.3:
                request["gpus"] = (rng.choice([1, 1, 2, 0.5]), "")
            variants.append((weight if rng.random() < 0.7 else rng.randint(1_000, 50_000), request))
        classes.append((ready, variants))
    return shapes, bins, classes


def pool_of(free, name):
    return "gpus/nvidia" if name == "gpus" and "gpus/nvidia" in free else name


def knapsack(free, classes, prices):
    """The content of one worker with the largest sum of weight less price."""
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("mip_rel_gap", 1e-9)
    model.setOptionValue("threads", 1)
    columns, loads = [], {}
    for pool, have in free.items():
        for group in range(len(have) if isinstance(have, list) else 1):
            loads[pool, group] = []
    by_class = {}

    def column(cost, upper, integer=True):
        model.addCol(cost, 0.0, upper, 0, [], [])
        at = model.getNumCol() - 1
        if integer:
            model.changeColIntegrality(at, highspy.HighsVarType.kInteger)
        return at

    rows = []
    for c, (ready, variants) in enumerate(classes):
        for v, (weight, request) in enumerate(variants):
            parts = [(pool_of(free, name), *amount) for name, amount in request.items()]
            if any(pool not in free for pool, _, _ in parts):
                continue
            profit = weight - prices[c]
            x = column(-profit, ready)
            columns.append((x, c, weight))
            by_class.setdefault(c, []).append(x)
            for pool, amount, policy in parts:
                have = free[pool]
                groups = len(have) if isinstance(have, list) else 1
                if groups == 1:
                    loads[pool, 0].append((x, amount))
                    continue
                split = [column(0.0, INF, policy == "!") for _ in range(groups)]
                for group, y in enumerate(split):
                    loads[pool, group].append((y, amount if policy == "!" else 1))
                factor = 1 if policy == "!" else amount
                rows.append((0.0, 0.0, [(x, -factor)] + [(y, 1.0) for y in split]))
    for (pool, group), terms in loads.items():
        have = free[pool][group] if isinstance(free[pool], list) else free[pool]
        rows.append((-INF, have, terms))
    for c, xs in by_class.items():
        rows.append((-INF, classes[c][0], [(x, 1.0) for x in xs]))
    for low, high, terms in rows:
        model.addRow(low, high, len(terms), [t[0] for t in terms], [float(t[1]) for t in terms])
    model.run()
    values = model.getSolution().col_value
    bound = -model.getInfo().mip_dual_bound if model.getNumCol() else 0.0
    content, weight = {}, 0
    for x, c, w in columns:
        count = round(values[x])
        if count:
            content[c] = content.get(c, 0) + count
            weight += w * count
    return bound, weight, content


def bound(bins, classes):
    """The best upper bound found: that of Lagrange at the last prices, valid at any of them."""
    patterns = []
    prices = [0.0] * len(classes)
    best = float("inf")
    for _ in range(200):
        lagrange = sum(p * ready for p, (ready, _) in zip(prices, classes))
        for at, (_, count, free) in enumerate(bins):
            value, weight, content = knapsack(free, classes, prices)
            lagrange += count * max(0.0, value)
            if content:
                patterns.append((at, weight, content))
        best = min(best, lagrange)
        master = highspy.Highs()
        master.setOptionValue("output_flag", False)
        for _, count, _ in bins:
            master.addRow(-INF, float(count), 0, [], [])
        for ready, _ in classes:
            master.addRow(-INF, float(ready), 0, [], [])
        for at, weight, content in patterns:
            index = [at] + [len(bins) + c for c in content]
            master.addCol(-float(weight), 0.0, INF, len(index), index, [1.0] + [float(n) for n in content.values()])
        master.run()
        value = -master.getInfo().objective_function_value
        if best - value <= 1e-4 * best + 1e-6:
            break
        prices = [max(0.0, -d) for d in master.getSolution().row_dual[len(bins):]]
    return best


def text(shapes, bins, classes, best):
    def pools(pools):
        show = lambda have: "+".join(map(str, have)) if isinstance(have, list) else f"~{have}"
        return " ".join(f"{name}={show(have)}" for name, have in pools.items())

    lines = [f"shape {pools(shape)}" for shape in shapes]
    lines += [f"workers {count} of {shape} {pools(free)}" for shape, count, free in bins]
    for ready, variants in classes:
        show = lambda v: f"{v[0]} " + " ".join(f"{n}={a}{p}" for n, (a, p) in v[1].items())
        lines.append(f"class {ready}: " + " | ".join(map(show, variants)))
    return "\n".join(lines + [f"bound {int(best + 0.5)}", ""])


def main():
    out = Path(sys.argv[1])
    for seed in range(int(sys.argv[2]) if len(sys.argv) > 2 else 60):
        rng = random.Random(seed)
        made = instance(rng, [4, 12, 40][seed % 3], [4, 40, 1000][seed // 3 % 3])
        best = bound(*made[1:])
        (out / f"{seed:03}.txt").write_text(text(*made, best))
        print(seed, round(best), flush=True)


if __name__ == "__main__":
    main()

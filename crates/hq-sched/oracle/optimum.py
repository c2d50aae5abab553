"""Writes random instances, as the server sends them, with a bound on the optimum that HiGHS proves.

    pip install highspy numpy
    python optimum.py ../tests/instances

The sum of weights of the tasks placed is to be as large as possible. The bound is the linear program over all contents
of a worker (patterns), by column generation: each pricing problem is an exact integer program of one worker. No integer
placement exceeds it, so a plan's part of the bound is at most its part of the optimum.

What a task is worth is told from what it takes, its weight and its place in the order, as in `server/planning.rs` of
`hq-core`.
"""

import random
import sys
from pathlib import Path

import highspy

INF = highspy.kHighsInf
UNITS = 10_000
NEUTRAL = 10_000
WORTH_MAX = 1_000_000_000
SHARE_UNITS = 100_000_000


def instance(rng, classes_max, workers_max):
    """Shapes are totals by pool; bins are shape, count, life and free amounts; classes are counts and variants; a variant
    is its worth, how long a worker must live, and amounts or "all" by pool."""
    shapes = []
    for _ in range(rng.randint(1, 4)):
        groups = rng.choice([1, 1, 2, 4])
        shape = {"cpus": rng.choice([4, 8, 16, 32]) * groups, "mem": rng.choice([64, 128, 256])}
        if rng.random() < 0.5:
            shape["gpus"] = rng.choice([1, 2]) * groups
        shapes.append(shape)
    left = rng.randint(1, workers_max)
    bins = []
    while left > 0:
        shape = rng.randrange(len(shapes))
        count = rng.randint(1, left)
        free = {name: rng.randint(0, n) if rng.random() < 0.4 else n for name, n in shapes[shape].items()}
        life = rng.choice([60, 600, 3600]) if rng.random() < 0.25 else None
        left -= count
        # Full workers are left out, as all tasks need CPUs.
        if free["cpus"] > 0:
            bins.append((shape, count, life, free))
    workers = sum(bin[1] for bin in bins)
    classes = []
    for _ in range(rng.randint(2, classes_max)):
        ready = rng.choice([rng.randint(1, 10), rng.randint(1, 1 + 2 * workers), rng.randint(1, 1 + 20 * workers)])
        weight = rng.choice([10_000, 10_000, 5_000, 20_000, rng.randint(1_000, 50_000)])
        variants = []
        for _ in range(rng.choice([1, 1, 1, 2, 3])):
            takes = {"cpus": "all" if rng.random() < 0.03 else rng.choice([1, 1, 2, 3, 4, 6, 8])}
            if rng.random() < 0.5:
                takes["mem"] = rng.choice([1, 4, 16, 30, 50])
            if rng.random() < 0.3:
                takes["gpus"] = rng.choice([1, 1, 2, 0.5])
            time = rng.choice([30, 300, 1800]) if rng.random() < 0.25 else 0
            variants.append((weight if rng.random() < 0.7 else rng.randint(1_000, 50_000), time, takes))
        variants.sort(key=lambda variant: -variant[0])
        classes.append((ready, variants))
    classes.sort(key=lambda of: -of[1][0][0])
    return shapes, bins, worths(shapes, bins, classes)


def worths(shapes, bins, classes):
    """The classes with what their variants are worth instead of their weights."""

    def dominant_share(takes):
        def part(name, amount):
            offers = [(count, shapes[shape][name] * UNITS) for shape, count, _, _ in bins if name in shapes[shape]]
            if not offers:
                return 0
            units = max(total for _, total in offers) if amount == "all" else round(amount * UNITS)
            return units * SHARE_UNITS // sum(count * total for count, total in offers)

        return max(1, *(part(name, amount) for name, amount in takes.items()))

    parts = [dominant_share(variants[0][2]) for _, variants in classes]
    neutral = 10 * len(classes)

    def worth(at, weight):
        part = parts[at] + parts[at] ** 2 // (4 * max(parts))
        return min(max(part * weight // NEUTRAL * (neutral + len(classes) - at) // neutral, 1), WORTH_MAX)

    return [
        (ready, [(worth(at, weight), time, takes) for weight, time, takes in variants])
        for at, (ready, variants) in enumerate(classes)
    ]


def knapsack(totals, life, free, classes, prices):
    """The content of one worker with the largest sum of weight less price."""
    model = highspy.Highs()
    model.setOptionValue("output_flag", False)
    model.setOptionValue("mip_rel_gap", 1e-9)
    model.setOptionValue("threads", 1)
    columns, loads, by_class = [], {pool: [] for pool in free}, {}
    for c, (ready, variants) in enumerate(classes):
        for weight, time, takes in variants:
            takes = {pool: totals.get(pool) if amount == "all" else amount for pool, amount in takes.items()}
            if any(pool not in free for pool in takes) or (life is not None and time > life):
                continue
            model.addCol(prices[c] - weight, 0.0, ready, 0, [], [])
            x = model.getNumCol() - 1
            model.changeColIntegrality(x, highspy.HighsVarType.kInteger)
            columns.append((x, c, weight))
            by_class.setdefault(c, []).append(x)
            for pool, amount in takes.items():
                loads[pool].append((x, amount))
    rows = [(free[pool], terms) for pool, terms in loads.items()]
    rows += [(classes[c][0], [(x, 1.0) for x in xs]) for c, xs in by_class.items()]
    for high, terms in rows:
        model.addRow(-INF, high, len(terms), [t[0] for t in terms], [float(t[1]) for t in terms])
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


def bound(shapes, bins, classes):
    """The best upper bound found: that of Lagrange at the last prices, valid at any of them."""
    patterns = []
    prices = [0.0] * len(classes)
    best = float("inf")
    for _ in range(200):
        lagrange = sum(p * ready for p, (ready, _) in zip(prices, classes))
        for at, (shape, count, life, free) in enumerate(bins):
            value, weight, content = knapsack(shapes[shape], life, free, classes, prices)
            lagrange += count * max(0.0, value)
            if content:
                patterns.append((at, weight, content))
        best = min(best, lagrange)
        master = highspy.Highs()
        master.setOptionValue("output_flag", False)
        for _, count, _, _ in bins:
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
    def amounts(amounts):
        return " ".join(f"{name}={amount}" for name, amount in amounts.items())

    def variant(weight, time, takes):
        return f"{weight} " + (f"time={time} " if time else "") + amounts(takes)

    lines = [f"shape {amounts(shape)}" for shape in shapes]
    for shape, count, life, free in bins:
        lines.append(f"workers {count} of {shape} " + (f"life={life} " if life else "") + amounts(free))
    for ready, variants in classes:
        lines.append(f"class {ready}: " + " | ".join(variant(*each) for each in variants))
    return "\n".join(lines + [f"bound {int(best + 0.5)}", ""])


def main():
    out = Path(sys.argv[1])
    for seed in range(int(sys.argv[2]) if len(sys.argv) > 2 else 60):
        rng = random.Random(seed)
        made = instance(rng, [4, 12, 40][seed % 3], [4, 40, 1000][seed // 3 % 3])
        best = bound(*made)
        (out / f"{seed:03}.txt").write_text(text(*made, best))
        print(seed, round(best), flush=True)


if __name__ == "__main__":
    main()

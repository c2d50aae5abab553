"""Statistics of a table that lies in many parquet files, as a list of tables on workers.

The table is the breast cancer set of Wisconsin: 569 tumours, 30 measures of each. The same program in one process gives the
same, and so does PyArrow with the whole table: the example compares the three.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import headquarters as hq
from headquarters.lists import Context

FILES = 12
BINS = 10


def write(directory: Path) -> list[str]:
    """Writes the table as files of different lengths."""
    import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]
    import pyarrow.parquet as pq  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from sklearn.datasets import load_breast_cancer  # type: ignore[import-not-found, import-untyped, unused-ignore]

    data: Any = load_breast_cancer()
    table = pa.table({"kind": data.target, **{str(name): data.data[:, at] for at, name in enumerate(data.feature_names)}})
    paths = []
    for number in range(FILES):
        start, end = (table.num_rows * at * at // FILES**2 for at in (number, number + 1))
        paths.append(str(directory / f"part-{number}.parquet"))
        pq.write_table(table.slice(start, end - start), paths[-1])
    return paths


def read(path: str) -> Any:
    """The table of one file."""
    import pyarrow.parquet as pq  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return pq.read_table(path)


def compute() -> Any:
    """The functions of PyArrow for columns."""
    import pyarrow.compute  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return pyarrow.compute


def extremes(table: Any) -> dict[str, tuple[float, float]]:
    """Least and largest value of each column of a table that has rows."""
    pc = compute()
    return {name: tuple(pc.min_max(table[name]).as_py().values()) for name in table.column_names if table.num_rows}


def wider(left: dict[str, tuple[float, float]], right: dict[str, tuple[float, float]]) -> dict[str, tuple[float, float]]:
    """The extremes of both."""
    both = {name: (left.get(name), right.get(name)) for name in [*left, *(name for name in right if name not in left)]}
    return {
        name: (min(pair[0] for pair in pairs if pair), max(pair[1] for pair in pairs if pair)) for name, pairs in both.items()
    }


def by_kind(table: Any, out: dict[int, list[Any]]) -> None:
    """Sorts out the rows of each kind of tumour."""
    pc = compute()
    for kind in (0, 1):
        out.setdefault(kind, []).append(table.filter(pc.equal(table["kind"], kind)))


def joined(tables: list[Any]) -> Any:
    """One table of several."""
    import pyarrow as pa  # type: ignore[import-not-found, import-untyped, unused-ignore]

    return pa.concat_tables(tables)


def study(context: Context, paths: list[str]) -> tuple[Any, ...]:
    """The number of rows, the histogram of the mean radius within what all files have, the mean of each kind, and how even rows
    can be spread."""
    import numpy as np

    pc = compute()
    tables = context.from_list(paths).map(read)
    rows = tables.map(len).reduce(lambda left, right: left + right, initial=0)
    # What was found in all files is used in each.
    least, largest = tables.map(extremes).reduce(wider, initial={})["mean radius"]
    histogram = tables.map(lambda table: np.histogram(table["mean radius"], BINS, (least, largest))[0]).reduce(
        lambda left, right: left + right, initial=np.zeros(BINS, int)
    )
    kinds = tables.group(by_kind, joined, 2).map(lambda table: (len(table), pc.mean(table["mean area"]).as_py()))
    even = tables.repartition(
        len, lambda table, ranges: [table.slice(start, end - start) for start, end in ranges], joined, 7
    )
    return rows, histogram.tolist(), kinds.collect(root=None), even.map(len).collect(root=None)


def main() -> None:
    import numpy as np

    pc = compute()
    with tempfile.TemporaryDirectory() as directory, hq.Executor(2, name="tables") as executor:
        paths = write(Path(directory))
        found = study(Context(executor=executor, procs=5), paths)
        assert found == study(Context("serial"), paths), "the serial program says something else"
        whole = joined([read(path) for path in paths])
        rows, histogram, kinds, even = found
        assert (rows, sum(even), max(even) - min(even)) == (whole.num_rows, whole.num_rows, 1)
        assert histogram == np.histogram(whole["mean radius"], BINS)[0].tolist()
        for kind, (count, mean) in enumerate(kinds):
            of_kind = whole.filter(pc.equal(whole["kind"], kind))
            assert count == len(of_kind) and np.isclose(mean, pc.mean(of_kind["mean area"]).as_py())
    (malignant, large), (benign, small) = kinds
    print(f"{rows} tumours in {FILES} files: {malignant} malignant ones of mean area {large:.0f}, {benign} benign ones of {small:.0f}")


if __name__ == "__main__":
    main()

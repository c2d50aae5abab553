#!/usr/bin/env python3
"""Merges the alignments of chunks and compares them with the alignment of a single run.

    check_merge.py WHOLE.sam MERGED.sam CHUNK.sam ...

The chunks are given in their order. Header lines are taken from the first; `@PG` lines, which tell
the command line, are left out of the comparison.
"""

import sys
from pathlib import Path


def parts(path: str) -> tuple[list[str], list[str]]:
    """Header and alignment lines of a SAM file, without `@PG` lines."""
    lines = Path(path).read_text(encoding="ascii").splitlines(keepends=True)
    header = [line for line in lines if line.startswith("@") and not line.startswith("@PG")]
    return header, [line for line in lines if not line.startswith("@")]


def main() -> None:
    """Does what the module says."""
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    whole, merged, *chunks = sys.argv[1:]
    header, alignments = [], []
    for chunk in chunks:
        chunk_header, chunk_alignments = parts(chunk)
        header = header or chunk_header
        if chunk_header != header:
            raise SystemExit(f"error: {chunk} was aligned against something else than {chunks[0]}")
        alignments += chunk_alignments
    Path(merged).write_text("".join(header + alignments), encoding="ascii")
    expected_header, expected = parts(whole)
    if (header, alignments) != (expected_header, expected):
        pairs = zip(alignments, expected)
        differing = next((at for at, (ours, theirs) in enumerate(pairs) if ours != theirs), None)
        raise SystemExit(
            f"error: {len(alignments)} merged alignments, {len(expected)} of a single run;"
            f" the first that differs: {differing}"
        )
    aligned = sum(1 for line in alignments if not int(line.split("\t")[1]) & 4)
    print(f"{len(alignments)} alignments of {len(chunks)} chunks ({aligned} reads aligned): as a single run gives them")


if __name__ == "__main__":
    main()

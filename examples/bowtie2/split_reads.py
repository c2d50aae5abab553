#!/usr/bin/env python3
"""Cuts two files of paired reads into chunks, and writes the names of the chunks, one a line.

    split_reads.py READS_1.fq.gz READS_2.fq.gz CHUNKS DIRECTORY

Both mates of a pair end up in chunks of the same name: DIRECTORY/NAME.1.fq and DIRECTORY/NAME.2.fq.
"""

import gzip
import sys
from pathlib import Path

LINES_PER_READ = 4


def reads(path: str) -> list[list[str]]:
    """The reads of a FASTQ file, as their four lines."""
    opened = gzip.open(path, "rt") if path.endswith(".gz") else open(path, encoding="ascii")
    with opened as file:
        lines = file.readlines()
    if len(lines) % LINES_PER_READ:
        raise SystemExit(f"error: {path} ends within a read")
    return [lines[at : at + LINES_PER_READ] for at in range(0, len(lines), LINES_PER_READ)]


def main() -> None:
    """Does what the module says."""
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    first, second = reads(sys.argv[1]), reads(sys.argv[2])
    chunks, directory = int(sys.argv[3]), Path(sys.argv[4])
    if len(first) != len(second):
        raise SystemExit(f"error: {len(first)} first mates, but {len(second)} second ones")
    directory.mkdir(parents=True, exist_ok=True)
    names = []
    for chunk in range(chunks):
        begin, end = len(first) * chunk // chunks, len(first) * (chunk + 1) // chunks
        if begin == end:
            continue
        name = directory.resolve() / f"chunk-{chunk:04}"
        for mate, all_reads in ((1, first), (2, second)):
            with open(f"{name}.{mate}.fq", "w", encoding="ascii") as file:
                file.writelines(line for read in all_reads[begin:end] for line in read)
        names.append(f"{name}\n")
    (directory / "chunks.txt").write_text("".join(names))


if __name__ == "__main__":
    main()

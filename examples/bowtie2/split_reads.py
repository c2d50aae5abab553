#!/usr/bin/env python3
"""Cuts one chunk out of both files of paired reads.

    split_reads.py READS CHUNK CHUNKS DIRECTORY

READS and DIRECTORY have the mates of each pair in files called 1.fq and 2.fq. CHUNK is counted from 0.
"""

import sys
from pathlib import Path

LINES_PER_READ = 4


def reads(path: Path) -> list[list[str]]:
    """The reads of a FASTQ file, as their four lines."""
    lines = path.read_text(encoding="ascii").splitlines(keepends=True)
    if len(lines) % LINES_PER_READ:
        raise SystemExit(f"error: {path} ends within a read")
    return [lines[at : at + LINES_PER_READ] for at in range(0, len(lines), LINES_PER_READ)]


def main() -> None:
    """Does what the module says."""
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    chunk, chunks = int(sys.argv[2]), int(sys.argv[3])
    source, directory = Path(sys.argv[1]), Path(sys.argv[4])
    first, second = reads(source / "1.fq"), reads(source / "2.fq")
    if len(first) != len(second):
        raise SystemExit(f"error: {len(first)} first mates, but {len(second)} second ones")
    directory.mkdir(parents=True, exist_ok=True)
    begin, end = len(first) * chunk // chunks, len(first) * (chunk + 1) // chunks
    for mate, all_reads in ((1, first), (2, second)):
        with open(directory / f"{mate}.fq", "w", encoding="ascii") as file:
            file.writelines(line for read in all_reads[begin:end] for line in read)


if __name__ == "__main__":
    main()

"""The lines of a text file, each read by one rank only."""

from __future__ import annotations

from collections.abc import Iterator

from ._layout import Layout


def check_encoding(encoding: str) -> None:
    """Raises ValueError for encodings in which the end of a line cannot be found from any place of the file."""
    if "\n".encode(encoding) != b"\n":
        raise ValueError(f"read_lines: lines cannot be found in {encoding}; it takes encodings that write ASCII as it is")


def lines(path: str, size: int, rank: int, procs: int, encoding: str) -> Iterator[str]:
    """The lines that begin in the part of the file that a rank has, without their ends."""
    own = Layout(size, procs).range(rank)
    with open(path, "rb") as file:
        at = own.start
        if at:
            # What begins before is of the rank before; this part may begin with a line.
            file.seek(at - 1)
            at += len(file.readline()) - 1
        while at < own.stop and (line := file.readline()):
            at += len(line)
            yield line.removesuffix(b"\n").removesuffix(b"\r").decode(encoding)

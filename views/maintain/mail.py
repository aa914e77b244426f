"""Deltas on their way between the nodes of a group, within an epoch: in memory, and on disk beyond a limit."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO, Final

import pyarrow as pa

MEMORY_BYTES_MAX: Final = 192 << 20
"""What the letters of one task may hold in memory; what comes after lies in a temporary file."""
_COMPRESSION: Final = "lz4"


def packed(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=_COMPRESSION if table.nbytes > 1 << 14 else None)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    content: bytes = sink.getvalue().to_pybytes()
    return content


def unpacked(content: bytes) -> pa.Table:
    return pa.ipc.open_stream(content).read_all()


@dataclass
class _Spilled:
    file: IO[bytes]
    start: int
    length: int

    def table(self) -> pa.Table:
        self.file.seek(self.start)
        return unpacked(self.file.read(self.length))


@dataclass
class Letters:
    """What arrived for one node on one shard. Can be read again and again."""

    pieces: list[tuple[int, pa.Table | _Spilled]] = field(default_factory=list)
    rows: int = 0

    def tables(self, place: int) -> Iterator[pa.Table]:
        """The pieces of an input's delta."""
        for where, piece in self.pieces:
            if where == place:
                yield piece if isinstance(piece, pa.Table) else piece.table()

    def ordered(self, place: int, column: str) -> Iterator[pa.Table]:
        """The same, by what the first row of each piece has in a column."""
        firsts = [(table[column][0].as_py(), number) for number, table in enumerate(self.tables(place))]
        if firsts == sorted(firsts):
            yield from self.tables(place)
            return
        mine = [piece for where, piece in self.pieces if where == place]
        for _, number in sorted(firsts):
            piece = mine[number]
            yield piece if isinstance(piece, pa.Table) else piece.table()

    def all(self, place: int) -> Reread:
        return Reread(self, place)


@dataclass(frozen=True)
class Reread:
    """An input's pieces as something to iterate over more than once."""

    letters: Letters
    place: int

    def __iter__(self) -> Iterator[pa.Table]:
        return self.letters.tables(self.place)


class Mailbox:
    def __init__(self, memory_bytes_max: int = MEMORY_BYTES_MAX) -> None:
        self._letters: dict[tuple[int, int], Letters] = {}
        self._left = memory_bytes_max
        self._file: IO[bytes] | None = None

    def add(self, dest: int, shard: int, place: int, table: pa.Table) -> None:
        if not table.num_rows:
            return
        letters = self._letters.setdefault((dest, shard), Letters())
        letters.rows += table.num_rows
        self._left -= table.nbytes
        letters.pieces.append((place, table if self._left >= 0 else self._spilled(table)))

    def take(self, dest: int, shard: int) -> Letters | None:
        """What is there for a node; it is not there any more afterwards."""
        letters = self._letters.pop((dest, shard), None)
        if letters is not None:
            self._left += sum(piece.nbytes for _, piece in letters.pieces if isinstance(piece, pa.Table))
        return letters

    def _spilled(self, table: pa.Table) -> _Spilled:
        self._left += table.nbytes
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="headwater-mail-")  # noqa: SIM115  # lives as long as the letters
        content = packed(table)
        start = self._file.seek(0, 2)
        self._file.write(content)
        return _Spilled(self._file, start, len(content))

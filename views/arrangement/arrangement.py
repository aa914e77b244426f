"""One stage's memory on one shard, epoch by epoch: exactly once without a coordinator.

An epoch is one LMDB transaction: the tables' changes, the epoch's number and its output. Asked for the same epoch
again, an arrangement returns the saved output and changes nothing; asked for an older one it refuses. So an epoch that
was cut off anywhere, between stages or inside one, is simply run again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import lmdb
import pyarrow as pa

from cdc.errors import StateError, StateFenced
from views.arrangement.environment import REPAIR, Environment, close_environment, open_environment, pages
from views.arrangement.tables import Entries, Multiset

FORMAT: Final = b"1"
_META, _OUTPUT = "meta", "output"
_EPOCH, _OWNER, _IDENTITY, _FORMAT, _CHUNKS = b"epoch", b"owner", b"identity", b"format", b"chunks"
OUTPUT_KEPT_BYTES_MAX: Final = 8 << 20
"""Outputs up to this size are handed on as they are; larger ones are read back, chunk by chunk."""


@dataclass(frozen=True, slots=True)
class Statistics:
    rows: dict[str, int]
    """By table."""
    bytes: int
    """In use, of the file."""


def last_epoch(environment: Environment) -> int | None:
    """The last one committed, for a reader in whatever process."""
    meta = environment.table(_META)
    with environment.reading() as transaction:
        return _number(transaction.get(_EPOCH, db=meta))


class Writing:
    """The tables of an arrangement inside an epoch's transaction."""

    def __init__(self, environment: Environment, transaction: Any, *, is_first: bool) -> None:
        self._environment = environment
        self._transaction = transaction
        self.is_first = is_first
        """No epoch was committed before this one."""

    def multiset(self, name: str) -> Multiset:
        return Multiset(self._transaction, self._environment.tables[name])

    def entries(self, name: str) -> Entries:
        return Entries(self._transaction, self._environment.tables[name])


class Output:
    """What an epoch gave, as saved with it."""

    def __init__(self, arrangement: Arrangement, epoch: int, kept: list[pa.Table] | None) -> None:
        self._arrangement = arrangement
        self._epoch = epoch
        self._kept = kept

    def tables(self) -> Iterator[pa.Table]:
        """Chunk by chunk; large ones one at a time in memory."""
        if self._kept is not None:
            yield from self._kept
            return
        for number in range(self._arrangement.chunks(self._epoch)):
            yield self._arrangement.chunk(self._epoch, number)

    def table(self, schema: pa.Schema) -> pa.Table:
        chunks = list(self.tables())
        return pa.concat_tables(chunks) if chunks else schema.empty_table()


class Arrangement:
    """Open one with `Arrangement.open`; close it, or use it in a with statement."""

    def __init__(self, environment: Environment, owner: int) -> None:
        self._environment = environment
        self._owner = owner

    @classmethod
    def open(
        cls,
        folder: Path,
        tables: Iterable[str],
        *,
        identity: str = "",
        owner: int = 0,
        create: bool = True,
        durable: bool = True,
        readonly: bool = False,
    ) -> Arrangement:
        """`identity` is the stage that the state belongs to: a folder of another one is refused. `owner` is the number
        of the writer (ownership.py). `durable` false leaves it to the operating system when pages reach the disk: a
        killed process loses nothing, a machine that loses power may leave a damaged state behind. `readonly` claims
        nothing, and may be opened beside others in this process; not within an epoch of it."""
        environment = open_environment(folder, create=create, durable=durable, readonly=readonly)
        try:
            environment.check_whole()
            for name in (_META, _OUTPUT, *tables):
                environment.table(name, create=not readonly)
            opened = cls(environment, owner)
            if not readonly:
                opened._claim(identity)
        except BaseException:
            close_environment(environment)
            raise
        return opened

    def __enter__(self) -> Arrangement:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        close_environment(self._environment)

    @property
    def folder(self) -> Path:
        return self._environment.folder

    @property
    def epoch(self) -> int | None:
        """The last one committed."""
        with self._environment.reading() as transaction:
            return _number(transaction.get(_EPOCH, db=self._environment.tables[_META]))

    def step(self, epoch: int, work: Callable[[Writing], Iterable[pa.Table]]) -> Output:
        """Runs an epoch, or returns what it gave. `work` must depend on nothing but its inputs and the tables: it is
        run again after the map had to grow."""
        while True:
            try:
                return self._step(epoch, work)
            except lmdb.MapFullError:
                self._environment.grow()

    def chunks(self, epoch: int) -> int:
        with self._environment.reading() as transaction:
            self._check_saved(transaction, epoch)
            return _number(transaction.get(_CHUNKS, db=self._environment.tables[_META])) or 0

    def chunk(self, epoch: int, number: int) -> pa.Table:
        with self._environment.reading() as transaction:
            self._check_saved(transaction, epoch)
            saved = transaction.get(number.to_bytes(4, "big"), db=self._environment.tables[_OUTPUT])
        return pa.ipc.open_stream(saved).read_all()

    def statistics(self) -> Statistics:
        tables = dict(self._environment.tables)
        with self._environment.reading() as transaction:
            stats = {name: transaction.stat(table) for name, table in tables.items()}
            size = self._environment.handle.stat()["psize"]
        rows = {name: stat["entries"] for name, stat in stats.items() if name not in (_META, _OUTPUT)}
        return Statistics(rows, sum(map(pages, stats.values())) * size)

    @contextmanager
    def reading(self) -> Iterator[Writing]:
        """The tables as the last epoch left them, for as long as the block lasts. Nothing may be changed."""
        with self._environment.reading() as transaction:
            yield Writing(self._environment, transaction, is_first=False)

    def copy_to(self, folder: Path) -> int | None:
        """A compacted copy, and the epoch that it is at."""
        with self._environment.reading() as transaction:
            self._environment.handle.copy(str(folder), compact=True, txn=transaction)
            return _number(transaction.get(_EPOCH, db=self._environment.tables[_META]))

    def _step(self, epoch: int, work: Callable[[Writing], Iterable[pa.Table]]) -> Output:
        meta, output = self._environment.tables[_META], self._environment.tables[_OUTPUT]
        with self._environment.writing() as transaction:
            last = _number(transaction.get(_EPOCH, db=meta))
            self._check_owner(transaction)
            if last is not None and epoch <= last:
                if epoch == last:
                    return Output(self, epoch, None)
                raise _older(self.folder, epoch, last)
            kept: list[pa.Table] | None = []
            number = kept_bytes = 0
            for table in work(Writing(self._environment, transaction, is_first=last is None)):
                if not table.num_rows:
                    continue
                transaction.put(number.to_bytes(4, "big"), _saved(table), db=output)
                number += 1
                kept_bytes += table.nbytes
                kept = [*kept, table] if kept is not None and kept_bytes <= OUTPUT_KEPT_BYTES_MAX else None
            for old in range(number, _number(transaction.get(_CHUNKS, db=meta)) or 0):
                transaction.delete(old.to_bytes(4, "big"), db=output)
            transaction.put(_CHUNKS, str(number).encode(), db=meta)
            transaction.put(_EPOCH, str(epoch).encode(), db=meta)
        return Output(self, epoch, kept)

    def _claim(self, identity: str) -> None:
        meta = self._environment.tables[_META]
        with self._environment.writing() as transaction:
            for name, mine, what in ((_FORMAT, FORMAT, "format"), (_IDENTITY, identity.encode(), "stage")):
                stored = transaction.get(name, db=meta)
                if stored is None:
                    transaction.put(name, mine, db=meta)
                elif stored != mine:
                    raise StateError(
                        f"the state in {self.folder} is of another {what}",
                        detail=f"{stored.decode()}, not {mine.decode()}",
                        hint=REPAIR,
                    )
            self._check_owner(transaction)

    def _check_owner(self, transaction: Any) -> None:
        meta = self._environment.tables[_META]
        stored = _number(transaction.get(_OWNER, db=meta)) or 0
        if stored > self._owner:
            raise StateFenced(
                f"another writer owns the state in {self.folder}",
                detail=f"writer {stored} came after this one, which is {self._owner}",
                hint="headwater status",
            )
        if stored < self._owner:
            transaction.put(_OWNER, str(self._owner).encode(), db=meta)

    def _check_saved(self, transaction: Any, epoch: int) -> None:
        last = _number(transaction.get(_EPOCH, db=self._environment.tables[_META]))
        if last != epoch:
            raise StateError(
                f"the output of epoch {epoch} is no longer saved",
                detail=f"the state in {self.folder} is at {last}",
                hint="headwater status",
            )


def _saved(table: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue()


def _number(stored: bytes | None) -> int | None:
    return None if stored is None else int(stored)


def _older(folder: Path, epoch: int, last: int) -> StateError:
    return StateError(
        f"epoch {epoch} is older than the state",
        detail=f"the state in {folder} is at epoch {last}",
        hint=REPAIR,
    )

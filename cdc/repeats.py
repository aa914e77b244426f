"""Leaves out a row that the connector wrote twice. Pure.

The rows of one COPY or multi-row insert share an LSN. When the connector is cut off behind one of them and goes on, it
may write that row once more, right behind itself: Debezium counts the events at an LSN, and the count can be one short.
A table with a key cannot have the same row inserted twice at one place of Postgres' log, so the second one is no
change. Without a key nobody can tell, and it stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cdc.events import ChangeEvent, DeadLetter, Entry, Op


def without_repeats(entries: Iterable[Entry]) -> Iterator[Entry]:
    last: ChangeEvent | None = None
    for entry in entries:
        if isinstance(entry, ChangeEvent):
            if last is not None and is_repeat(entry, last):
                continue
            last = entry
        elif not isinstance(entry, DeadLetter):
            last = None
        yield entry


def is_repeat(event: ChangeEvent, before: ChangeEvent) -> bool:
    """Whether the event says again what the one before it said."""
    if event.op is not Op.INSERT or before.op is not Op.INSERT or event.key is None or event.xid is None:
        return False
    one, other = ((e.table, e.xid, e.lsn, e.key, e.after) for e in (event, before))
    return one == other

"""Leaves out changes that the connector wrote twice. Pure.

A connector that was cut off inside a transaction is set back to its beginning (resuming.py), and writes its changes
again, under the numbers they had: in a transaction the numbers only grow, so what comes with a number that was there
already is no change.

Where it was not set back (a Connect that is not ours may restart a task by itself) it may write one row of a COPY or
multi-row insert once more, right behind itself and under the next number: Debezium counts the events at an LSN, and
BEGIN among them. A table with a key cannot have the same row inserted twice at one place of Postgres' log, so the
second one is no change. Without a key nobody can tell, and it stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

from cdc.events import ChangeEvent, DeadLetter, Entry, Op

E = TypeVar("E", bound=Entry)


def without_repeats(entries: Iterable[E]) -> Iterator[E]:
    """The entries in their order, or those of one table, without the changes that are none."""
    last: ChangeEvent | None = None
    for entry in entries:
        if isinstance(entry, ChangeEvent):
            if last is not None and (is_behind(entry, last) or is_repeat(entry, last)):
                continue
            if entry.order is not None or last is None:
                last = entry
        elif not isinstance(entry, DeadLetter):
            last = None
        yield entry


def is_behind(event: ChangeEvent, before: ChangeEvent) -> bool:
    """Whether the event has a number that its transaction has passed."""
    if event.order is None or before.order is None or event.xid is None:
        return False
    return event.xid == before.xid and event.order <= before.order


def is_repeat(event: ChangeEvent, before: ChangeEvent) -> bool:
    """Whether the event says again what the one before it said."""
    if event.op is not Op.INSERT or before.op is not Op.INSERT or event.key is None or event.xid is None:
        return False
    one, other = ((e.table, e.xid, e.lsn, e.key, e.after) for e in (event, before))
    return one == other

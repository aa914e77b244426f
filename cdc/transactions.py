"""Puts the entries of the log together into whole transactions. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from cdc.errors import LogError
from cdc.events import Begin, ChangeEvent, DeadLetter, End, Entry
from cdc.position import Position

EVENTS_MAX: Final = 1_000_000
"""The largest transaction that is held in memory as one value."""

Content: TypeAlias = ChangeEvent | DeadLetter


@dataclass(frozen=True, slots=True)
class Transaction:
    """What was committed together: Begin, events, End. What stands outside transactions (a row of a snapshot, a
    message, a record that could not be parsed) is one of its own, without the two."""

    begin: Begin | None
    events: tuple[Content, ...]
    end: End | None

    @property
    def first(self) -> Position:
        return self.begin.position if self.begin else self.events[0].position

    @property
    def last(self) -> Position:
        return self.end.position if self.end else self.events[-1].position


def assemble(entries: Iterable[Entry], *, events_max: int = EVENTS_MAX) -> Iterator[Transaction]:
    """Whole transactions in the order of the entries. The remains of one that began before the first entry, or that
    does not end before the last, are left out.

    Raises LogError where markers do not pair, and for a transaction of more than `events_max` events.
    """
    begin: Begin | None = None
    events: list[Content] = []
    synchronised = False  # from the first marker on, nothing may stand there that its transaction did not announce
    for entry in entries:
        if isinstance(entry, Begin):
            if begin is not None:
                raise _out_of_order(entry, f"transaction {begin.transaction} has not ended")
            begin, events, synchronised = entry, [], True
        elif isinstance(entry, End):
            if begin is not None:
                yield Transaction(begin, tuple(events), entry)
            elif synchronised:
                raise _out_of_order(entry, f"transaction {entry.transaction} has not begun")
            begin, synchronised = None, True
        elif begin is not None:
            events.append(entry)
            if len(events) > events_max:
                raise _too_large(begin, events_max)
        elif _stands_alone(entry):
            yield Transaction(None, (entry,), None)
        elif synchronised:
            raise _out_of_order(entry, "it belongs to a transaction that has not begun")


def _stands_alone(entry: Content) -> bool:
    return isinstance(entry, DeadLetter) or entry.order is None


def _out_of_order(entry: Entry, detail: str) -> LogError:
    return LogError(
        f"the log is out of order at {entry.position}", detail=detail, hint=f"headwater log show {entry.position}"
    )


def _too_large(begin: Begin, events_max: int) -> LogError:
    return LogError(
        f"the transaction at {begin.position} has more than {events_max} events",
        detail="it is too large to be held as one value",
        hint=f"headwater log tail --from {begin.position}",
    )

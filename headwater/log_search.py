"""Finds things in the change log for people: a place by whatever they call it, the last entries, a transaction."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from cdc.changelog import ChangeLog
from cdc.envelope import parse
from cdc.errors import ConfigurationError, LogError
from cdc.events import Begin, ChangeEvent, End, Entry
from cdc.position import Lsn, Position

FIRST_WINDOW: Final = 500
LOOK_BACK_MAX: Final = 1_000_000
"""How many offsets are read backwards for the last entries, or for the beginning of a transaction."""

Wanted = Callable[[Entry], bool]


@dataclass(frozen=True, slots=True)
class Found:
    """One entry, and where the transaction around it begins and ends, as far as the log holds it."""

    entry: Entry
    begin: Begin | None
    end: End | None


def place(log: ChangeLog, text: str) -> Position:
    """A position from earliest, latest, ERA:OFFSET, an LSN, or an ISO time (UTC if it names no zone)."""
    if text == "earliest":
        return log.bounds()[0]
    if text == "latest":
        return log.bounds()[1]
    if "/" in text:
        return log.seek_lsn(Lsn.parse(text))
    if text.replace(":", "", 1).isdecimal() and text.count(":") == 1:
        return Position.parse(text)
    try:
        at = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigurationError(
            f"not a place in the log: {text!r}",
            detail="a place is earliest, latest, ERA:OFFSET, an LSN like 0/1A2B3C, or a time like 2026-01-31T12:00:00Z",
            hint="headwater log tail --help",
        ) from error
    return log.seek_time(at if at.tzinfo else at.replace(tzinfo=UTC))


def last_entries(log: ChangeLog, count: int, wanted: Wanted) -> tuple[list[Entry], Position]:
    """The last entries that are wanted, oldest first, and the position after them."""
    low, high = log.bounds()
    kept: deque[Entry] = deque()
    top, width = high.offset, FIRST_WINDOW
    while len(kept) < count and top > low.offset and high.offset - top < LOOK_BACK_MAX:
        bottom = max(low.offset, top - width)
        window: deque[Entry] = deque(maxlen=count)
        window.extend(entry for entry in _between(log, bottom, top) if wanted(entry))
        kept.extendleft(list(reversed(window))[: count - len(kept)])
        top, width = bottom, width * 2
    return list(kept), high


def find(log: ChangeLog, position: Position) -> Found:
    """The entry at exactly that position. Raises LogError if there is none."""
    record = next(log.read(position, limit=1), None)
    if record is None or record.position != position:
        raise LogError(
            f"there is no record at {position}",
            detail="markers of Kafka's own transactions, and what they aborted, occupy positions too",
            hint=f"headwater log tail --from {position} -n 1",
        )
    entry = parse(record)
    if isinstance(entry, ChangeEvent) and entry.order is None:
        return Found(entry, None, None)
    begin = entry if isinstance(entry, Begin) else _begin_before(log, position)
    end = entry if isinstance(entry, End) else _first_end(log, position)
    return Found(entry, begin, end)


def _first_end(log: ChangeLog, position: Position) -> End | None:
    return next((entry for entry in log.entries(position) if isinstance(entry, End)), None)


def _begin_before(log: ChangeLog, position: Position) -> Begin | None:
    low = log.bounds()[0].offset
    top, width = position.offset, FIRST_WINDOW
    while top > low and position.offset - top < LOOK_BACK_MAX:
        bottom = max(low, top - width)
        last = None
        for entry in _between(log, bottom, top):
            if isinstance(entry, Begin):
                last = entry
        if last is not None:
            return last
        top, width = bottom, width * 2
    return None


def _between(log: ChangeLog, start: int, end: int) -> Iterator[Entry]:
    """By offset, whatever era they are of."""
    return log.entries(log.position(start), log.position(end))

"""Where an epoch may end: just after a record that completes a transaction. Pure, over a log that it only asks to scan.

Between the last boundary at or before the read limit and the limit itself there can only be the beginning of a
transaction, so the search goes backwards from the limit in growing windows and reads little even if the epoch is large.
A transaction larger than the limit is taken whole: the search then goes forwards to its end. A transaction that is not
complete yet is waited for, and what is known not to hold a boundary is not read again.

Some transactions tell apart what comes after them from what came before: who saves a search sees just the changes after
it. Who minds reads the log forwards, each record once, and the epoch ends there. Who tells nobody does not, and reads
just the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Protocol

FIRST_WINDOW: Final = 1024


class Mark(Enum):
    """What a record means for the bounds of transactions."""

    OPENS = "opens"
    """BEGIN."""
    CLOSES = "closes"
    """END."""
    CUTS = "cuts"
    """END of a transaction that an epoch is to end with."""
    PARTS = "parts"
    """END of a transaction that is to be an epoch by itself."""
    ALONE = "alone"
    """A row of the initial snapshot: outside transactions, whole by itself."""
    INSIDE = "inside"
    """Anything else: it belongs to what the next END closes."""

    @property
    def completes(self) -> bool:
        return self in (Mark.CLOSES, Mark.CUTS, Mark.PARTS, Mark.ALONE)

    @property
    def begins(self) -> bool:
        return self in (Mark.OPENS, Mark.ALONE)


class Marks(Protocol):
    """A log that can be scanned."""

    def scan(self, start: int, end: int) -> Iterable[tuple[int, Mark]]:
        """The records with offsets in [start, end), in order; not every offset has one."""
        ...


@dataclass(frozen=True, slots=True)
class EpochEnd:
    end: int
    """The epoch is [start, end); it is empty, end == start, while no transaction is complete."""
    clear_to: int
    """There is no boundary in [end, clear_to): the next search need not look there."""
    is_cut: bool = False
    """It ends with a transaction that cuts, and something may follow."""


def epoch_end(
    log: Marks, start: int, high: int, rows_max: int | None, *, clear_to: int = 0, cut_min: int | None = None
) -> EpochEnd:
    """The end of the epoch that begins at the boundary `start`, in a log that ends at `high`.

    Every record of the epoch belongs to a transaction that is complete in it. It has at most `rows_max` records unless
    its first transaction alone has more. `clear_to` is what an earlier search for the same start returned. With
    `cut_min` a transaction that parts is an epoch by itself, and one of so many records ends with the next that cuts.
    """
    known = max(start, clear_to)
    limit = high if rows_max is None else min(high, start + rows_max)
    if cut_min is not None:
        near = _cut(log, known, limit, start + cut_min)
    else:
        last = _last_boundary(log, known, limit)
        near = None if last is None else EpochEnd(last, last)
    if near is not None:
        return near
    first = _first_boundary(log, max(known, limit), high)
    return EpochEnd(start, max(known, high)) if first is None else EpochEnd(first, first)


def whole_start(log: Marks, low: int, high: int) -> int | None:
    """The first offset at or after `low`, where the log was cut off, from which on every transaction is whole; None if
    all that is left is the inside of one."""
    for offset, mark in log.scan(low, high):
        if mark.begins:
            return offset
        if mark.completes:
            return offset + 1
    return None


def is_whole_start(log: Marks, low: int, offset: int, high: int) -> bool:
    """Whether a reader that starts at `offset` sees whole transactions only, in a log that holds [low, high)."""
    following = next(iter(log.scan(offset, high)), None)
    if following is not None and following[1].begins:
        return True
    preceding = _last_record(log, low, offset)
    return preceding is not None and preceding[1].completes


def _cut(log: Marks, floor: int, limit: int, cut_from: int) -> EpochEnd | None:
    """The first offset in (floor, limit] to cut at, or else the last that is a boundary, or None."""
    boundary: int | None = None
    newest: int | None = None
    for offset, mark in log.scan(floor, limit):
        newest = offset
        if not mark.completes:
            continue
        if mark is Mark.PARTS and boundary is not None:
            return EpochEnd(boundary + 1, boundary + 1)
        boundary = offset
        is_cut = mark is Mark.CUTS and offset + 1 >= cut_from
        if is_cut or mark is Mark.PARTS:
            return EpochEnd(offset + 1, offset + 1, is_cut)
    if boundary is None:
        return None
    end = _with_markers(boundary, newest, limit)
    return EpochEnd(end, end)


def _last_boundary(log: Marks, floor: int, limit: int) -> int | None:
    """The last offset in (floor, limit] that is a boundary, or None."""
    top, width, nothing_after = limit, FIRST_WINDOW, True
    while top > floor:
        bottom = max(floor, top - width)
        boundary: int | None = None
        newest: int | None = None
        for offset, mark in log.scan(bottom, top):
            newest = offset
            if mark.completes:
                boundary = offset
        if boundary is not None:
            return _with_markers(boundary, newest, limit) if nothing_after else boundary + 1
        nothing_after = nothing_after and newest is None
        top, width = bottom, width * 2
    return None


def _with_markers(boundary: int, newest: int | None, limit: int) -> int:
    """When only markers of Kafka's own follow, they go along: a reader at rest then stands at the log's end."""
    return limit if newest == boundary else boundary + 1


def _first_boundary(log: Marks, start: int, high: int) -> int | None:
    return next((offset + 1 for offset, mark in log.scan(start, high) if mark.completes), None)


def _last_record(log: Marks, low: int, offset: int) -> tuple[int, Mark] | None:
    top, width = offset, FIRST_WINDOW
    while top > low:
        bottom = max(low, top - width)
        last = None
        for last in log.scan(bottom, top):  # noqa: B007
            pass
        if last is not None:
            return last
        top, width = bottom, width * 2
    return None

"""Whether a match is worth telling, and why it is told: against what was last told of the item. Pure.

A watched column has dropped or risen when it is away from the last told value by the threshold, whatever it did in
between: a price that goes down and up around a threshold is told once. Whatever is told of an item tells its value.
Before anything was told the value before the change counts, and is remembered, so that many small steps add up.

A row that enters again soon after it was told to have entered is no news, unless its owner was told that it left, or
the watched column moved since as they want it: a price at the edge of a budget is told once, and so is stock that
comes and goes. Soon is between two commits, not by a clock, so whoever judges a change again says the same.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from alerts.differing import is_same
from alerts.saved_search import MOVES, Wish

Row = Mapping[str, Any]
COLUMNS_NAMED_MAX: Final = 10
REENTER_S: Final = 3_600
"""A row that enters again within that time is not told again, unless its search says otherwise."""
_decoder: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)
_value: Final = msgspec.json.Decoder(float_hook=Decimal)
_columns: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Memory(NamedTuple):
    """What counts as told of an item, to one search."""

    value: Decimal | None = None
    """Of the watched column; None: nothing."""
    entered_at: datetime | None = None
    """The commit by which it last was told to have entered; None when it was told to have left since."""


class Judgement(NamedTuple):
    reasons: dict[str, str]
    """By event: those that are told."""
    memory: Memory
    """From now on."""


NOTHING: Final = Memory()


def decoded(row: bytes | None) -> Row | None:
    """Without columns that cannot be read, such as a number of thousands of digits: nobody is told how those moved."""
    if row is None:
        return None
    try:
        return _decoder.decode(row)
    except msgspec.ValidationError:
        return dict(_readable(_columns.decode(row)))


def _readable(columns: Mapping[str, msgspec.Raw]) -> Iterator[tuple[str, Any]]:
    for name, value in columns.items():
        with suppress(msgspec.ValidationError):
            yield name, _value.decode(value)


def judged(
    wish: Wish,
    events: Iterable[str],
    before: Row | None,
    after: Row | None,
    memory: Memory = NOTHING,
    at: datetime | None = None,
    reenter_s: float = REENTER_S,
) -> Judgement:
    """The events of one change of one item, committed at that time, for one search. `reenter_s` is for those that say
    nothing of it themselves."""
    column = wish.watched_column
    old, new = (number(row, column) for row in (before, after))
    events = list(events)
    if memory.value is None and not any(event not in MOVES or _has_stepped(event, old, new) for event in events):
        return Judgement({}, memory)  # it only came to match, or to be known: what it was before is not remembered
    base = old if memory.value is None else memory.value
    moved = {move for move in MOVES if base is not None and new is not None and _has_moved(wish, move, base, new)}
    since_s = None if at is None or memory.entered_at is None else (at - memory.entered_at).total_seconds()
    is_soon = since_s is not None and since_s < window_s(wish, reenter_s)
    reasons = {}
    for event in events:
        if event in MOVES:
            if event in moved:
                reasons[event] = f"{column} {event} from {base} to {new}"
        elif event != "entered" or not is_soon or not moved.isdisjoint(wish.events):
            reasons[event] = reason(event, wish.columns, before, after)
    return Judgement(reasons, remembered(Memory(base, memory.entered_at), reasons, new, at))


def window_s(wish: Wish, reenter_s: float) -> float:
    """How soon a row that enters again is no news; `reenter_s` where the search does not say."""
    return reenter_s if wish.reenter_s is None else float(wish.reenter_s)


def remembered(memory: Memory, events: Collection[str], value: Decimal | None, at: datetime | None) -> Memory:
    """After these events were told, with that value of the watched column."""
    tells = value is not None and any(event != "left" for event in events)
    entered_at = at if "entered" in events else None if "left" in events else memory.entered_at
    return Memory(value if tells else memory.value, entered_at)


def _has_stepped(event: str, old: Decimal | None, new: Decimal | None) -> bool:
    return old is not None and new is not None and (new < old if event == "dropped" else new > old)


def _has_moved(wish: Wish, event: str, base: Decimal, new: Decimal) -> bool:
    moved = base - new if event == "dropped" else new - base
    least = wish.threshold or Decimal(0)
    if wish.threshold_unit == "percent":
        return moved > 0 and moved * 100 >= least * abs(base)
    return moved > 0 and moved >= least


def reason(event: str, columns: Collection[str], before: Row | None, after: Row | None) -> str:
    """Of an event that hangs on nothing that was told before; `columns` are those that `changed` is narrowed to."""
    if event == "changed":
        names = [name for name, value in (after or {}).items() if not is_same((before or {}).get(name), value)]
        named = [name for name in names if not columns or name in columns]
        more = len(named) - COLUMNS_NAMED_MAX
        return f"changed: {', '.join(named[:COLUMNS_NAMED_MAX])}" + (f" and {more} more" if more > 0 else "")
    if event == "left":
        return "is gone" if after is None else "no longer matches"
    return "is new" if before is None else "matches now"


def number(row: Row | None, column: str | None) -> Decimal | None:
    """NaN and infinity are written as text, and compare with nothing here."""
    value = None if row is None or column is None else row.get(column)
    return Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None

"""Whether a match is worth telling, and why it is told: against what was last told of the item. Pure.

A watched column has dropped or risen when it is away from the last told value by the threshold, whatever it did in
between: a price that goes down and up around a threshold is told once. Whatever is told of an item tells its value.
Before anything was told the value before the change counts, and is remembered, so that many small steps add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from alerts.saved_search import MOVES, Wish

Row = Mapping[str, Any]
COLUMNS_NAMED_MAX: Final = 10
_decoder: Final = msgspec.json.Decoder(dict[str, Any], float_hook=Decimal)


class Judgement(NamedTuple):
    reasons: dict[str, str]
    """By event: those that are told."""
    told: Decimal | None
    """What counts as told from now on; None: nothing."""


def decoded(row: bytes | None) -> Row | None:
    return None if row is None else _decoder.decode(row)


def judged(wish: Wish, events: Iterable[str], before: Row | None, after: Row | None, told: Decimal | None) -> Judgement:
    """The events of one change of one item, for one search."""
    column = wish.watched_column
    old, new = (_number(row, column) for row in (before, after))
    base = old if told is None else told
    reasons = {}
    for event in events:
        if event not in MOVES:
            reasons[event] = _reason(event, wish, before, after)
        elif column is not None and base is not None and new is not None and _has_moved(wish, event, base, new):
            reasons[event] = f"{column} {event} from {base} to {new}"
    tells = new is not None and any(event != "left" for event in reasons)
    return Judgement(reasons, new if tells else base)


def _has_moved(wish: Wish, event: str, base: Decimal, new: Decimal) -> bool:
    moved = base - new if event == "dropped" else new - base
    least = wish.threshold or Decimal(0)
    if wish.threshold_unit == "percent":
        return moved > 0 and moved * 100 >= least * abs(base)
    return moved > 0 and moved >= least


def _reason(event: str, wish: Wish, before: Row | None, after: Row | None) -> str:
    if event == "changed":
        names = [name for name in (after or {}) if (before or {}).get(name) != (after or {})[name]]
        named = [name for name in names if not wish.columns or name in wish.columns]
        more = len(named) - COLUMNS_NAMED_MAX
        return f"changed: {', '.join(named[:COLUMNS_NAMED_MAX])}" + (f" and {more} more" if more > 0 else "")
    if event == "left":
        return "is gone" if after is None else "no longer matches"
    return "is new" if before is None else "matches now"


def _number(row: Row | None, column: str | None) -> Decimal | None:
    """NaN and infinity are written as text, and compare with nothing here."""
    value = None if row is None or column is None else row.get(column)
    return Decimal(value) if isinstance(value, int | Decimal) and not isinstance(value, bool) else None

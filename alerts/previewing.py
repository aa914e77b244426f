"""What a wish would have told of the past: versions of rows, in their order ▶ events, counted. Pure.

By the same evaluator and the same judgement of moves as the real thing, so a preview is what would have been recorded.
What is relative to now in a query means the moment of the preview. Nothing is grouped, postponed or capped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

from alerts.moves import decoded, judged
from alerts.saved_search import MOVES, Wish
from search import evaluate
from search.index import IndexDefinition, decode_row
from search.query import resolve
from search.query_json import from_json


@dataclass(frozen=True, slots=True)
class Version:
    key: Any
    row: bytes | None
    """As JSON; None when it is gone."""
    is_news: bool = True
    """Not what was there before the time that is looked at."""


def count_events(wish: Wish, versions: Iterable[Version], definition: IndexDefinition, now: datetime) -> dict[str, int]:
    """By event that the wish wants. The versions of a key come together, oldest first."""
    holds = evaluate.compile(resolve(from_json(wish.query, definition), now), definition)
    counted: Counter[str] = Counter(dict.fromkeys(wish.events, 0))
    key, before, told = object(), None, None
    for version in versions:
        if version.key != key:
            key, before, told = version.key, None, None
        if version.is_news:
            matched = [row is not None and holds(decode_row(definition, row)) for row in (before, version.row)]
            events = list(_events(wish, before, version.row, *matched))
            verdict = judged(wish, events, decoded(before), decoded(version.row), told)
            counted.update(verdict.reasons.keys())
            told = verdict.told if events else told
        before = version.row
    return dict(counted)


def _events(wish: Wish, before: bytes | None, after: bytes | None, matched: bool, matches: bool) -> Iterator[str]:
    """What the matcher says of one change, of the events wanted."""
    if "entered" in wish.events and matches and not matched:
        yield "entered"
    if "left" in wish.events and matched and not matches:
        yield "left"
    if not matches or before is None or after is None:
        return
    old, new = decoded(before) or {}, decoded(after) or {}
    names = wish.columns or tuple(new)
    if "changed" in wish.events and matched and any(old.get(name) != new.get(name) for name in names):
        yield "changed"
    yield from (move for move in MOVES if move in wish.events and _went(move, wish, old, new))


def _went(move: str, wish: Wish, old: Any, new: Any) -> bool:
    was, is_ = (row.get(wish.watched_column) for row in (old, new))
    if not isinstance(was, int | Decimal) or not isinstance(is_, int | Decimal):
        return False
    return is_ < was if move == "dropped" else is_ > was

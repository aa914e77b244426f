"""What a wish would have told of the past: versions of rows, in their order ▶ events, counted. Pure.

By the same evaluator and the same judgement of moves as the real thing, so a preview is what would have been recorded.
What is relative to now in a query means the moment of the commit, as there. Nothing is grouped, postponed or capped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any

from alerts.differing import differs
from alerts.moves import NOTHING, REENTER_S, decoded, judged
from alerts.quiet import Stretch
from alerts.saved_search import MOVES, Wish
from search import evaluate
from search.index import IndexDefinition, decode_row
from search.query import is_relative, resolve
from search.query_json import from_json


@dataclass(frozen=True, slots=True)
class Version:
    key: Any
    row: bytes | None
    """As JSON; None when it is gone."""
    is_news: bool = True
    """Not what was there before the time that is looked at."""
    committed_at: datetime | None = None


def count_events(
    wish: Wish,
    versions: Iterable[Version],
    definition: IndexDefinition,
    now: datetime,
    reenter_s: float = REENTER_S,
) -> dict[str, int]:
    """By event that the wish wants. The versions of a key come together, oldest first. `now` is for those without an
    instant of their own."""
    holds_at = _evaluator(wish, definition)
    counted: Counter[str] = Counter(dict.fromkeys(wish.events, 0))
    key, before, memory = object(), None, NOTHING
    for version in versions:
        if version.key != key:
            key, before, memory = version.key, None, NOTHING
        if version.is_news:
            holds = holds_at(version.committed_at or now)
            matched = [row is not None and holds(decode_row(definition, row)) for row in (before, version.row)]
            events = list(_events(wish, before, version.row, *matched))
            rows = decoded(before), decoded(version.row)
            reasons, then = judged(wish, events, *rows, memory, version.committed_at, reenter_s)
            counted.update(reasons.keys())
            memory = then if events else memory
        before = version.row
    return dict(counted)


def unless_quiet(versions: Iterable[Version], stretches: Sequence[Stretch]) -> Iterator[Version]:
    """What was committed in a stretch that nobody is told of is no news: by the clock, for a preview."""
    for version in versions:
        at = version.committed_at
        is_quiet = at is not None and any(
            each.began_at <= at and (each.ended_at is None or at <= each.ended_at) for each in stretches
        )
        yield replace(version, is_news=False) if is_quiet and version.is_news else version


def _evaluator(wish: Wish, definition: IndexDefinition) -> Callable[[datetime], evaluate.Predicate]:
    query = from_json(wish.query, definition)
    if not is_relative(query):
        always = evaluate.compile(query, definition)
        return lambda _at: always
    return lru_cache(maxsize=1)(lambda at: evaluate.compile(resolve(query, at), definition))


def _events(wish: Wish, before: bytes | None, after: bytes | None, matched: bool, matches: bool) -> Iterator[str]:
    """What the matcher says of one change, of the events wanted."""
    if "entered" in wish.events and matches and not matched:
        yield "entered"
    if "left" in wish.events and matched and not matches:
        yield "left"
    if not matches or before is None or after is None:
        return
    old, new = decoded(before) or {}, decoded(after) or {}
    if "changed" in wish.events and matched and differs(wish.columns, old, new):
        yield "changed"
    yield from (move for move in MOVES if move in wish.events and _may_have_gone(move, wish, old, new, matched))


def _may_have_gone(move: str, wish: Wish, old: Any, new: Any, matched: bool) -> bool:
    was, is_ = (row.get(wish.watched_column) for row in (old, new))
    if not isinstance(is_, int | Decimal):
        return False
    if was is None or not matched:
        return True
    if not isinstance(was, int | Decimal):
        return False
    return is_ < was if move == "dropped" else is_ > was

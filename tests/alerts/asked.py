"""Subscriptions and deltas drawn over the market of tests/search."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from alerts.subscription import Watched
from search.index import decode_row
from search.instants import Relative
from search.kinds import Kind
from search.query import And, AnyOf, Equals, Not, Or, Query, Range
from search.query_check import check
from tests.search import market

DEFINITION = market.DEFINITION
_STEPS = ("now", "now-1d", "now-1M", "now+1s", "now-20y")
_INSTANTS = {"day": Kind.DATE, "at": Kind.TIMESTAMP, "seen": Kind.TIMESTAMPTZ}


@st.composite
def relative_clauses(draw: st.DrawFn) -> Query:
    field = draw(st.sampled_from(sorted(_INSTANTS)))
    at = Relative(draw(st.sampled_from(_STEPS)), _INSTANTS[field])
    made = [Range(field, low=at), Range(field, high=at, high_open=True), Equals(field, at), AnyOf(field, (at,))]
    return draw(st.sampled_from(made))


_narrow = st.lists(market.clauses, min_size=2, max_size=4).map(lambda clauses: And(tuple(clauses)))
_wide = st.lists(
    st.lists(market.clauses, min_size=3, max_size=3).map(lambda clauses: Or(tuple(clauses))), min_size=3, max_size=3
).map(lambda clauses: And(tuple(clauses)))
"""More alternatives than a query is spread into."""
queries: st.SearchStrategy[Query] = st.one_of(
    market.queries,
    _narrow,
    _wide,
    _wide.map(Not),
    relative_clauses(),
    st.tuples(market.clauses, relative_clauses()).map(And),
    st.tuples(market.clauses, relative_clauses()).map(Or),
).map(lambda query: check(query, DEFINITION))

_columns = st.lists(st.sampled_from(["price", "title", "tags", "doc", "seen"]), max_size=2).map(tuple)
_moving = st.lists(st.sampled_from(["price", "ratio", "loose", "title", "scores", "day"]), max_size=2).map(tuple)
watched = st.builds(
    Watched,
    entered=st.booleans(),
    left=st.booleans(),
    changed=st.booleans(),
    columns=_columns,
    dropped=_moving,
    rose=_moving,
)
ALL = Watched(True, True, True, (), ("price", "ratio"), ("price", "loose"))


def row(seed: int) -> dict[str, Any]:
    return decode_row(DEFINITION, market.row(seed))


@st.composite
def changes(draw: st.DrawFn) -> tuple[Any, Any]:
    """Inserts, deletes, rows that became another, and rows of which a few columns did."""
    seed = st.integers(0, 2**32)
    before, after = row(draw(seed)), row(draw(seed))
    sort = draw(st.sampled_from(["insert", "delete", "other", "some", "some"]))
    if sort == "insert":
        return None, after
    if sort == "delete":
        return before, None
    if sort == "some":
        few = draw(st.sets(st.sampled_from(sorted(before)), max_size=3))
        after = {**before, **{name: after[name] for name in few}}
    return before, after

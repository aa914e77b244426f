"""Joins: which conditions are keys, which are filters of one side, which are left over. Pure.

A join needs an equality between its sides, unless one of them is a single row: without one, every change would be
compared with every row.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from cdc.errors import ViewRefused
from views.plan import JoinKind, Node
from views.refusals import Reason, refusal
from views.sql import nodes
from views.sql.context import Context, Relation
from views.sql.keys import NOTHING, keys_of
from views.sql.typed import columns_in, conjunction, type_of

Pair = tuple[exp.Expression, exp.Expression]


def equi_key(condition: exp.Expression, left: Iterable[str], right: Iterable[str]) -> Pair | None:
    """(left's side, right's side) of an equality between the two; None if it is not one."""
    if not isinstance(condition, exp.EQ) or isinstance(condition.expression, exp.Any):
        return None
    if not type_of(condition.this).is_key:
        return None
    ours, theirs = frozenset(left), frozenset(right)
    one, other = columns_in(condition.this), columns_in(condition.expression)
    if one and other and one <= ours and other <= theirs:
        return condition.this, condition.expression
    if one and other and one <= theirs and other <= ours:
        return condition.expression, condition.this
    return None


def connected(
    relations: Sequence[Relation], conditions: Iterable[exp.Expression], context: Context, at: exp.Expression
) -> Relation:
    """All relations joined, all conditions applied, each as early as it can be."""
    waiting = list(relations)
    left_over = list(conditions)
    for place, relation in enumerate(waiting):
        own = [c for c in left_over if columns_in(c) and relation.has(c)]
        left_over = [c for c in left_over if c not in own]
        waiting[place] = relation.over(nodes.filtered(relation.node, own))
    current = waiting.pop(0)
    while waiting:
        place = _next(current, waiting, left_over, context, at)
        current, left_over = _inner(current, waiting.pop(place), left_over)
    return current.over(nodes.filtered(current.node, left_over))


def _next(
    current: Relation,
    waiting: Sequence[Relation],
    conditions: Sequence[exp.Expression],
    context: Context,
    at: exp.Expression,
) -> int:
    """The first that an equality connects; else one that is a single row, or that stands beside one."""
    for place, relation in enumerate(waiting):
        if any(equi_key(c, current.node.names, relation.node.names) for c in conditions):
            return place
    for place, relation in enumerate(waiting):
        if is_single(relation.node, context) or is_single(current.node, context):
            return place
    raise _cross_join(at)


def _cross_join(at: exp.Expression) -> ViewRefused:
    return refusal(
        Reason.NON_EQUI_JOIN,
        "a join without an equality between its sides",
        at,
        detail="every row of one side would be compared with every row of the other at each change",
        hint="JOIN … ON a.x = b.y, with other conditions beside it",
    )


def is_single(node: Node, context: Context) -> bool:
    """At most one row."""
    return NOTHING in keys_of(node, context.catalog).candidates


def _inner(left: Relation, right: Relation, conditions: list[exp.Expression]) -> tuple[Relation, list[exp.Expression]]:
    keys = {id(c): equi_key(c, left.node.names, right.node.names) for c in conditions}
    pairs = [pair for pair in keys.values() if pair is not None]
    node: Node = nodes.joined(JoinKind.INNER, left.node, right.node, pairs)
    rest = [c for c in conditions if keys[id(c)] is None]
    names = set(node.names)
    ready = [c for c in rest if columns_in(c) and columns_in(c) <= names]
    node = nodes.filtered(node, ready)
    return _both(left, right, node), [c for c in rest if c not in ready]


def _both(left: Relation, right: Relation, node: Node) -> Relation:
    return Relation(
        node,
        (*left.sources, *right.sources),
        {**left.merged, **right.merged},
        (*left.correlations, *right.correlations),
        (*left.residuals, *right.residuals),
    )


def outer_joined(
    kind: JoinKind,
    left: Relation,
    right: Relation,
    conditions: Iterable[exp.Expression],
    context: Context,
    at: exp.Expression,
) -> Relation:
    """A condition on the side that is filled with NULLs filters it first; one on the other side decides the match."""
    if left.correlations or right.correlations or left.residuals or right.residuals:
        raise refusal(
            Reason.SUBQUERY, "an outer join inside a correlated subquery", at, hint="join on the key in FROM instead"
        )
    pairs, rest = [], []
    left_only, right_only = [], []
    for condition in conditions:
        pair = equi_key(condition, left.node.names, right.node.names)
        if pair is not None:
            pairs.append(pair)
        elif not columns_in(condition) and isinstance(condition, exp.Boolean) and condition.this:
            continue
        elif kind is JoinKind.LEFT and right.has(condition):
            right_only.append(condition)
        elif kind is JoinKind.RIGHT and left.has(condition):
            left_only.append(condition)
        else:
            rest.append(condition)
    a, b = nodes.filtered(left.node, left_only), nodes.filtered(right.node, right_only)
    if (
        not pairs
        and not (is_single(a, context) and kind is not JoinKind.LEFT)
        and not (is_single(b, context) and kind is not JoinKind.RIGHT)
    ):
        raise _cross_join(at)
    node = nodes.joined(kind, a, b, pairs, conjunction(rest))
    return _with_nulls(_both(left, right, node), kind, left, right)


def _with_nulls(relation: Relation, kind: JoinKind, left: Relation, right: Relation) -> Relation:
    """Columns of a side that may be filled with NULLs may be NULL."""
    filled = set()
    if kind in (JoinKind.LEFT, JoinKind.FULL):
        filled |= set(right.node.names)
    if kind in (JoinKind.RIGHT, JoinKind.FULL):
        filled |= set(left.node.names)

    def nulled(value: exp.Expression) -> exp.Expression:
        copy = value.copy()
        for part in copy.walk():
            if isinstance(part, exp.Column) and part.name in filled:
                part.meta["nullable"] = True
        if columns_in(copy) & filled:
            copy.meta["nullable"] = True
        return copy

    sources = tuple(replace(s, columns={n: nulled(v) for n, v in s.columns.items()}) for s in relation.sources)
    return replace(relation, sources=sources, merged={n: nulled(v) for n, v in relation.merged.items()})

"""Filters go down to where they drop rows before state is kept of them. The rows of the plan stay the same."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from sqlglot import exp

from views.plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    JoinKind,
    Node,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Window,
)
from views.sql import nodes
from views.sql.context import Context
from views.sql.joins import equi_key
from views.sql.sharing import shared_nodes
from views.sql.typed import columns_in, conjuncts, substitute

Predicates = Sequence[exp.Expression]


def push_filters(root: Node, context: Context) -> Node:
    return _Pushing(shared_nodes(root)).pushed(root, [])


class _Pushing:
    def __init__(self, shared: frozenset[Node]) -> None:
        self.shared = shared

    def pushed(self, node: Node, predicates: Predicates) -> Node:
        """The node with the predicates applied to its rows, as far down as they can be."""
        if predicates and node in self.shared:
            # Used elsewhere without these filters: they stay above it, so that it stays one.
            return nodes.filtered(self.pushed(node, []), predicates)
        return _RULES[type(node)](self, node, list(predicates))


def _scan(push: _Pushing, node: Node, predicates: list[exp.Expression]) -> Node:
    return nodes.filtered(node, predicates)


def _filter(push: _Pushing, node: Node, predicates: list[exp.Expression]) -> Node:
    assert isinstance(node, Filter)
    return push.pushed(node.input, [*conjuncts(node.predicate), *predicates])


def _project(push: _Pushing, node: Node, predicates: list[exp.Expression]) -> Node:
    assert isinstance(node, Project)
    values = dict(node.columns)
    below = [substitute(predicate, values) for predicate in predicates]
    return nodes.projected(push.pushed(node.input, below), node.columns)


def _aggregate(push: _Pushing, node: Node, predicates: list[exp.Expression]) -> Node:
    assert isinstance(node, Aggregate)
    groups = dict(node.groups)
    below, above = _split(predicates, groups if groups else ())
    inner = push.pushed(node.input, [substitute(predicate, groups) for predicate in below])
    return nodes.filtered(nodes.aggregated(inner, node.groups, node.aggregates), above)


def _distinct(push: _Pushing, node: Node, predicates: list[exp.Expression]) -> Node:
    assert isinstance(node, Distinct)
    return nodes.distinct(push.pushed(node.input, predicates))


def _top(push: _Pushing, node: Node, predicates: list[exp.Expression]) -> Node:
    """Whole partitions may be dropped before, rows of one may not."""
    assert isinstance(node, TopK)
    below, above = _split(predicates, [part.name for part in node.partition if isinstance(part, exp.Column)])
    inner = push.pushed(node.input, below)
    return nodes.filtered(nodes.top(inner, node.partition, node.order, node.limit, node.offset), above)


def _window(push: _Pushing, node: Node, predicates: list[exp.Expression]) -> Node:
    assert isinstance(node, Window)
    below, above = _split(predicates, [part.name for part in node.partition if isinstance(part, exp.Column)])
    return nodes.filtered(nodes.windowed(push.pushed(node.input, below), node.partition, node.columns), above)


def _union(push: _Pushing, node: Node, predicates: list[exp.Expression]) -> Node:
    assert isinstance(node, UnionAll)
    return nodes.united([push.pushed(branch, predicates) for branch in node.branches])


def _semi_join(push: _Pushing, node: Node, predicates: list[exp.Expression]) -> Node:
    assert isinstance(node, SemiJoin)
    left, right = push.pushed(node.left, predicates), push.pushed(node.right, [])
    return replace(node, left=left, right=right, fields=left.fields)


def _join(push: _Pushing, node: Node, predicates: list[exp.Expression]) -> Node:
    assert isinstance(node, Join)
    pairs = list(zip(node.left_keys, node.right_keys, strict=True))
    if node.kind is JoinKind.INNER:
        predicates += conjuncts(node.residual)
    to_left, rest = _split(predicates, node.left.names if node.kind in (JoinKind.INNER, JoinKind.LEFT) else ())
    to_right, rest = _split(rest, node.right.names if node.kind in (JoinKind.INNER, JoinKind.RIGHT) else ())
    if node.kind is JoinKind.INNER:
        found = [(p, equi_key(p, node.left.names, node.right.names)) for p in rest]
        pairs += [pair for _, pair in found if pair is not None]
        rest = [p for p, pair in found if pair is None]
    left, right = push.pushed(node.left, to_left), push.pushed(node.right, to_right)
    residual = None if node.kind is JoinKind.INNER else node.residual
    return nodes.filtered(nodes.joined(node.kind, left, right, pairs, residual), rest)


def _split(
    predicates: Predicates, names: Sequence[str] | dict[str, exp.Expression]
) -> tuple[list[exp.Expression], list[exp.Expression]]:
    """Those that read these columns only, and the others."""
    known = frozenset(names)
    below = [p for p in predicates if columns_in(p) and columns_in(p) <= known]
    return below, [p for p in predicates if not (columns_in(p) and columns_in(p) <= known)]


_RULES: Final[dict[type[Node], Callable[[_Pushing, Node, list[exp.Expression]], Node]]] = {
    Scan: _scan,
    Filter: _filter,
    Project: _project,
    Aggregate: _aggregate,
    Distinct: _distinct,
    TopK: _top,
    Window: _window,
    UnionAll: _union,
    SemiJoin: _semi_join,
    Join: _join,
}

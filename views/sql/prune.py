"""Columns that nobody reads are dropped as early as they can be: mirrors and arrangements hold only what is used."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Final, TypeAlias

from sqlglot import exp

from views.plan import (
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
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
from views.sql.sharing import shared_nodes
from views.sql.typed import column, columns_in

Names: TypeAlias = frozenset[str]


def prune_columns(root: Node, context: Context) -> Node:
    return _Pruning(context, shared_nodes(root)).pruned(root, frozenset(root.names))


class _Pruning:
    def __init__(self, context: Context, shared: frozenset[Node]) -> None:
        self.context = context
        self.shared = shared

    def pruned(self, node: Node, needed: Names) -> Node:
        """The node with the needed columns, and perhaps a few that it cannot do without."""
        # All uses of a shared node see the same columns, so that it stays one.
        return _RULES[type(node)](self, node, frozenset(node.names) if node in self.shared else needed)


def _read(expressions: Iterable[exp.Expression | None]) -> Names:
    return frozenset().union(*(columns_in(e) for e in expressions if e is not None))


def _scan(prune: _Pruning, node: Node, needed: Names) -> Node:
    assert isinstance(node, Scan)
    kept = [(f, c) for f, c in zip(node.fields, node.columns, strict=True) if f.name in needed]
    if not kept:
        kept = _narrowest(prune, node)
    return replace(node, fields=tuple(f for f, _ in kept), columns=tuple(c for _, c in kept))


def _narrowest(prune: _Pruning, node: Scan) -> list[tuple[Field, str]]:
    """A scan of which only the number of rows is asked keeps its key, or its first column."""
    key = prune.context.catalog.table(node.table).key
    pairs = list(zip(node.fields, node.columns, strict=True))
    return [pair for pair in pairs if pair[1] in key][:1] or pairs[:1]


def _filter(prune: _Pruning, node: Node, needed: Names) -> Node:
    assert isinstance(node, Filter)
    inner = prune.pruned(node.input, needed | columns_in(node.predicate))
    return replace(node, input=inner, fields=inner.fields)


def _project(prune: _Pruning, node: Node, needed: Names) -> Node:
    assert isinstance(node, Project)
    kept = [(name, value) for name, value in node.columns if name in needed] or list(node.columns[:1])
    return nodes.projected(prune.pruned(node.input, _read(value for _, value in kept)), kept)


def _aggregate(prune: _Pruning, node: Node, needed: Names) -> Node:
    assert isinstance(node, Aggregate)
    kept = [(name, value) for name, value in node.aggregates if name in needed]
    if not kept and not node.groups:
        kept = list(node.aggregates[:1])
    read = _read(value for _, value in (*node.groups, *kept))
    return nodes.aggregated(prune.pruned(node.input, read), node.groups, kept)


def _distinct(prune: _Pruning, node: Node, needed: Names) -> Node:
    assert isinstance(node, Distinct)
    return nodes.distinct(prune.pruned(node.input, frozenset(node.names)))


def _top(prune: _Pruning, node: Node, needed: Names) -> Node:
    assert isinstance(node, TopK)
    inner = prune.pruned(node.input, needed | _read((*node.partition, *node.order)))
    return replace(node, input=inner, fields=inner.fields)


def _window(prune: _Pruning, node: Node, needed: Names) -> Node:
    assert isinstance(node, Window)
    kept = [(name, value) for name, value in node.columns if name in needed]
    read = (needed & frozenset(node.input.names)) | _read((*node.partition, *(value for _, value in kept)))
    if not kept:
        return prune.pruned(node.input, needed)
    return nodes.windowed(prune.pruned(node.input, read), node.partition, kept)


def _join(prune: _Pruning, node: Node, needed: Names) -> Node:
    assert isinstance(node, Join)
    wanted = needed | _read((*node.left_keys, *node.right_keys, node.residual))
    left = prune.pruned(node.left, wanted & frozenset(node.left.names))
    right = prune.pruned(node.right, wanted & frozenset(node.right.names))
    return nodes.joined(node.kind, left, right, zip(node.left_keys, node.right_keys, strict=True), node.residual)


def _semi_join(prune: _Pruning, node: Node, needed: Names) -> Node:
    assert isinstance(node, SemiJoin)
    wanted = needed | _read((*node.left_keys, *node.right_keys, node.residual))
    left = prune.pruned(node.left, wanted & frozenset(node.left.names))
    right = prune.pruned(node.right, wanted & frozenset(node.right.names))
    return replace(node, left=left, right=right, fields=left.fields)


def _union(prune: _Pruning, node: Node, needed: Names) -> Node:
    """Branches are projections: each keeps the same places."""
    assert isinstance(node, UnionAll)
    kept = [name for name in node.names if name in needed] or list(node.names[:1])
    branches = [prune.pruned(branch, frozenset(kept)) for branch in node.branches]
    return nodes.united([_exactly(branch, kept) for branch in branches])


def _exactly(branch: Node, names: list[str]) -> Node:
    if list(branch.names) == names:
        return branch
    by_name = {f.name: f for f in branch.fields}
    return nodes.projected(branch, [(name, column(by_name[name])) for name in names])


_RULES: Final[dict[type[Node], Callable[[_Pruning, Node, Names], Node]]] = {
    Scan: _scan,
    Filter: _filter,
    Project: _project,
    Aggregate: _aggregate,
    Distinct: _distinct,
    TopK: _top,
    Window: _window,
    Join: _join,
    SemiJoin: _semi_join,
    UnionAll: _union,
}

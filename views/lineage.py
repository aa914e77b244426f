"""Which rows of a view a row of a table can have a part in: from the view's plan, without looking at any row. Pure.

A link says that a column of a table and a column of the view are equal wherever the one has a part in the other:
through projections, equi-joins and groups. A row of a table whose linked columns have other values than a row of the
view cannot have changed it. Without links it may have: a window or a LIMIT over everything lets any row change any
other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from cdc.events import TableName
from views.plan import (
    Aggregate,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Scan,
    SemiJoin,
    TopK,
    UnionAll,
    Window,
)  # fmt: skip
from views.sqltypes import SqlType

Sources: TypeAlias = Mapping[str, frozenset[TableName]]
"""By column of the view, the tables that its value is made of."""
Links: TypeAlias = dict[str, frozenset[str]]
"""By column of the table, the columns that are each equal to it."""


@dataclass(frozen=True)
class Part:
    """One use of a table in a view."""

    table: TableName
    links: Mapping[str, frozenset[str]]
    """By column of the table, columns of the view."""
    types: Mapping[str, SqlType]


def parts(root: Node) -> tuple[Part, ...]:
    """Every use of a table, with its links to the root's columns."""
    return tuple(
        Part(scan.table, {name: columns for name, columns in links.items() if columns}, _types(scan))
        for scan, links in _traced(root)
    )


def sources(node: Node) -> Sources:
    """What counts rows is made of all of them, and so is what another row may take the place of."""
    if isinstance(node, Scan):
        return dict.fromkeys(node.names, frozenset({node.table}))
    below = {name: tables for each in node.inputs for name, tables in sources(each).items()}
    if isinstance(node, Project):
        return {name: _made_of(expression, below) for name, expression in node.columns}
    if isinstance(node, Aggregate):
        counted = dict.fromkeys((name for name, _ in node.aggregates), _tables(node))
        return {name: _made_of(expression, below) for name, expression in node.groups} | counted
    if isinstance(node, Window):
        return below | dict.fromkeys((name for name, _ in node.columns), _tables(node))
    if isinstance(node, TopK):
        return dict.fromkeys(node.names, _tables(node))
    if isinstance(node, UnionAll):
        branches = [sources(each) for each in node.branches]
        return {
            name: frozenset().union(
                *(found[each.names[place]] for each, found in zip(node.branches, branches, strict=True))
            )
            for place, name in enumerate(node.names)
        }
    return {name: below[name] for name in node.names}


def _made_of(expression: exp.Expression, below: Sources) -> frozenset[TableName]:
    return frozenset().union(*(below[column.name] for column in expression.find_all(exp.Column)))


def _tables(node: Node) -> frozenset[TableName]:
    return frozenset({node.table}) if isinstance(node, Scan) else frozenset().union(*map(_tables, node.inputs))


def _traced(node: Node) -> Iterator[tuple[Scan, Links]]:
    if isinstance(node, Scan):
        yield node, {column: frozenset({name}) for column, name in zip(node.columns, node.names, strict=True)}
    elif isinstance(node, Project):
        yield from _renamed(_traced(node.input), node.columns)
    elif isinstance(node, Aggregate):
        yield from _renamed(_traced(node.input), node.groups)
    elif isinstance(node, Window | TopK):
        yield from _only(_traced(node.input), {name for each in node.partition if (name := _column(each))})
    elif isinstance(node, Join):
        yield from _joined(node)
    elif isinstance(node, SemiJoin):
        yield from _traced(node.left)
        yield from _only(
            _across(_traced(node.right), _pairs(node, towards_left=True)), set(node.left.names), node.null_aware
        )
    elif isinstance(node, UnionAll):
        for branch in node.branches:
            yield from _renamed(_traced(branch), _by_place(branch, node))
    else:
        for each in node.inputs:
            yield from _traced(each)


def _joined(node: Join) -> Iterator[tuple[Scan, Links]]:
    """A row without a partner has NULLs in the other's columns, and comes and goes with what could be its partner: so
    rows of a side that may be missing are linked through the other side's key."""
    left, right = _traced(node.left), _traced(node.right)
    to_left, to_right = _pairs(node, towards_left=True), _pairs(node, towards_left=False)
    if node.kind is JoinKind.INNER:
        yield from _across(left, to_right)
        yield from _across(right, to_left)
    elif node.kind is JoinKind.LEFT:
        yield from left
        yield from _only(_across(right, to_left), set(node.left.names))
    elif node.kind is JoinKind.RIGHT:
        yield from _only(_across(left, to_right), set(node.right.names))
        yield from right
    else:
        yield from _only(left, set())
        yield from _only(right, set())


def _pairs(node: Join | SemiJoin, *, towards_left: bool) -> dict[str, str]:
    """By key column of one side, the one of the other that it is compared with."""
    found = {}
    for one, other in zip(node.left_keys, node.right_keys, strict=True):
        left, right = _column(one), _column(other)
        if left and right:
            found[right if towards_left else left] = left if towards_left else right
    return found


def _across(traced: Iterable[tuple[Scan, Links]], pairs: Mapping[str, str]) -> Iterator[tuple[Scan, Links]]:
    for scan, links in traced:
        yield scan, {name: known | {pairs[each] for each in known if each in pairs} for name, known in links.items()}


def _only(
    traced: Iterable[tuple[Scan, Links]], columns: set[str], nothing: bool = False
) -> Iterator[tuple[Scan, Links]]:
    for scan, links in traced:
        yield scan, {name: frozenset() if nothing else known & columns for name, known in links.items()}


def _renamed(traced: Iterable[tuple[Scan, Links]], columns: Iterable[Named]) -> Iterator[tuple[Scan, Links]]:
    named: dict[str, set[str]] = {}
    for name, expression in columns:
        if (column := _column(expression)) is not None:
            named.setdefault(column, set()).add(name)
    for scan, links in traced:
        yield (
            scan,
            {
                column: frozenset(name for each in known for name in named.get(each, ()))
                for column, known in links.items()
            },
        )


def _by_place(branch: Node, node: Node) -> list[Named]:
    return [(name, exp.column(old, quoted=True)) for old, name in zip(branch.names, node.names, strict=True)]


def _column(expression: exp.Expression) -> str | None:
    """The input's column that it is, if it is nothing else."""
    return expression.name if isinstance(expression, exp.Column) else None


def _types(scan: Scan) -> dict[str, SqlType]:
    return {column: field.type for column, field in zip(scan.columns, scan.fields, strict=True)}

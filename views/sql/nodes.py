"""Makes the nodes of a plan, with the fields that follow from their inputs. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from sqlglot import exp

from cdc.catalog import Table
from views import sqltypes
from views.plan import (
    Aggregate,
    Distinct,
    Field,
    Filter,
    Join,
    JoinKind,
    Named,
    Node,
    Project,
    Scan,
    SemiJoin,
    SemiJoinKind,
    TopK,
    UnionAll,
    Window,
)
from views.sql.typed import conjunction, field


def scan(table: Table, alias: str, columns: Sequence[str]) -> Scan:
    fields = tuple(
        Field(f"{alias}.{name}", sqltypes.of_column(table.by_name[name].type), not table.by_name[name].not_null)
        for name in columns
    )
    return Scan(fields, table.name, alias, tuple(columns))


def filtered(input_: Node, predicates: Iterable[exp.Expression]) -> Node:
    """The input itself if there is nothing to ask of it."""
    predicate = conjunction(predicates)
    return input_ if predicate is None else Filter(input_.fields, input_, predicate)


def projected(input_: Node, columns: Iterable[Named]) -> Project:
    named = tuple(columns)
    return Project(tuple(field(name, value) for name, value in named), input_, named)


def joined(
    kind: JoinKind,
    left: Node,
    right: Node,
    keys: Iterable[tuple[exp.Expression, exp.Expression]],
    residual: exp.Expression | None = None,
) -> Join:
    pairs = tuple(keys)
    left_fields = _nullable(left.fields) if kind in (JoinKind.RIGHT, JoinKind.FULL) else left.fields
    right_fields = _nullable(right.fields) if kind in (JoinKind.LEFT, JoinKind.FULL) else right.fields
    return Join(
        (*left_fields, *right_fields),
        left,
        right,
        tuple(a for a, _ in pairs),
        tuple(b for _, b in pairs),
        residual,
        kind,
    )


def _nullable(fields: Iterable[Field]) -> tuple[Field, ...]:
    return tuple(replace(f, nullable=True) for f in fields)


def semi_joined(
    kind: SemiJoinKind,
    left: Node,
    right: Node,
    keys: Iterable[tuple[exp.Expression, exp.Expression]],
    residual: exp.Expression | None = None,
    *,
    null_aware: bool = False,
) -> SemiJoin:
    pairs = tuple(keys)
    left_keys, right_keys = tuple(a for a, _ in pairs), tuple(b for _, b in pairs)
    return SemiJoin(left.fields, left, right, left_keys, right_keys, residual, kind, null_aware)


def aggregated(input_: Node, groups: Iterable[Named], aggregates: Iterable[Named]) -> Aggregate:
    g, a = tuple(groups), tuple(aggregates)
    return Aggregate(tuple(field(name, value) for name, value in (*g, *a)), input_, g, a)


def distinct(input_: Node) -> Distinct:
    return Distinct(input_.fields, input_)


def top(
    input_: Node, partition: Iterable[exp.Expression], order: Iterable[exp.Ordered], limit: int, offset: int = 0
) -> TopK:
    return TopK(input_.fields, input_, tuple(partition), tuple(order), limit, offset)


def windowed(input_: Node, partition: Iterable[exp.Expression], columns: Iterable[Named]) -> Window:
    named = tuple(columns)
    fields = (*input_.fields, *(field(name, value) for name, value in named))
    return Window(fields, input_, tuple(partition), named)


def united(branches: Sequence[Node]) -> UnionAll:
    """The branches have the same names and types; a column may be NULL if it may in one of them."""
    fields = tuple(
        replace(column[0], nullable=any(f.nullable for f in column))
        for column in zip(*(branch.fields for branch in branches), strict=True)
    )
    return UnionAll(fields, tuple(branches))

"""The logical plan of a view: what is computed, before it is cut into stages. Frozen values, compared by structure.

Column names are unique within a node; a Scan names its columns `alias.column`. Expressions are sqlglot trees with the
meaning they have in Postgres; their columns name the input's columns by one quoted identifier (for joins, the columns
of both inputs, whose names are disjoint). Rows are multisets: a node says nothing about order.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from sqlglot import exp

from cdc.events import TableName
from views.sqltypes import SqlType

Named: TypeAlias = tuple[str, exp.Expression]
"""An output column's name, and how it is computed."""


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: SqlType
    nullable: bool = True


class JoinKind(StrEnum):
    INNER = "inner"
    LEFT = "left"
    RIGHT = "right"
    FULL = "full"


class SemiJoinKind(StrEnum):
    SEMI = "semi"
    ANTI = "anti"


@dataclass(frozen=True)
class Node:
    fields: tuple[Field, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)


@dataclass(frozen=True)
class Scan(Node):
    """A mirrored table, with only the columns that are used."""

    table: TableName
    alias: str
    columns: tuple[str, ...]


@dataclass(frozen=True)
class _Unary(Node):
    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Filter(_Unary):
    predicate: exp.Expression


@dataclass(frozen=True)
class Project(_Unary):
    columns: tuple[Named, ...]


@dataclass(frozen=True)
class Aggregate(_Unary):
    """Without groups: exactly one row, also over nothing."""

    groups: tuple[Named, ...]
    aggregates: tuple[Named, ...]


@dataclass(frozen=True)
class Distinct(_Unary):
    """Each row once."""


@dataclass(frozen=True)
class TopK(_Unary):
    """The first rows of each partition, or of all; the order must decide (a tie-break is part of it)."""

    partition: tuple[exp.Expression, ...]
    order: tuple[exp.Ordered, ...]
    limit: int
    offset: int = 0


@dataclass(frozen=True)
class Window(_Unary):
    """The input's columns, and window functions over one partitioning."""

    partition: tuple[exp.Expression, ...]
    columns: tuple[Named, ...]


@dataclass(frozen=True)
class _Binary(Node):
    left: Node
    right: Node
    left_keys: tuple[exp.Expression, ...]
    right_keys: tuple[exp.Expression, ...]
    residual: exp.Expression | None

    @property
    def inputs(self) -> tuple[Node, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Join(_Binary):
    """Pairs whose keys are equal (NULL equals nothing) and whose residual holds; without keys, all pairs."""

    kind: JoinKind


@dataclass(frozen=True)
class SemiJoin(_Binary):
    """Rows of the left that have (semi) or have not (anti) a partner on the right."""

    kind: SemiJoinKind
    null_aware: bool = False
    """NOT IN: a NULL on the right, or as the left key, means that nothing is known, so the row is left out."""


@dataclass(frozen=True)
class UnionAll(Node):
    branches: tuple[Node, ...]

    @property
    def inputs(self) -> tuple[Node, ...]:
        return self.branches

"""What the steps of one view's planning share: the catalog, names not taken yet, the parts built so far."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from sqlglot import exp

from cdc.catalog import Catalog
from views.plan import Node
from views.sql.scope import Scope, Source
from views.sql.type_names import TypeNames
from views.sql.typed import columns_in


@dataclass(frozen=True)
class Correlation:
    """inner = outer: how a subquery hangs on a row around it."""

    inner: exp.Expression
    outer: exp.Expression


@dataclass(frozen=True)
class Relation:
    """A node while its query is being built, and what is visible of it."""

    node: Node
    sources: tuple[Source, ...]
    merged: Mapping[str, exp.Expression] = field(default_factory=dict)
    correlations: tuple[Correlation, ...] = ()
    residuals: tuple[exp.Expression, ...] = ()
    """Conditions on the rows around that are no equalities."""

    def over(self, node: Node) -> Relation:
        return replace(self, node=node)

    def scope(self, outer: Scope | None) -> Scope:
        return Scope(self.sources, self.merged, outer)

    def has(self, expression: exp.Expression) -> bool:
        """Whether all of its columns are here."""
        return columns_in(expression) <= set(self.node.names)


@dataclass(frozen=True)
class Output:
    """A built query: its columns are expressions over the node's, in order. Not yet projected columns are allowed where
    the caller asked for them."""

    node: Node
    columns: tuple[tuple[str, exp.Expression], ...]
    correlations: tuple[Correlation, ...] = ()
    residuals: tuple[exp.Expression, ...] = ()


@dataclass(frozen=True)
class Cte:
    name: str
    query: exp.Query
    columns: tuple[str, ...]
    visible: Mapping[str, Cte]


@dataclass
class Context:
    catalog: Catalog
    types: TypeNames = field(init=False)
    ctes: dict[int, Output] = field(default_factory=dict)
    """Built once, by the identity of their query."""
    _taken: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.types = TypeNames(self.catalog)

    def name(self, wanted: str) -> str:
        """The wanted name, or one with a number that no other has."""
        count = self._taken.get(wanted, 0) + 1
        self._taken[wanted] = count
        return wanted if count == 1 else self.name(f"{wanted}_{count}")

"""GROUP BY and aggregates: from expressions over rows to expressions over groups. Pure but for the names it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from views.plan import Aggregate, Named, Node
from views.refusals import Reason, refusal
from views.sql import nodes
from views.sql.aggregates import is_aggregate, without_tie_break
from views.sql.context import Context
from views.sql.keys import keys_of, plain
from views.sql.operators import check_key
from views.sql.typed import column, column_of, rewrite, type_of
from views.sql.typed import field as field_of


def aggregates_in(expression: exp.Expression) -> list[exp.Expression]:
    """The outermost aggregates; those that a window function is made of are not meant."""
    found: list[exp.Expression] = []

    def collect(part: exp.Expression) -> exp.Expression | None:
        if is_aggregate(part) and not _is_window_function(part):
            found.append(part.copy())
            return part
        return None

    rewrite(expression, collect)
    return found


def _is_window_function(part: exp.Expression) -> bool:
    parent = part.parent
    if part.arg_key != "this":
        return False
    if isinstance(parent, exp.Filter):
        return isinstance(parent.parent, exp.Window) and parent.arg_key == "this"
    return isinstance(parent, exp.Window)


@dataclass
class Grouping:
    """Collects what is asked of the groups, then makes the node."""

    context: Context
    input: Node
    groups: list[Named] = field(default_factory=list)
    aggregates: list[Named] = field(default_factory=list)

    def group_by(self, expression: exp.Expression, at: exp.Expression) -> exp.Column:
        for name, value in self.groups:
            if value == expression:
                return column(field_of(name, value))
        check_key(type_of(expression), at)
        name = expression.name if isinstance(expression, exp.Column) else self.context.name("group")
        self.groups.append((name, expression))
        return column(field_of(name, expression))

    def over_groups(self, expression: exp.Expression, at: exp.Expression) -> exp.Expression:
        """The same, with aggregates and grouped expressions as columns of the Aggregate."""

        def replacement(part: exp.Expression) -> exp.Expression | None:
            for name, value in self.groups:
                if value == part:
                    return column(field_of(name, value))
            if is_aggregate(part) and not _is_window_function(part):
                return self._aggregate(part)
            if isinstance(part, exp.Column) and part.name in self.input.names:
                return self._determined(part, at)
            return None

        return rewrite(expression, replacement)

    def _aggregate(self, part: exp.Expression) -> exp.Column:
        for name, value in self.aggregates:
            if value == part:
                return column(field_of(name, value))
        name = self.context.name("aggregate")
        self.aggregates.append((name, part.copy()))
        return column(field_of(name, part))

    def _determined(self, part: exp.Column, at: exp.Expression) -> exp.Column:
        """A column that the groups determine, as by a primary key, is grouped as well."""
        columns = [name for name in (plain(value) for _, value in self.groups) if name is not None]
        if part.name not in keys_of(self.input, self.context.catalog).closure(columns):
            raise refusal(
                Reason.NOT_GROUPED,
                f"{part.name} is neither grouped nor aggregated",
                at,
                hint=f"add {part.name} to GROUP BY, or take min({part.name})",
            )
        self.groups.append((part.name, column_of(self.input, part.name)))
        return part

    def node(self) -> Aggregate:
        keys = keys_of(self.input, self.context.catalog)
        grouped = [plain(value) for _, value in self.groups]

        def is_decided(order: Sequence[exp.Expression]) -> bool:
            known = (*grouped, *map(plain, order))
            return keys.decides(name for name in known if name is not None)

        lean = [(name, without_tie_break(value, is_decided)) for name, value in self.aggregates]
        return nodes.aggregated(self.input, self.groups, lean)


def windows_over(
    context: Context, node: Node, expressions: Sequence[exp.Expression]
) -> tuple[Node, list[exp.Expression]]:
    """Window functions as columns of Window nodes, one a partitioning; the expressions over those columns."""
    from views.sql.limits import decided
    from views.sql.windows import needs_decided_order

    named: dict[exp.Expression, str] = {}
    partitions: dict[tuple[exp.Expression, ...], list[exp.Expression]] = {}
    for expression in expressions:
        for window in expression.find_all(exp.Window):
            if window not in named:
                named[window.copy()] = context.name("window")
                partitions.setdefault(tuple(window.args.get("partition_by") or ()), []).append(window)
    for partition, found in partitions.items():
        columns: list[Named] = []
        for asked in found:
            final = asked.copy()
            order = final.args.get("order")
            if order is not None and needs_decided_order(final):
                final.set("order", exp.Order(expressions=decided(context, node, partition, order.expressions, asked)))
            columns.append((named[asked], final))
        node = nodes.windowed(node, [part.copy() for part in partition], columns)

    def replacement(part: exp.Expression) -> exp.Expression | None:
        return column(field_of(named[part], part)) if isinstance(part, exp.Window) else None

    return node, [rewrite(expression, replacement) for expression in expressions]

"""row_number() <= k over a subquery is the first k rows of each partition: only those need be ranked, and if the number
itself is not read, none. Where the outer filter asks for more than that, it stays."""

from __future__ import annotations

from sqlglot import exp

from views.plan import Filter, Named, Node, Window
from views.sql import nodes
from views.sql.context import Context
from views.sql.functions.rule import constant_integer
from views.sql.rebuild import with_inputs
from views.sql.typed import conjuncts


def first_rows_of_ranks(root: Node, context: Context) -> Node:
    node = with_inputs(root, [first_rows_of_ranks(child, context) for child in root.inputs])
    if not isinstance(node, Filter) or not isinstance(node.input, Window):
        return node
    window = node.input
    for name, value in window.columns:
        limit = _limit(name, value, conjuncts(node.predicate))
        if limit is not None:
            return _ranked_first(node, window, (name, value), limit)
    return node


def _limit(name: str, value: exp.Expression, conditions: list[exp.Expression]) -> int | None:
    """The smallest k of conditions such as n <= k, n < k and n = 1."""
    if not isinstance(value.this, exp.RowNumber):
        return None
    found = [bound for bound in (_bound(name, condition) for condition in conditions) if bound is not None]
    return min(found) if found and min(found) > 0 else None


def _bound(name: str, condition: exp.Expression) -> int | None:
    """The k of one condition; None if it is not one."""
    if not isinstance(condition, (exp.LTE, exp.LT, exp.EQ)):
        return None
    bare, number = _uncast(condition.this), constant_integer(_uncast(condition.expression))
    if not isinstance(bare, exp.Column) or bare.name != name or number is None:
        return None
    return number - 1 if isinstance(condition, exp.LT) else number


def _uncast(expression: exp.Expression) -> exp.Expression:
    return _uncast(expression.this) if isinstance(expression, exp.Cast) else expression


def _ranked_first(node: Filter, window: Window, ranked: Named, limit: int) -> Node:
    """Window functions that look beyond the first rows must see them all: only a lone row_number goes over the top."""
    if len(window.columns) > 1:
        return node
    order = ranked[1].args["order"].expressions
    top = nodes.top(window.input, window.partition, order, limit)
    rest = [
        c for c in conjuncts(node.predicate) if _bound(ranked[0], c) != limit or (isinstance(c, exp.EQ) and limit > 1)
    ]
    return nodes.filtered(nodes.windowed(top, window.partition, window.columns), rest)

"""Window functions: computed for a whole partition whenever one of its rows changes. Their order need not decide
between equals where the result does not depend on it (rank, a running sum over peers); elsewhere the key is added."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from sqlglot import exp

from views import sqltypes as t
from views.refusals import Reason, refusal
from views.sql.aggregates import AGGREGATE_CLASSES, bind_aggregate, ordered
from views.sql.coercion import coerced, to_common
from views.sql.functions.rule import constant_integer, wrong_arguments
from views.sql.operators import check_key
from views.sql.scope import folded
from views.sql.typed import type_of, typed
from views.sqltypes import SqlType

if TYPE_CHECKING:
    from views.sql.expressions import Binder

_RANKS: Final = (exp.RowNumber, exp.Rank, exp.DenseRank)
_NEIGHBOURS: Final = (exp.Lag, exp.Lead)
_ENDS: Final = (exp.FirstValue, exp.LastValue)
_DECIDED_BY_PEERS: Final = (exp.Rank, exp.DenseRank)
_AGGREGATES: Final = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr)


def bind_window(node: exp.Window, binder: Binder) -> exp.Expression:
    from views.sql.expressions import Binder as Inner

    spec = _named(node, binder)
    inner = Inner(binder.scope, binder.types, "a window", subquery=binder.subquery)
    partition = [inner.bind(part) for part in spec.args.get("partition_by") or []]
    for part in partition:
        check_key(type_of(part), node)
    order = spec.args.get("order")
    terms = [ordered(inner.bind(term.this), term) for term in order.expressions] if order is not None else []
    function, type_ = _function(node.this, inner, ordered_=bool(terms))
    window = exp.Window(this=function, partition_by=partition, spec=_frame(spec, node))
    if terms:
        window.set("order", exp.Order(expressions=terms))
    return typed(window, type_, nullable=not isinstance(function, (*_RANKS, exp.Count)))


def needs_decided_order(window: exp.Expression) -> bool:
    """Whether equals in the order could come out either way."""
    function = window.this.this if isinstance(window.this, exp.Filter) else window.this
    if isinstance(function, _DECIDED_BY_PEERS):
        return False
    if isinstance(function, AGGREGATE_CLASSES):
        spec = window.args.get("spec")
        return spec is not None and str(spec.args.get("kind")).upper() == "ROWS" and bool(window.args.get("order"))
    return True


def _named(node: exp.Window, binder: Binder) -> exp.Expression:
    """OVER w is what WINDOW says that w is."""
    alias = node.args.get("alias")
    if alias is None:
        return node
    name = folded(alias)
    if name not in binder.named_windows or any(map(node.args.get, ("partition_by", "order", "spec"))):
        raise refusal(
            Reason.UNSUPPORTED, f"no window {name} to use as it is", node, hint="write the window out in OVER (…)"
        )
    return binder.named_windows[name]


def _function(node: exp.Expression, binder: Binder, *, ordered_: bool) -> tuple[exp.Expression, SqlType]:
    if isinstance(node, _AGGREGATES) or (isinstance(node, exp.Filter) and isinstance(node.this, _AGGREGATES)):
        bound = bind_aggregate(node, binder)
        if bound.find(exp.Distinct):
            raise refusal(Reason.UNSUPPORTED, "DISTINCT in a window", node, hint="count(DISTINCT …) with GROUP BY")
        return bound, type_of(bound)
    if not ordered_:
        raise refusal(
            Reason.TIES, "this window has no ORDER BY, so its order is not decided", node, hint="OVER (… ORDER BY id)"
        )
    if isinstance(node, _RANKS):
        return type(node)(), t.BIGINT
    if isinstance(node, _NEIGHBOURS):
        return _neighbour(node, binder)
    if isinstance(node, _ENDS):
        value = binder.bind(node.this)
        return type(node)(this=value), t.without_modifier(type_of(value))
    raise refusal(
        Reason.UNKNOWN_FUNCTION,
        f"{node.sql('postgres')[:60]} is not among the window functions that views compute",
        node,
        hint="row_number, rank, dense_rank, lag, lead, first_value, last_value, or an aggregate",
    )


def _neighbour(node: exp.Expression, binder: Binder) -> tuple[exp.Expression, SqlType]:
    value = binder.bind(node.this)
    default, offset = node.args.get("default"), node.args.get("offset")
    values, type_ = to_common([value, binder.bind(default)] if default is not None else [value], node)
    bound = type(node)(this=values[0])
    if offset is not None:
        place = binder.bind(offset)
        if constant_integer(place) is None:
            raise wrong_arguments(node.key, [value, place], node, f"{node.key}(value, n) with a written n")
        bound.set("offset", coerced(place, t.INTEGER))
    if default is not None:
        bound.set("default", values[1])
    return bound, t.without_modifier(type_)


def _frame(spec: exp.Expression, node: exp.Expression) -> exp.Expression | None:
    frame = spec.args.get("spec")
    if not isinstance(frame, exp.WindowSpec):
        return None
    kind = str(frame.args.get("kind") or "").upper()
    numbers = [frame.args.get(side) for side in ("start", "end")]
    plain = all(n is None or isinstance(n, str) or constant_integer(n) is not None for n in numbers)
    if (
        kind not in ("ROWS", "RANGE")
        or not plain
        or frame.args.get("exclude")
        or (kind == "RANGE" and any(isinstance(n, exp.Expression) for n in numbers))
    ):
        raise refusal(
            Reason.UNSUPPORTED, "this frame is not accepted", node, hint="ROWS BETWEEN n PRECEDING AND CURRENT ROW"
        )
    return frame.copy()

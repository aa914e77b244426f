"""ORDER BY … LIMIT: the first rows, decided. A view is a set of rows by key: it has no order of its own."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NoReturn

from sqlglot import exp

from views.plan import Node
from views.refusals import Reason, refusal
from views.sql import nodes
from views.sql.context import Context
from views.sql.keys import keys_of, plain
from views.sql.typed import column_of

Limit = tuple[int, int]


def limit_and_offset(query: exp.Expression) -> Limit | None:
    """As written in numbers; None without LIMIT. Raises ViewRefused for OFFSET alone and for computed limits."""
    limit, offset = query.args.get("limit"), query.args.get("offset")
    if limit is None:
        if offset is not None:
            raise refusal(
                Reason.LIMIT_WITHOUT_ORDER, "OFFSET without LIMIT", offset, hint="ORDER BY … LIMIT n OFFSET m"
            )
        return None
    count = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression
    if isinstance(limit, exp.Fetch) and limit.args.get("limit_options") is not None:
        options = limit.args["limit_options"]
        if options.args.get("with_ties") or options.args.get("percent"):
            raise refusal(
                Reason.UNSUPPORTED, "FETCH WITH TIES", limit, hint="rank() in a subquery, and rank <= n outside"
            )
    return _number(count, limit), _number(offset.expression, offset) if offset is not None else 0


def _number(value: exp.Expression | None, at: exp.Expression) -> int:
    if value is None:
        return 1
    if not isinstance(value, exp.Literal) or value.is_string or not value.name.isdigit():
        raise refusal(Reason.UNSUPPORTED, "LIMIT and OFFSET are numbers that are written", at, hint="LIMIT 10")
    return int(value.name)


def refuse_order_alone(order: exp.Expression) -> NoReturn:
    raise refusal(
        Reason.NO_ORDER,
        "a view has no order",
        order,
        detail="its rows are kept by key, and readers sort what they read",
        hint="leave out ORDER BY, or add LIMIT for the first rows",
    )


def top_rows(
    context: Context,
    node: Node,
    partition: Iterable[exp.Expression],
    order: Sequence[exp.Ordered],
    limit: Limit,
    at: exp.Expression,
) -> Node:
    if not order:
        raise refusal(
            Reason.LIMIT_WITHOUT_ORDER, "LIMIT without ORDER BY takes any rows", at, hint="ORDER BY id LIMIT 10"
        )
    parts = list(partition)
    return nodes.top(node, parts, decided(context, node, parts, order, at), *limit)


def decided(
    context: Context,
    node: Node,
    partition: Iterable[exp.Expression],
    order: Sequence[exp.Ordered],
    at: exp.Expression,
) -> list[exp.Ordered]:
    """The order, with the node's key behind it where it does not decide between equals by itself."""
    keys = keys_of(node, context.catalog)
    known = [plain(e) for e in (*partition, *(term.this for term in order))]
    have = [name for name in known if name is not None]
    if keys.decides(have):
        return list(order)
    if not keys.candidates:
        raise refusal(
            Reason.TIES,
            "the order does not decide between equal rows, and they have no key that could",
            at,
            hint="ORDER BY also the primary keys of the tables",
        )
    reached = keys.closure(have)
    best = min(keys.candidates, key=lambda key: (len(key - reached), sorted(key)))
    rest = [name for name in node.names if name in best - reached]
    return [*order, *(exp.Ordered(this=column_of(node, n), desc=False, nulls_first=False) for n in rest)]

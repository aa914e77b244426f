"""Queries: SELECT and UNION, each from its clauses, in the order in which SQL evaluates them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sqlglot import exp

from views import sqltypes as t
from views.plan import Node
from views.refusals import Reason, refusal
from views.sql import nodes
from views.sql.aggregates import ordered
from views.sql.coercion import coerced, common
from views.sql.context import Context, Cte, Output
from views.sql.limits import limit_and_offset, refuse_order_alone, top_rows
from views.sql.operators import check_key
from views.sql.scope import Scope, folded
from views.sql.selects import SelectBuilder
from views.sql.typed import column, type_of


def build_query(context: Context, query: exp.Expr, ctes: Mapping[str, Cte], outer: Scope | None, prefix: str) -> Output:
    """The query's columns are named `prefix.name`, or just `name` where the prefix is empty."""
    if isinstance(query, exp.Subquery):
        _check_bare(query)
        return build_query(context, query.this, ctes, outer, prefix)
    visible = with_ctes(query, ctes)
    if isinstance(query, exp.Union):
        return _union(context, query, visible, outer, prefix)
    if not isinstance(query, exp.Select):
        raise refusal(Reason.UNSUPPORTED, f"{query.key.upper()} is not accepted", query, hint="SELECT … FROM …")
    return SelectBuilder(context, query, visible, outer, prefix).build()


def _check_bare(query: exp.Subquery) -> None:
    """(SELECT …) ORDER BY … LIMIT …: the order belongs into the parentheses."""
    if query.args.get("order") or query.args.get("limit") or query.args.get("offset"):
        raise refusal(
            Reason.UNSUPPORTED, "ORDER BY outside of the parentheses", query, hint="leave out the parentheses"
        )


def with_ctes(query: exp.Expr, ctes: Mapping[str, Cte]) -> Mapping[str, Cte]:
    clause = query.args.get("with_")
    if clause is None:
        return ctes
    visible = dict(ctes)
    for item in clause.expressions:
        name = folded(item.args["alias"].this)
        columns = tuple(folded(c) for c in item.args["alias"].args.get("columns") or [])
        if not isinstance(item.this, exp.Query):
            raise refusal(Reason.UNSUPPORTED, "WITH changes no data in a view", item, hint="WITH name AS (SELECT …)")
        visible[name] = Cte(name, item.this, columns, dict(visible))
    return visible


def _flat(query: exp.Union) -> list[exp.Expression]:
    distinct = bool(query.args.get("distinct"))
    found: list[exp.Expression] = []
    for side in (query.this, query.expression):
        same = (
            isinstance(side, exp.Union) and bool(side.args.get("distinct")) == distinct and not side.args.get("limit")
        )
        found += _flat(side) if same and not side.args.get("order") else [side]
    return found


def _union(context: Context, query: exp.Union, ctes: Mapping[str, Cte], outer: Scope | None, prefix: str) -> Output:
    outputs = [_branch_output(context, side, ctes, outer, context.name(prefix or "union")) for side in _flat(query)]
    first = outputs[0]
    for output in outputs:
        if output.correlations or output.residuals:
            raise refusal(Reason.SUBQUERY, "a UNION inside a correlated subquery", query, hint="one subquery a branch")
        if len(output.columns) != len(first.columns):
            raise refusal(
                Reason.TYPE_MISMATCH, "the branches of UNION differ in columns", query, hint="select the same columns"
            )
    names = [name for name, _ in first.columns]
    types = [common([type_of(o.columns[n][1]) for o in outputs], query) for n in range(len(names))]
    full = [f"{prefix}.{name}" if prefix else name for name in names]
    branches = [_branch(output, full, types) for output in outputs]
    node: Node = nodes.united(branches)
    if query.args.get("distinct"):
        for type_ in types:
            check_key(type_, query)
        node = nodes.distinct(node)
    node = _limited(context, query, node, names)
    return Output(node, tuple((name, column(f)) for name, f in zip(names, node.fields, strict=True)))


def _branch_output(
    context: Context, query: exp.Expr, ctes: Mapping[str, Cte], outer: Scope | None, prefix: str
) -> Output:
    bare = query.this if isinstance(query, exp.Subquery) else query
    if not isinstance(bare, exp.Select):
        return build_query(context, query, ctes, outer, prefix)
    return SelectBuilder(context, bare, with_ctes(bare, ctes), outer, prefix, is_branch=True).build()


def _branch(output: Output, names: Sequence[str], types: Sequence[t.SqlType]) -> Node:
    values = [coerced(value, type_) for (_, value), type_ in zip(output.columns, types, strict=True)]
    return nodes.projected(output.node, zip(names, values, strict=True))


def _limited(context: Context, query: exp.Union, node: Node, names: Sequence[str]) -> Node:
    order = query.args.get("order")
    limit = limit_and_offset(query)
    if limit is None:
        if order is not None:
            refuse_order_alone(order)
        return node
    terms = []
    for term in order.expressions if order is not None else []:
        place = _place(term.this, names)
        terms.append(ordered(column(node.fields[place]), term))
    return top_rows(context, node, (), terms, limit, query)


def _place(term: exp.Expression, names: Sequence[str]) -> int:
    """Of a column of the result, by name or number: all that ORDER BY after UNION may name."""
    if isinstance(term, exp.Literal) and not term.is_string and 1 <= int(term.name) <= len(names):
        return int(term.name) - 1
    if isinstance(term, exp.Column) and not term.args.get("table") and folded(term.this) in names:
        return list(names).index(folded(term.this))
    raise refusal(
        Reason.UNKNOWN_COLUMN, "ORDER BY after UNION names a column of the result", term, hint=", ".join(names)
    )

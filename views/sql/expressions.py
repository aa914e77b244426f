"""Binds scalar expressions: names become columns of the plan, implicit casts become explicit, every part gets its type.

What has no rule here or in functions/ is refused: nothing passes unseen. Subqueries are handed to `Binder.subquery`,
and aggregates and window functions to their modules, where the clause allows them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import InvalidOperation
from typing import Final, NoReturn, TypeAlias

from sqlglot import exp

from views import sqltypes as t
from views.refusals import Reason, refusal
from views.sql import casts
from views.sql.aggregates import AGGREGATE_CLASSES, bind_aggregate
from views.sql.calls import CALLS, refuse_function
from views.sql.coercion import coerced, common, number_literal
from views.sql.operators import OPERATORS, bind_operator
from views.sql.scope import Scope
from views.sql.type_names import TypeNames
from views.sql.typed import nullable, type_of, typed
from views.sql.windows import bind_window

Subquery: TypeAlias = Callable[[exp.Query, exp.Expression], exp.Expression]


def _no_subquery(query: exp.Query, at: exp.Expression) -> exp.Expression:
    raise refusal(Reason.SUBQUERY, "a subquery cannot stand here", at, hint="join it in FROM, or use EXISTS in WHERE")


@dataclass(frozen=True)
class Binder:
    """What an expression's surroundings are."""

    scope: Scope
    types: TypeNames
    clause: str
    """As a message names it: WHERE, ON, the select list."""
    aggregates: bool = False
    windows: bool = False
    subquery: Subquery = field(default=_no_subquery)
    named_windows: dict[str, exp.Window] = field(default_factory=dict)

    def bind(self, node: exp.Expression) -> exp.Expression:
        kind = type(node)
        if kind in OPERATORS:
            return bind_operator(node, self.bind)
        if kind in AGGREGATE_CLASSES or kind is exp.Filter:
            return self.aggregate(node)
        rule = _RULES.get(kind)
        if rule is None:
            _refuse_unknown(node)
        bound = rule(self, node)
        if not bound.meta.get("line"):
            bound.meta.update({k: v for k, v in node.meta.items() if k in ("line", "col", "start", "end")})
        return bound

    def predicate(self, node: exp.Expression) -> exp.Expression:
        """A condition: must be a boolean."""
        return coerced_boolean(self.bind(node), node)

    def bind_all(self, nodes: Sequence[exp.Expression]) -> list[exp.Expression]:
        return [self.bind(node) for node in nodes]

    def aggregate(self, node: exp.Expression) -> exp.Expression:
        if not self.aggregates:
            raise refusal(
                Reason.AGGREGATE_MISPLACED,
                f"an aggregate cannot stand in {self.clause}",
                node,
                hint="put the condition into HAVING, or aggregate in a subquery in FROM",
            )
        inner = Binder(self.scope, self.types, "an aggregate", subquery=self.subquery)
        return bind_aggregate(node, inner)


def coerced_boolean(bound: exp.Expression, at: exp.Expression) -> exp.Expression:
    if type_of(bound).family is t.Family.UNKNOWN:
        return coerced(bound, t.BOOLEAN)
    if type_of(bound) != t.BOOLEAN:
        raise refusal(
            Reason.TYPE_MISMATCH, f"a condition is a {type_of(bound)}, not a boolean", at, hint="compare it: … = true"
        )
    return bound


def _column(binder: Binder, node: exp.Expression) -> exp.Expression:
    assert isinstance(node, exp.Column)
    if isinstance(node.this, exp.Star):
        raise refusal(Reason.UNSUPPORTED, "a star cannot stand here", node, hint="name the columns")
    return binder.scope.resolve(node)


def _literal(binder: Binder, node: exp.Expression) -> exp.Expression:
    if node.args.get("is_string"):
        return typed(node.copy(), t.UNKNOWN, nullable=False)
    try:
        type_, digits = number_literal(node.name)
    except InvalidOperation:
        raise refusal(Reason.TYPE_MISMATCH, f"{node.name} has too many digits", node, hint="at most 38") from None
    return typed(exp.Literal.number(digits), type_, nullable=False)


def _escaped(binder: Binder, node: exp.Expression) -> exp.Expression:
    raise refusal(Reason.UNSUPPORTED, "E'…' is not accepted", node, hint="write the character itself between quotes")


def _null(binder: Binder, node: exp.Expression) -> exp.Expression:
    return typed(exp.Null(), t.UNKNOWN)


def _boolean(binder: Binder, node: exp.Expression) -> exp.Expression:
    return typed(node.copy(), t.BOOLEAN, nullable=False)


def _paren(binder: Binder, node: exp.Expression) -> exp.Expression:
    return binder.bind(node.this)


def _cast(binder: Binder, node: exp.Expression) -> exp.Expression:
    return casts.explicit(binder.bind(node.this), binder.types.of(node.args["to"]), node)


def _case(binder: Binder, node: exp.Expression) -> exp.Expression:
    operand = node.this
    conditions = []
    for branch in node.args["ifs"]:
        test = branch.this if operand is None else exp.EQ(this=operand.copy(), expression=branch.this.copy())
        conditions.append(binder.predicate(test))
    results = binder.bind_all([branch.args["true"] for branch in node.args["ifs"]])
    default = node.args.get("default")
    results.append(binder.bind(default) if default is not None else typed(exp.Null(), t.UNKNOWN))
    type_ = common([type_of(result) for result in (results[-1], *results[:-1])], node)
    taken = [coerced(result, type_) for result in results]
    ifs = [exp.If(this=c, true=r) for c, r in zip(conditions, taken, strict=False)]
    return typed(exp.Case(ifs=ifs, default=taken[-1]), type_, nullable=any(map(nullable, taken)))


def _collate(binder: Binder, node: exp.Expression) -> exp.Expression:
    if node.expression.name != "C":
        raise refusal(
            Reason.UNSUPPORTED, f"collation {node.expression.name}", node, hint='views compare as COLLATE "C"'
        )
    return binder.bind(node.this)


def _subquery(binder: Binder, node: exp.Expression) -> exp.Expression:
    query = node.this if isinstance(node, exp.Subquery) else node
    assert isinstance(query, exp.Query)
    return binder.subquery(query, node)


def _window(binder: Binder, node: exp.Expression) -> exp.Expression:
    assert isinstance(node, exp.Window)
    if not binder.windows:
        raise refusal(
            Reason.WINDOW_MISPLACED,
            f"a window function cannot stand in {binder.clause}",
            node,
            hint="compute it in a subquery in FROM, and filter outside",
        )
    return bind_window(node, binder)


def _exists(binder: Binder, node: exp.Expression) -> exp.Expression:
    raise refusal(
        Reason.SUBQUERY,
        "EXISTS and IN with a subquery stand in WHERE, joined by AND",
        node,
        hint="write the cases as UNION, or join the subquery in FROM",
    )


def _refuse_unknown(node: exp.Expression) -> NoReturn:
    is_pattern = type(node) in _PATTERN_MATCHES
    if isinstance(node, exp.Func) and node.sql_names() and not is_pattern:
        refuse_function(node.sql_names()[0].lower(), node)
    hint = "LIKE with % and _, or position(…)" if is_pattern else "write it in another way"
    raise refusal(Reason.UNSUPPORTED, f"{node.sql('postgres')[:80]} is not accepted", node, hint=hint)


_PATTERN_MATCHES: Final = (exp.RegexpLike, exp.RegexpILike, exp.SimilarTo)
_RULES: Final[dict[type[exp.Expression], Callable[[Binder, exp.Expression], exp.Expression]]] = {
    **CALLS,
    exp.Column: _column,
    exp.Literal: _literal,
    exp.ByteString: _escaped,
    exp.Null: _null,
    exp.Boolean: _boolean,
    exp.Paren: _paren,
    exp.Cast: _cast,
    exp.Case: _case,
    exp.Collate: _collate,
    exp.Subquery: _subquery,
    exp.Select: _subquery,
    exp.Window: _window,
    exp.Exists: _exists,
}

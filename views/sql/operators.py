"""Operators: arithmetic, comparison, logic and patterns, typed as Postgres types them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn, TypeAlias

from sqlglot import exp

from views import sqltypes as t
from views.refusals import Reason, refusal
from views.sql.casts import as_text
from views.sql.coercion import arithmetic, coerced, digits_and_scale, is_number, refuse_without_scale, strict, to_common
from views.sql.functions import RULES
from views.sql.typed import any_nullable, nullable, type_of, typed
from views.sqltypes import Comparable, Family, SqlType

Bind: TypeAlias = Callable[[exp.Expression], exp.Expression]
_ORDERING: Final = (exp.LT, exp.LTE, exp.GT, exp.GTE)
_INSTANTS: Final = (Family.DATE, Family.TIMESTAMP, Family.TIMESTAMPTZ)


def bind_operator(node: exp.Expression, bind: Bind) -> exp.Expression:
    return OPERATORS[type(node)](node, bind)


def _arithmetic(node: exp.Expression, bind: Bind) -> exp.Expression:
    left, right = bind(node.this), bind(node.expression)
    left, right = _literal_side(left, right), _literal_side(right, left)
    if is_number(type_of(left)) and is_number(type_of(right)):
        return _numbers(node, left, right)
    type_ = _instant_type(type(node), type_of(left), type_of(right))
    if type_ is None:
        _refuse_operator(node, left, right)
    if {type_of(left).family, type_of(right).family} == {Family.TIMESTAMP, Family.TIMESTAMPTZ}:
        left, right = coerced(left, t.TIMESTAMPTZ), coerced(right, t.TIMESTAMPTZ)
    if type_ == t.INTERVAL and Family.DATE in (type_of(left).family, type_of(right).family):
        left, right = to_common([left, right], node)[0]
    return typed(type(node)(this=left, expression=right), type_, nullable=strict([left, right]))


def _literal_side(side: exp.Expression, other: exp.Expression) -> exp.Expression:
    """A quoted literal is of the other side's type; beside a time, an interval."""
    if type_of(side).family is not Family.UNKNOWN:
        return side
    if type_of(other).family in _INSTANTS and isinstance(side, exp.Literal):
        return coerced(side, t.INTERVAL)
    return side if type_of(other).family is Family.UNKNOWN else coerced(side, t.without_modifier(type_of(other)))


def _numbers(node: exp.Expression, left: exp.Expression, right: exp.Expression) -> exp.Expression:
    if isinstance(node, exp.Mod) and Family.FLOAT in (type_of(left).family, type_of(right).family):
        _refuse_operator(node, left, right)
    for side, written in ((left, node.this), (right, node.expression)):
        if type_of(side).has_no_scale:
            refuse_without_scale(written, type_of(side))
    type_ = arithmetic(type(node), type_of(left), type_of(right), node)
    pair = [_operand(side, type_, node) for side in (left, right)]
    result = type(node)(this=pair[0], expression=pair[1])
    return typed(result, type_, nullable=strict([left, right]))


def _operand(side: exp.Expression, result: SqlType, node: exp.Expression) -> exp.Expression:
    """In numerics, integers become numerics of scale 0, and operands of + - % get the result's scale."""
    if result.family is not Family.NUMERIC:
        return coerced(side, result)
    digits, scale = digits_and_scale(type_of(side))
    if type_of(side).family is Family.INTEGER:
        return coerced(side, t.numeric(digits, scale))
    return side


def _instant_type(operator: type[exp.Expression], left: SqlType, right: SqlType) -> SqlType | None:
    plus, minus = operator is exp.Add, operator is exp.Sub
    match left.family, right.family:
        case (Family.DATE, Family.INTEGER) if plus or minus:
            return t.DATE if right.name != "bigint" else None
        case (Family.INTEGER, Family.DATE) if plus:
            return t.DATE if left.name != "bigint" else None
        case (Family.DATE, Family.DATE) if minus:
            return t.INTEGER
        case (Family.DATE, Family.INTERVAL) if plus or minus:
            return t.TIMESTAMP
        case (Family.TIMESTAMP | Family.TIMESTAMPTZ, Family.INTERVAL) if plus or minus:
            return left
        case (Family.INTERVAL, Family.TIMESTAMP | Family.TIMESTAMPTZ) if plus:
            return right
        case (Family.INTERVAL, Family.DATE) if plus:
            return t.TIMESTAMP
        case (a, b) if minus and a in _INSTANTS and b in _INSTANTS:
            return t.INTERVAL
        case (Family.INTERVAL, Family.INTERVAL) if plus or minus:
            return t.INTERVAL
    return None


def _negated(node: exp.Expression, bind: Bind) -> exp.Expression:
    value = bind(node.this)
    if not is_number(type_of(value)):
        _refuse_operator(node, value)
    if type_of(value).has_no_scale:
        refuse_without_scale(node, type_of(value))
    return typed(exp.Neg(this=value), t.without_modifier(type_of(value)), nullable=nullable(value))


def _comparison(node: exp.Expression, bind: Bind) -> exp.Expression:
    if isinstance(node.this, exp.Tuple) and isinstance(node.expression, exp.Tuple):
        return _tuples(node, bind)
    if isinstance(node.expression, exp.Any):
        return _any(node, node.expression.this.unnest(), bind)
    if isinstance(node.expression, exp.Anonymous) and node.expression.name.lower() == "all":
        return _none(node, bind)
    pair, type_ = to_common([bind(node.this), bind(node.expression)], node)
    check_comparable(type_, node, by_order=isinstance(node, _ORDERING))
    distinct = isinstance(node, (exp.NullSafeEQ, exp.NullSafeNEQ))
    result = type(node)(this=pair[0], expression=pair[1])
    return typed(result, t.BOOLEAN, nullable=not distinct and any_nullable(pair))


def check_comparable(type_: SqlType, at: exp.Expression, *, by_order: bool) -> None:
    needed = Comparable.BY_ORDER if by_order else Comparable.BY_EQUALITY
    if type_.comparable >= needed:
        return
    hint = "cast it to text: (…)::text"
    if type_.family is Family.JSON:
        hint = "compare one of its fields: document ->> 'field'"
    raise refusal(
        Reason.NOT_COMPARABLE,
        f"{'the order' if by_order else 'the equality'} of {type_} is not known to views",
        at,
        hint=hint,
    )


def check_key(type_: SqlType, at: exp.Expression) -> None:
    """Of what rows are grouped, joined or made distinct by."""
    check_comparable(type_, at, by_order=False)
    if type_.is_key:
        return
    if type_.has_no_scale:
        refuse_without_scale(at, type_)
    raise refusal(
        Reason.NOT_COMPARABLE,
        f"equal values of {type_} may be written differently, so it cannot be a key",
        at,
        hint="extract(epoch from …) of an interval",
    )


def _tuples(node: exp.Expression, bind: Bind) -> exp.Expression:
    left, right = node.this.expressions, node.expression.expressions
    if not isinstance(node, (exp.EQ, exp.NEQ)) or len(left) != len(right):
        raise refusal(Reason.UNSUPPORTED, "rows are compared by = and <> only", node, hint="compare column by column")
    equal: exp.Expression | None = None
    for a, b in zip(left, right, strict=True):
        pair = _comparison(exp.EQ(this=a.copy(), expression=b.copy()), bind)
        equal = pair if equal is None else _logic(exp.And, equal, pair)
    assert equal is not None
    return equal if isinstance(node, exp.EQ) else typed(exp.Not(this=equal), t.BOOLEAN, nullable=nullable(equal))


def _any(node: exp.Expression, inner: exp.Expression, bind: Bind) -> exp.Expression:
    """value = ANY (array)."""
    if isinstance(inner, exp.Query):
        raise refusal(Reason.SUBQUERY, "ANY of a subquery", node, hint="value IN (SELECT …)")
    value, array = bind(node.this), bind(inner)
    if type_of(array).family is Family.UNKNOWN:
        array = coerced(array, t.array_of(t.without_modifier(type_of(value))))
    if not isinstance(node, exp.EQ) or type_of(array).family is not Family.ARRAY:
        _refuse_operator(node, value, array)
    element = type_of(array).element
    pair, type_ = to_common([value, typed(exp.Null(), element)], node)
    check_key(type_, node)
    if type_ != element and type_.duckdb != element.duckdb:
        _refuse_operator(node, value, array)
    return typed(exp.EQ(this=pair[0], expression=exp.Any(this=array)), t.BOOLEAN)


def _none(node: exp.Expression, bind: Bind) -> exp.Expression:
    """value <> ALL (array)."""
    if not isinstance(node, exp.NEQ) or len(node.expression.expressions) != 1:
        raise refusal(
            Reason.UNSUPPORTED, "ALL is accepted as <> ALL (array) only", node, hint="NOT (value = ANY (array))"
        )
    found = _any(exp.EQ(this=node.this.copy(), expression=exp.Null()), node.expression.expressions[0], bind)
    return typed(exp.Not(this=found), t.BOOLEAN)


def _between(node: exp.Expression, bind: Bind) -> exp.Expression:
    if node.args.get("symmetric"):
        raise refusal(Reason.UNSUPPORTED, "BETWEEN SYMMETRIC", node, hint="x BETWEEN least(a, b) AND greatest(a, b)")
    low = exp.GTE(this=node.this.copy(), expression=node.args["low"].copy())
    high = exp.LTE(this=node.this.copy(), expression=node.args["high"].copy())
    return _logic(exp.And, _comparison(low, bind), _comparison(high, bind))


def _in(node: exp.Expression, bind: Bind) -> exp.Expression:
    if node.args.get("query") is not None:
        raise refusal(
            Reason.SUBQUERY,
            "EXISTS and IN with a subquery stand in WHERE, joined by AND",
            node,
            hint="write the cases as UNION, or join the subquery in FROM",
        )
    if isinstance(node.this, exp.Tuple):
        matches = [_tuples(exp.EQ(this=node.this.copy(), expression=item.copy()), bind) for item in node.expressions]
        found = matches[0]
        for match in matches[1:]:
            found = _logic(exp.Or, found, match)
        return found
    items, type_ = to_common([bind(node.this), *map(bind, node.expressions)], node)
    check_key(type_, node)
    return typed(exp.In(this=items[0], expressions=items[1:]), t.BOOLEAN, nullable=any_nullable(items))


def _logic(kind: type[exp.And | exp.Or], left: exp.Expression, right: exp.Expression) -> exp.Expression:
    return typed(kind(this=left, expression=right), t.BOOLEAN, nullable=any_nullable((left, right)))


def _connected(node: exp.Expression, bind: Bind) -> exp.Expression:
    assert isinstance(node, (exp.And, exp.Or))
    return _logic(type(node), _boolean(node.this, bind), _boolean(node.expression, bind))


def _not(node: exp.Expression, bind: Bind) -> exp.Expression:
    value = _boolean(node.this, bind)
    return typed(exp.Not(this=value), t.BOOLEAN, nullable=nullable(value))


def _boolean(node: exp.Expression, bind: Bind) -> exp.Expression:
    value = bind(node)
    if type_of(value).family is Family.UNKNOWN:
        return coerced(value, t.BOOLEAN)
    if type_of(value) != t.BOOLEAN:
        raise refusal(
            Reason.TYPE_MISMATCH, f"a {type_of(value)} where a boolean is needed", node, hint="compare it: … = true"
        )
    return value


def _is(node: exp.Expression, bind: Bind) -> exp.Expression:
    """IS [NOT] NULL, TRUE, FALSE; UNKNOWN is NULL of a boolean."""
    value, what = bind(node.this), node.expression
    if isinstance(what, exp.Boolean):
        value = _boolean(node.this, bind)
    elif not isinstance(what, exp.Null):
        raise refusal(
            Reason.UNSUPPORTED, f"{node.sql('postgres')[:60]} is not accepted", node, hint="IS NULL, IS TRUE, IS FALSE"
        )
    result = typed(exp.Is(this=value, expression=what.copy()), t.BOOLEAN, nullable=False)
    return typed(exp.Not(this=result), t.BOOLEAN, nullable=False) if node.args.get("negate") else result


def _like(node: exp.Expression, bind: Bind) -> exp.Expression:
    """ILIKE folds case as collation C does: ASCII only, which is what our lower() does."""
    pair = [coerced(side, t.TEXT) for side in (bind(node.this), bind(node.expression))]
    for side in pair:
        if type_of(side).family is not Family.TEXT:
            _refuse_operator(node, *pair)
    if isinstance(node, exp.ILike):
        pair = [RULES["lower"].bind("lower", [side], node) for side in pair]
    result = typed(exp.Like(this=pair[0], expression=pair[1]), t.BOOLEAN, nullable=any_nullable(pair))
    return typed(exp.Not(this=result), t.BOOLEAN, nullable=nullable(result)) if node.args.get("negate") else result


def _escape(node: exp.Expression, bind: Bind) -> exp.Expression:
    escape = node.expression
    if not isinstance(escape, exp.Literal) or len(escape.name) != 1 or not isinstance(node.this, exp.Like):
        raise refusal(Reason.UNSUPPORTED, "ESCAPE is one written character", node, hint="LIKE '…' ESCAPE '!'")
    like = _like(node.this, bind)
    negated = isinstance(like, exp.Not)
    bare = like.this if negated else like
    result = typed(exp.Escape(this=bare, expression=coerced(bind(escape), t.TEXT)), t.BOOLEAN, nullable=nullable(bare))
    return typed(exp.Not(this=result), t.BOOLEAN, nullable=nullable(bare)) if negated else result


def _concatenated(node: exp.Expression, bind: Bind) -> exp.Expression:
    left, right = bind(node.this), bind(node.expression)
    arrays = [type_of(side).family is Family.ARRAY for side in (left, right)]
    if any(arrays):
        name = "array_cat" if all(arrays) else "array_append" if arrays[0] else "array_prepend"
        return RULES[name].bind(name, [left, right], node)
    if not {Family.TEXT, Family.UNKNOWN} & {type_of(left).family, type_of(right).family}:
        _refuse_operator(node, left, right)
    pair = [as_text(side, node) for side in (left, right)]
    return typed(exp.DPipe(this=pair[0], expression=pair[1]), t.TEXT, nullable=any_nullable(pair))


def _refuse_operator(node: exp.Expression, *operands: exp.Expression) -> NoReturn:
    types = " and ".join(str(type_of(operand)) for operand in operands)
    raise refusal(
        Reason.TYPE_MISMATCH,
        f"{node.key} over {types} is not computed by views",
        node,
        hint="cast an operand, such as (…)::text",
    )


OPERATORS: Final[dict[type[exp.Expression], Callable[[exp.Expression, Bind], exp.Expression]]] = {
    **dict.fromkeys((exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod), _arithmetic),
    exp.Neg: _negated,
    **dict.fromkeys((exp.EQ, exp.NEQ, *_ORDERING, exp.NullSafeEQ, exp.NullSafeNEQ), _comparison),
    exp.Between: _between,
    exp.In: _in,
    **dict.fromkeys((exp.And, exp.Or), _connected),
    exp.Not: _not,
    exp.Is: _is,
    **dict.fromkeys((exp.Like, exp.ILike), _like),
    exp.Escape: _escape,
    exp.DPipe: _concatenated,
}

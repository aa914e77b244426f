"""Aggregates: which there are, and their types. The order in which array_agg and its kin see their rows must be
written: without it Postgres itself gives one order today and another tomorrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from sqlglot import exp

from views import sqltypes as t
from views.refusals import Reason, refusal
from views.sql.coercion import coerced, numeric_result, refuse_without_scale
from views.sql.functions.documents import check_json_value
from views.sql.functions.rule import constant_text, wrong_arguments
from views.sql.operators import check_comparable, check_key
from views.sql.typed import call, type_of, typed
from views.sqltypes import NUMERIC_DIGITS_MAX, Comparable, Family, SqlType

if TYPE_CHECKING:
    from views.sql.expressions import Binder

AGGREGATE_CLASSES: Final = (
    *(exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.LogicalAnd, exp.LogicalOr, exp.ArrayAgg),
)
_TIE_BREAK: Final = "tie_break"
ORDERED_NAMES: Final = ("string_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg")
AGGREGATE_NAMES: Final = (*ORDERED_NAMES, "every")


def is_aggregate(node: exp.Expression) -> bool:
    if isinstance(node, exp.Filter):
        return True
    return isinstance(node, AGGREGATE_CLASSES) or (isinstance(node, exp.Anonymous) and node.name in ORDERED_NAMES)


def is_count(node: exp.Expression) -> bool:
    """Over no rows it is 0; all others are NULL."""
    return isinstance(node.this if isinstance(node, exp.Filter) else node, exp.Count)


def bind_aggregate(node: exp.Expression, binder: Binder) -> exp.Expression:
    if not isinstance(node, exp.Filter):
        return _bound(node, binder)
    if not is_aggregate_call(node.this):
        raise refusal(Reason.UNSUPPORTED, "FILTER belongs to an aggregate", node, hint="count(*) FILTER (WHERE …)")
    inner = _bound(node.this, binder)
    where = exp.Where(this=binder.predicate(node.expression.this))
    return typed(exp.Filter(this=inner, expression=where), type_of(inner), nullable=not isinstance(inner, exp.Count))


def is_aggregate_call(node: exp.Expression) -> bool:
    return isinstance(node, AGGREGATE_CLASSES) or (
        isinstance(node, exp.Anonymous) and node.name.lower() in AGGREGATE_NAMES
    )


def _bound(node: exp.Expression, binder: Binder) -> exp.Expression:
    arguments = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
    arguments, order, distinct = _parts(arguments, node)
    name = node.name.lower() if isinstance(node, exp.Anonymous) else ""
    if name == "every":
        node, name = exp.LogicalAnd(this=arguments[0]), ""
    if isinstance(node, exp.Count) and isinstance(arguments[0], exp.Star):
        return typed(exp.Count(this=exp.Star()), t.BIGINT, nullable=False)
    values = _values(name, arguments, binder)
    terms = [_term(term, binder) for term in order]
    if name in ORDERED_NAMES or isinstance(node, exp.ArrayAgg):
        return _ordered(node, name, values, terms, distinct=distinct)
    if len(values) != 1:
        raise wrong_arguments(node.key, values, node, "one argument; count(*) over a SELECT DISTINCT in FROM")
    return _plain(node, values[0], distinct=distinct)


def _parts(
    arguments: Sequence[exp.Expression], node: exp.Expression
) -> tuple[list[exp.Expression], list[exp.Expression], bool]:
    """The arguments, the terms of ORDER BY, and whether DISTINCT: sqlglot hangs the order on the last argument."""
    plain = list(arguments)
    order: list[exp.Expression] = []
    if plain and isinstance(plain[-1], exp.Order):
        order = plain[-1].expressions
        plain[-1] = plain[-1].this
    distinct = bool(plain) and isinstance(plain[0], exp.Distinct)
    if distinct:
        plain = [*plain[0].expressions, *plain[1:]]
    if not plain or (distinct and isinstance(plain[0], exp.Tuple)):
        raise refusal(
            Reason.UNSUPPORTED, "DISTINCT of several columns", node, hint="count(*) over a SELECT DISTINCT in FROM"
        )
    return plain, order, distinct


def _values(name: str, arguments: Sequence[exp.Expression], binder: Binder) -> list[exp.Expression]:
    from views.sql.calls import whole_row

    is_json = name in ("json_agg", "jsonb_agg")
    row = whole_row(binder, arguments[0], binary=name == "jsonb_agg") if is_json else None
    return [row if row is not None else binder.bind(arguments[0]), *map(binder.bind, arguments[1:])]


def _term(term: exp.Expression, binder: Binder) -> exp.Ordered:
    return ordered(binder.bind(term.this), term)


def ordered(value: exp.Expression, term: exp.Expression) -> exp.Ordered:
    """A term of an order, with the place of NULLs written out."""
    if type_of(value).family is Family.UNKNOWN:
        value = coerced(value, t.TEXT)
    check_comparable(type_of(value), term, by_order=True)
    return exp.Ordered(this=value, desc=bool(term.args.get("desc")), nulls_first=bool(term.args.get("nulls_first")))


def _plain(node: exp.Expression, value: exp.Expression, *, distinct: bool) -> exp.Expression:
    kind = type(node)
    if type_of(value).family is Family.UNKNOWN and not isinstance(node, exp.Count):
        raise wrong_arguments(node.key, [value], node)
    type_ = _TYPES[kind](value, node)
    if distinct:
        check_key(type_of(value), node)
    argument = exp.Distinct(expressions=[value]) if distinct and kind in (exp.Count, exp.Sum, exp.Avg) else value
    return typed(kind(this=argument), type_, nullable=kind is not exp.Count)


def _ordered(
    node: exp.Expression, name: str, values: list[exp.Expression], order: list[exp.Ordered], *, distinct: bool
) -> exp.Expression:
    values, type_ = _ordered_type(node, name, values)
    if not order and not (distinct and type_of(values[0]).comparable is Comparable.BY_ORDER):
        raise refusal(
            Reason.TIES,
            f"{name or 'array_agg'} has no ORDER BY, so its order is not decided",
            node,
            hint=f"{name or 'array_agg'}(… ORDER BY id)",
        )
    if distinct:
        check_comparable(type_of(values[0]), node, by_order=True)
        check_key(type_of(values[0]), node)
        order = order or [exp.Ordered(this=values[0].copy(), desc=False, nulls_first=False)]
    else:
        order = [*order, *_tie_break(values, order)]
    first = exp.Distinct(expressions=[values[0]]) if distinct else values[0]
    wrapped = exp.Order(this=first, expressions=order)
    if not name:
        return typed(exp.ArrayAgg(this=wrapped), type_)
    return call(name, [wrapped, *values[1:]], type_)


def _tie_break(values: list[exp.Expression], order: list[exp.Ordered]) -> list[exp.Ordered]:
    """Rows that are equal in order are told apart by what is collected of them; if that is equal too, none can tell."""
    sorted_by = [term.this for term in order]
    extra: list[exp.Ordered] = []
    for value in values:
        parts = _comparable_parts(value)
        extra += [_tie_breaking(part) for part in parts if part not in sorted_by]
        sorted_by += parts
    return extra


def _tie_breaking(part: exp.Expression) -> exp.Ordered:
    term = exp.Ordered(this=part.copy(), desc=False, nulls_first=False)
    term.meta[_TIE_BREAK] = True
    return term


def without_tie_break(
    aggregate: exp.Expression, is_decided: Callable[[Sequence[exp.Expression]], bool]
) -> exp.Expression:
    """As written, if what was written decides."""
    lean = aggregate.copy()
    for order in list(lean.find_all(exp.Order)):
        written = [term for term in order.expressions if not term.meta.get(_TIE_BREAK)]
        if is_decided([term.this for term in written]):
            order.set("expressions", written)
    return lean


def _comparable_parts(value: exp.Expression) -> list[exp.Expression]:
    """The value, or for a document the columns that it is made of."""
    if type_of(value).comparable is Comparable.BY_ORDER or type_of(value).family is Family.ENUM:
        return [] if isinstance(value, exp.Literal) else [value]
    if type_of(value).family is Family.JSON and not isinstance(value, exp.Column):
        return list(dict.fromkeys(found for found in value.find_all(exp.Column)))
    return [value]


def _ordered_type(
    node: exp.Expression, name: str, values: list[exp.Expression]
) -> tuple[list[exp.Expression], SqlType]:
    if not name:
        type_ = type_of(values[0])
        if type_.family in (Family.UNKNOWN, Family.ARRAY) or len(values) != 1:
            raise wrong_arguments("array_agg", values, node, "array_agg(value ORDER BY …)")
        return values, t.array_of(t.without_modifier(type_))
    if name == "string_agg":
        if len(values) != 2 or constant_text(values[1]) is None:
            raise wrong_arguments(name, values, node, "string_agg(text, 'separator' ORDER BY …)")
        texts = [coerced(value, t.TEXT) for value in values]
        if type_of(values[0]).family not in (Family.TEXT, Family.UNKNOWN):
            raise wrong_arguments(name, values, node, "string_agg(text, 'separator' ORDER BY …)")
        return texts, t.TEXT
    if len(values) != (2 if "object" in name else 1) or (
        "object" in name and type_of(values[0]).family is not Family.TEXT
    ):
        raise wrong_arguments(
            name, values, node, f"{name}(value ORDER BY …)", "json_object_agg(text, value ORDER BY …)"
        )
    checked = [check_json_value(value, node) for value in values]
    return checked, t.JSONB if name.startswith("jsonb") else t.JSON


def _sum(value: exp.Expression, node: exp.Expression) -> SqlType:
    type_ = type_of(value)
    match type_.family:
        case Family.INTEGER:
            return t.BIGINT if type_.name != "bigint" else t.numeric(NUMERIC_DIGITS_MAX, 0)
        case Family.NUMERIC:
            if type_.scale is None:
                refuse_without_scale(node, type_)
            return numeric_result(NUMERIC_DIGITS_MAX, type_.scale or 0, node, scale_varies=type_.scale_varies)
        case Family.FLOAT:
            return type_
    raise wrong_arguments("sum", [value], node, "sum of a number")


def _average(value: exp.Expression, node: exp.Expression) -> SqlType:
    total = _sum(value, node)
    if total.scale_varies:
        refuse_without_scale(node, total)
    return t.DOUBLE if total.family is Family.FLOAT else t.NUMERIC


def _extreme(value: exp.Expression, node: exp.Expression) -> SqlType:
    check_comparable(type_of(value), node, by_order=True)
    if type_of(value).family in (Family.INTERVAL, Family.BOOLEAN) or type_of(value).has_no_scale:
        raise wrong_arguments(node.key, [value], node)
    return t.without_modifier(type_of(value))


def _boolean(value: exp.Expression, node: exp.Expression) -> SqlType:
    if type_of(value) != t.BOOLEAN:
        raise wrong_arguments(node.key, [value], node, "bool_and(boolean)", "bool_or(boolean)")
    return t.BOOLEAN


_TYPES: Final[dict[type[exp.Expression], Callable[[exp.Expression, exp.Expression], SqlType]]] = {
    exp.Count: lambda value, node: t.BIGINT,
    exp.Sum: _sum,
    exp.Avg: _average,
    exp.Min: _extreme,
    exp.Max: _extreme,
    exp.LogicalAnd: _boolean,
    exp.LogicalOr: _boolean,
}

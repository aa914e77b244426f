"""coalesce, nullif, greatest, least, concat: their arguments meet in one type, and NULLs have rules of their own."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from views import sqltypes as t
from views.sql.casts import as_text
from views.sql.coercion import to_common
from views.sql.functions.rule import Arguments, Render, Rule, template, wrong_arguments
from views.sql.typed import call, nullable, type_of
from views.sqltypes import Comparable


def _coalesce(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    if not arguments:
        raise wrong_arguments(name, arguments, at)
    taken, type_ = to_common(arguments, at)
    return call(name, taken, type_, nullable=all(map(nullable, taken)))


def _nullif(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    if len(arguments) != 2:
        raise wrong_arguments(name, arguments, at, "nullif(value, value)")
    taken, type_ = to_common(arguments, at)
    _check(name, taken, at, Comparable.BY_EQUALITY)
    return call(name, taken, type_)


def _extreme(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    if not arguments:
        raise wrong_arguments(name, arguments, at)
    taken, type_ = to_common(arguments, at)
    _check(name, taken, at, Comparable.BY_ORDER)
    return call(name, taken, type_, nullable=all(map(nullable, taken)))


def _check(name: str, arguments: Arguments, at: exp.Expression, needed: Comparable) -> None:
    if type_of(arguments[0]).comparable < needed or not type_of(arguments[0]).is_key:
        raise wrong_arguments(name, arguments, at)


def _concat(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    if not arguments:
        raise wrong_arguments(name, arguments, at)
    return call(name, [as_text(argument, at) for argument in arguments], t.TEXT, nullable=name == "concat_ws")


def _listed(name: str) -> Rule:
    def render(node: exp.Anonymous, inner: Render) -> str:
        return f"{name}({', '.join(map(inner, node.expressions))})"

    return Rule({"coalesce": _coalesce, "concat": _concat, "concat_ws": _concat}.get(name, _extreme), render)


RULES: Final = {
    **{name: _listed(name) for name in ("coalesce", "greatest", "least", "concat", "concat_ws")},
    "nullif": Rule(_nullif, template("nullif({0}, {1})")),
}

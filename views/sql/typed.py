"""Bound expressions: sqlglot trees with the meaning they have in Postgres, every part of which knows its type.

The type and whether NULL is possible are kept in the expression's meta, so they are copied and pickled with it and do
not take part in equality. Columns are named by one quoted identifier; calls of functions are exp.Anonymous by the name
that Postgres has for them, so that one table of functions serves all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from sqlglot import exp

from views.plan import Field, Node
from views.sqltypes import BOOLEAN, TEXT, UNKNOWN, SqlType

_TYPE, _NULLABLE = "sql_type", "nullable"
E = TypeVar("E", bound=exp.Expression)


def typed(expression: E, type_: SqlType, *, nullable: bool = True) -> E:
    expression.meta[_TYPE] = type_
    expression.meta[_NULLABLE] = nullable
    return expression


def type_of(expression: exp.Expression) -> SqlType:
    found = expression.meta.get(_TYPE)
    return found if isinstance(found, SqlType) else UNKNOWN


def has_type(expression: exp.Expression) -> bool:
    return _TYPE in expression.meta


def nullable(expression: exp.Expression) -> bool:
    return bool(expression.meta.get(_NULLABLE, True))


def any_nullable(expressions: Iterable[exp.Expression]) -> bool:
    return any(nullable(expression) for expression in expressions)


def column(field: Field) -> exp.Column:
    return typed(exp.column(exp.to_identifier(field.name, quoted=True)), field.type, nullable=field.nullable)


def column_of(node: Node, name: str) -> exp.Column:
    return column(next(field for field in node.fields if field.name == name))


def field(name: str, expression: exp.Expression) -> Field:
    """What a column computed by the expression is; a literal of no type is a text, as in Postgres."""
    type_ = type_of(expression)
    return Field(name, TEXT if type_ == UNKNOWN else type_, nullable(expression))


def call(name: str, arguments: Iterable[exp.Expression], type_: SqlType, *, nullable: bool = True) -> exp.Anonymous:
    return typed(exp.Anonymous(this=name, expressions=list(arguments)), type_, nullable=nullable)


def columns_in(expression: exp.Expression) -> frozenset[str]:
    """The names of the columns that it reads."""
    return frozenset(found.name for found in expression.find_all(exp.Column))


def is_column(expression: exp.Expression) -> bool:
    return isinstance(expression, exp.Column)


def substitute(expression: exp.Expression, values: Mapping[str, exp.Expression]) -> exp.Expression:
    """With columns replaced by what they stand for."""
    return rewrite(expression, lambda part: values.get(part.name) if isinstance(part, exp.Column) else None)


def rewrite(
    expression: exp.Expression, replacement: Callable[[exp.Expression], exp.Expression | None]
) -> exp.Expression:
    """Top down; what was put in is not looked at again. The given tree is left alone."""

    def visit(part: exp.Expression) -> exp.Expression:
        new = replacement(part)
        if new is not None:
            return new.copy()
        for name, value in list(part.args.items()):
            if isinstance(value, exp.Expression):
                part.set(name, visit(value))
            elif isinstance(value, list):
                part.set(name, [visit(v) if isinstance(v, exp.Expression) else v for v in value])
        return part

    return visit(expression.copy())


def conjuncts(predicate: exp.Expression | None) -> list[exp.Expression]:
    """The parts that must all hold."""
    if predicate is None:
        return []
    if isinstance(predicate, exp.Paren):
        return conjuncts(predicate.this)
    if isinstance(predicate, exp.And):
        return [*conjuncts(predicate.this), *conjuncts(predicate.expression)]
    return [predicate]


def conjunction(parts: Iterable[exp.Expression]) -> exp.Expression | None:
    """The inverse of `conjuncts`; None for no part."""
    joined: exp.Expression | None = None
    for part in parts:
        if joined is None:
            joined = part.copy()
        else:
            both = exp.And(this=joined, expression=part.copy())
            joined = typed(both, BOOLEAN, nullable=any_nullable((joined, part)))
    return joined

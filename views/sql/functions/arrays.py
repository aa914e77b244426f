"""Arrays: one dimension, counted from 1, as they come out of the log."""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from views import sqltypes as t
from views.sql.casts import text_of
from views.sql.coercion import coerced, common, strict, to_common
from views.sql.functions.rule import Arguments, Render, Rule, constant_integer, template, wrong_arguments
from views.sql.typed import call, type_of
from views.sqltypes import Family

CONSTRUCTOR: Final = "array"
SUBSCRIPT: Final = "array_subscript"


def _length(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    wanted = 2 if name == "array_length" else 1
    if len(arguments) != wanted or not _is_array(arguments[0]) or (wanted == 2 and constant_integer(arguments[1]) != 1):
        raise wrong_arguments(name, arguments, at, "array_length(array, 1)", "cardinality(array)")
    return call(name, arguments, t.INTEGER)


def _two_arrays(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    taken, type_ = to_common(arguments, at)
    if len(taken) != 2 or type_.family is not Family.ARRAY:
        raise wrong_arguments(name, arguments, at, f"{name}(array, array)")
    if name == "array_cat":
        return call(name, taken, type_, nullable=strict(taken))
    if not type_.is_key:
        raise wrong_arguments(name, arguments, at, f"{name} of arrays whose elements can be compared")
    return call(name, taken, t.BOOLEAN, nullable=strict(taken))


def _with_element(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    place = 1 if name == "array_prepend" else 0
    if len(arguments) != 2 or not _is_array(arguments[place]):
        raise wrong_arguments(name, arguments, at, f"{name} of an array and an element")
    type_ = type_of(arguments[place])
    common([type_.element, type_of(arguments[1 - place])], at)
    element = coerced(arguments[1 - place], type_.element)
    if name == "array_remove" and not type_.is_key:
        raise wrong_arguments(name, arguments, at)
    pair = [element, arguments[1]] if place else [arguments[0], element]
    return call(name, pair, type_)


def _joined(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    if len(arguments) not in (2, 3) or not _is_array(arguments[0]):
        raise wrong_arguments(name, arguments, at, "array_to_string(array, separator)")
    taken = [arguments[0], *(coerced(argument, t.TEXT) for argument in arguments[1:])]
    return call(name, taken, t.TEXT, nullable=strict(taken))


def _constructed(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    if not arguments:
        raise wrong_arguments(name, arguments, at, "ARRAY[value, …]")
    taken, type_ = to_common(arguments, at)
    if type_.family is Family.ARRAY:
        raise wrong_arguments(name, arguments, at, "arrays of one dimension")
    return call(name, taken, t.array_of(t.without_modifier(type_)), nullable=False)


def _subscript(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    place = constant_integer(arguments[1])
    if not _is_array(arguments[0]) or place is None or place < 1:
        raise wrong_arguments(name, arguments, at, "array[n] with a number from 1")
    return call(name, arguments, type_of(arguments[0]).element)


def _is_array(argument: exp.Expression) -> bool:
    return type_of(argument).family is Family.ARRAY


def _render_joined(node: exp.Anonymous, render: Render) -> str:
    array, separator, *instead = map(render, node.expressions)
    element = text_of("x", type_of(node.expressions[0]).element)
    kept = f"list_filter({array}, lambda x: x IS NOT NULL)"
    shown = f"list_transform({kept}, lambda x: {element})"
    if instead:
        shown = f"list_transform({array}, lambda x: coalesce({element}, {instead[0]}))"
        shown = f"CASE WHEN {instead[0]} IS NULL THEN list_transform({kept}, lambda x: {element}) ELSE {shown} END"
    text = f"coalesce(array_to_string({shown}, {separator}), '')"
    return f"CASE WHEN {array} IS NULL OR {separator} IS NULL THEN NULL WHEN len({array}) = 0 THEN '' ELSE {text} END"


def _render_length(node: exp.Anonymous, render: Render) -> str:
    length = f"len({render(node.expressions[0])})"
    return f"CAST({length if node.name == 'cardinality' else f'nullif({length}, 0)'} AS INTEGER)"


def _render_array(node: exp.Anonymous, render: Render) -> str:
    return f"[{', '.join(map(render, node.expressions))}]"


RULES: Final = {
    "array_length": Rule(_length, _render_length),
    "cardinality": Rule(_length, _render_length),
    "array_cat": Rule(
        _two_arrays, template("CASE WHEN {0} IS NULL THEN {1} WHEN {1} IS NULL THEN {0} ELSE {0} || {1} END")
    ),
    "arraycontains": Rule(_two_arrays, template("list_has_all({0}, {1})")),
    "arrayoverlap": Rule(_two_arrays, template("list_has_any({0}, {1})")),
    "array_append": Rule(_with_element, template("coalesce({0}, []) || [{1}]")),
    "array_prepend": Rule(_with_element, template("[{0}] || coalesce({1}, [])")),
    "array_remove": Rule(_with_element, template("list_filter({0}, lambda x: x IS DISTINCT FROM {1})")),
    "array_to_string": Rule(_joined, _render_joined),
    CONSTRUCTOR: Rule(_constructed, _render_array),
    SUBSCRIPT: Rule(_subscript, template("{0}[{1}]")),
}

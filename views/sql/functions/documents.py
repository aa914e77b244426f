"""JSON: built as the text that Postgres would build, read without losing a digit.

DuckDB's own JSON rewrites numbers, so documents are joined from the texts of their values, and fields are cut out of
the text as they stand there.
"""

from __future__ import annotations

from typing import Final

from sqlglot import exp

from views import sqltypes as t
from views.sql.casts import refuse_varying, text_of
from views.sql.coercion import coerced, strict
from views.sql.duck_values import json_string
from views.sql.functions.rule import (
    Arguments,
    Render,
    Rule,
    constant_integer,
    constant_text,
    template,
    wrong_arguments,
)
from views.sql.typed import call, nullable, type_of
from views.sqltypes import Family, SqlType

ROW: Final = "row_to_json"
WHOLE_ROW: Final = "whole_row"
"""A row that json_agg takes as such: Postgres puts each on a line of its own."""


def check_json_value(argument: exp.Expression, at: exp.Expression) -> exp.Expression:
    """As a value inside a document. Raises ViewRefused for one whose text cannot be given exactly."""
    value = coerced(argument, t.TEXT) if type_of(argument).family is Family.UNKNOWN else argument
    type_ = type_of(value)
    if type_.scale_varies and not _pushed(value):
        refuse_varying(at)
    inner = type_.element if type_.family is Family.ARRAY else type_
    if inner.family is Family.OTHER and (inner.duckdb != "VARCHAR" or inner.name in ("money", "oid")):
        raise wrong_arguments("to_json", [value], at)
    return value


def _pushed(value: exp.Expression) -> bool:
    """A coalesce or CASE in sight: the text is taken of its branches, which have one scale each."""
    return all(not type_of(branch).scale_varies for branch in _branches(value))


def _branches(value: exp.Expression) -> list[exp.Expression]:
    if isinstance(value, exp.Anonymous) and value.name == "coalesce":
        return [_uncast(branch) for branch in value.expressions]
    if isinstance(value, exp.Case):
        results = [*(i.args["true"] for i in value.args["ifs"]), *filter(None, [value.args.get("default")])]
        return [_uncast(branch) for branch in results]
    return [value]


def _uncast(value: exp.Expression) -> exp.Expression:
    """Without the cast to the type that the branches meet in."""
    return value.this if isinstance(value, exp.Cast) and type_of(value).scale_varies else value


def _object(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    keys = [constant_text(argument) for argument in arguments[::2]]
    if len(arguments) % 2 or None in keys:
        raise wrong_arguments(name, arguments, at, f"{name}('field', value, …) with fields that are written")
    pairs = [
        (coerced(k, t.TEXT), check_json_value(v, at)) for k, v in zip(arguments[::2], arguments[1::2], strict=True)
    ]
    if name == "jsonb_build_object":
        last = {key.name: (key, value) for key, value in pairs}
        pairs = [last[k] for k in sorted(last, key=lambda k: (len(k.encode()), k.encode()))]
    taken = [part for pair in pairs for part in pair]
    return call(name, taken, t.JSONB if name.startswith("jsonb") else t.JSON, nullable=False)


def _array(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    taken = [check_json_value(argument, at) for argument in arguments]
    return call(name, taken, t.JSONB if name.startswith("jsonb") else t.JSON, nullable=False)


def _to_json(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    if len(arguments) != 1:
        raise wrong_arguments(name, arguments, at, f"{name}(value)")
    value = check_json_value(arguments[0], at)
    return call(name, [value], t.JSONB if name == "to_jsonb" else t.JSON, nullable=nullable(value))


def _field(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    """json(b)_object_field and json(b)_array_element, and the same with _text: what -> and ->> stand for."""
    document, place = arguments
    if type_of(document).family is not Family.JSON:
        raise wrong_arguments(
            "->" + (">" if name.endswith("_text") else ""), arguments, at, "json -> field", "json ->> field"
        )
    place = coerced(place, t.TEXT) if "_object_" in name else place
    result = t.TEXT if name.endswith("_text") else type_of(document)
    return call(name, [document, place], result)


def _measure(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    if len(arguments) != 1 or type_of(arguments[0]).family is not Family.JSON:
        raise wrong_arguments(name, arguments, at, f"{name}(json)")
    result = t.TEXT if name.endswith("typeof") else t.INTEGER
    return call(name, arguments, result, nullable=strict(arguments))


def _exists(name: str, arguments: Arguments, at: exp.Expression) -> exp.Expression:
    if len(arguments) != 2 or type_of(arguments[0]) != t.JSONB or constant_text(arguments[1]) is None:
        raise wrong_arguments(name, arguments, at, "jsonb ? 'field'")
    return call(name, [arguments[0], coerced(arguments[1], t.TEXT)], t.BOOLEAN, nullable=nullable(arguments[0]))


def json_of(value: exp.Expression, render: Render, *, binary: bool) -> str:
    """The text of a value inside a document; NULL is null. `binary`: as in a jsonb."""
    type_ = type_of(value)
    branches = _branches(value)
    if type_.scale_varies and len(branches) > 1 and isinstance(value, exp.Anonymous):
        shown = ", ".join(_json_text(render(branch), type_of(branch), binary) for branch in branches)
        return f"coalesce({shown}, 'null')"
    if type_.scale_varies and isinstance(value, exp.Case):
        return _json_case(value, render, binary=binary)
    return f"coalesce({_json_text(render(value), type_, binary)}, 'null')"


def _json_case(value: exp.Case, render: Render, *, binary: bool) -> str:
    def shown(branch: exp.Expression) -> str:
        bare = _uncast(branch)
        return _json_text(render(bare), type_of(bare), binary)

    whens = " ".join(f"WHEN {render(i.this)} THEN {shown(i.args['true'])}" for i in value.args["ifs"])
    default = value.args.get("default")
    return f"coalesce(CASE {whens} ELSE {shown(default) if default is not None else 'NULL'} END, 'null')"


def _json_text(sql: str, type_: SqlType, binary: bool) -> str:
    match type_.family:
        case Family.JSON:
            return sql if not binary or type_ == t.JSONB else f"hw_jsonb({sql})"
        case Family.BOOLEAN | Family.INTEGER:
            return f"CAST({sql} AS VARCHAR)"
        case Family.NUMERIC if type_.scale is not None:
            return f"CAST({sql} AS VARCHAR)"
        case Family.NUMERIC:
            return f"CASE WHEN {sql} IN ('NaN', 'Infinity', '-Infinity') THEN '\"' || {sql} || '\"' ELSE {sql} END"
        case Family.FLOAT:
            text = text_of(sql, type_)
            text = f"hw_numeric({text})" if binary else text
            return f"CASE WHEN isfinite({sql}) THEN {text} ELSE '\"' || {text_of(sql, type_)} || '\"' END"
        case Family.ARRAY:
            element = f"coalesce({_json_text('x', type_.element, binary)}, 'null')"
            separator = ", " if binary else ","
            items = f"array_to_string(list_transform({sql}, lambda x: {element}), '{separator}')"
            return f"CASE WHEN {sql} IS NULL THEN NULL ELSE '[' || coalesce({items}, '') || ']' END"
        case Family.TIMESTAMP:
            return f"('\"' || replace(CAST({sql} AS VARCHAR), ' ', 'T') || '\"')"
        case Family.TIMESTAMPTZ:
            text = f"replace(CAST({sql} AT TIME ZONE 'UTC' AS VARCHAR), ' ', 'T')"
            return f"('\"' || {text} || CASE WHEN isfinite({sql}) THEN '+00:00' ELSE '' END || '\"')"
    text = sql if type_.family is Family.OTHER else text_of(sql, type_)
    # DuckDB writes control characters with capital digits.
    return (
        f"CASE WHEN regexp_matches({text}, '[\\x00-\\x1f]') THEN hw_json_string({text}) "
        f"ELSE CAST(to_json({text}) AS VARCHAR) END"
    )


def _render_object(node: exp.Anonymous, render: Render) -> str:
    binary = node.name.startswith("jsonb")
    between = {"json_build_object": " : ", "jsonb_build_object": ": "}.get(node.name, ":")
    joined: list[str] = []
    for key, value in zip(node.expressions[::2], node.expressions[1::2], strict=True):
        lead = f"{json_string(key.name)}{between}".replace("'", "''")
        joined.append(f"'{lead}' || {json_of(value, render, binary=binary)}")
    separator = "," if node.name in (ROW, WHOLE_ROW) else ", "
    body = f" || '{separator}' || ".join(joined)
    return f"('{{' || {body} || '}}')" if joined else "'{}'"


def _render_array(node: exp.Anonymous, render: Render) -> str:
    items = [json_of(value, render, binary=node.name.startswith("jsonb")) for value in node.expressions]
    body = " || ', ' || ".join(items)
    return f"('[' || {body} || ']')" if items else "'[]'"


def _render_to_json(node: exp.Anonymous, render: Render) -> str:
    (value,) = node.expressions
    shown = json_of(value, render, binary=node.name == "to_jsonb")
    return f"CASE WHEN {render(value)} IS NULL THEN NULL ELSE {shown} END"


def _render_field(node: exp.Anonymous, render: Render) -> str:
    document, place = node.expressions
    if "_object_" in node.name:
        cut = f"hw_json_field({render(document)}, {render(place)})"
    else:
        cut = f"hw_json_element({render(document)}, {constant_integer(place) or 0})"
    return f"hw_json_unquoted({cut})" if node.name.endswith("_text") else cut


_FIELD: Final = Rule(_field, _render_field)
RULES: Final = {
    **dict.fromkeys(("json_build_object", "jsonb_build_object", ROW, WHOLE_ROW), Rule(_object, _render_object)),
    **dict.fromkeys(("json_build_array", "jsonb_build_array"), Rule(_array, _render_array)),
    **dict.fromkeys(("to_json", "to_jsonb"), Rule(_to_json, _render_to_json)),
    **{
        f"{kind}_{what}{suffix}": _FIELD
        for kind in ("json", "jsonb")
        for what in ("object_field", "array_element")
        for suffix in ("", "_text")
    },
    **dict.fromkeys(("json_array_length", "jsonb_array_length"), Rule(_measure, template("hw_json_length({0})"))),
    **dict.fromkeys(("json_typeof", "jsonb_typeof"), Rule(_measure, template("hw_json_kind({0})"))),
    "jsonb_exists": Rule(_exists, template("hw_json_has({0}, {1})")),
}

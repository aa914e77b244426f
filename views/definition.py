"""What a person writes: files of CREATE MATERIALIZED VIEW name WITH (key = '…', sinks = '…') AS SELECT …

`parse` reads them and knows no tables; views/sql plans them against a catalog. Both refuse with the place in the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from cdc.errors import ViewRefused
from views.dialect import ViewSql
from views.refusals import Reason, nearest, pointed, refusal

DIALECT: Final = ViewSql
SINKS: Final = ("cache", "search", "warehouse", "alerts")
_OPTIONS: Final = ("key", "sinks", "lookup", "cache_ttl_s", "text", "geo", "language", "partition_by")
"""Beyond the first two, what a sink is told: each sink's module says which are its own."""
_NAME_CHARACTERS_MAX: Final = 63
_NAME: Final = re.compile(r"[a-z_][a-z0-9_]*")


@dataclass(frozen=True)
class ViewDefinition:
    name: str
    key: tuple[str, ...] | None
    """As written; None leaves it to be inferred."""
    sinks: tuple[str, ...]
    sql: str
    """The SELECT, as written."""
    query: exp.Query
    text: str = ""
    """The whole file: refusals point into it."""
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    """All that WITH said, in lower case; key and sinks included."""


def parse(text: str) -> list[ViewDefinition]:
    """Every view of a file, in its order. Raises ViewRefused."""
    try:
        return _parse(text)
    except ViewRefused as refusal:
        raise pointed(refusal, text) from None


def _parse(text: str) -> list[ViewDefinition]:
    try:
        statements = sqlglot.parse(text, dialect=DIALECT)
        bodies = _bodies(text)
    except SqlglotError as error:
        raise _syntax(error) from None
    views = [_view(s, text) for s in statements if s is not None and not isinstance(s, exp.Semicolon)]
    for view in views:
        if sum(other.name == view.name for other in views) > 1:
            raise refusal(Reason.NOT_A_VIEW, f"view {view.name} is declared twice", None, hint="rename one of them")
    if len(bodies) != len(views):
        raise refusal(Reason.SYNTAX, "the statements cannot be told apart", None, hint="one file a view")
    return [
        ViewDefinition(v.name, v.key, v.sinks, body, v.query, v.text, v.options)
        for v, body in zip(views, bodies, strict=True)
    ]


def _view(statement: exp.Expr, text: str) -> ViewDefinition:
    query = statement.expression if isinstance(statement, exp.Create) else None
    properties = statement.args.get("properties") if isinstance(statement, exp.Create) else None
    written = properties.expressions if properties else []
    if not any(isinstance(p, exp.MaterializedProperty) for p in written) or not isinstance(query, exp.Query):
        raise refusal(
            Reason.NOT_A_VIEW,
            "not the declaration of a view",
            statement,
            hint="CREATE MATERIALIZED VIEW name WITH (key = 'id') AS SELECT …",
        )
    options = _options(written)
    return ViewDefinition(
        name=_name(statement.this),
        key=_words(options["key"]) if "key" in options else None,
        sinks=_sinks(options.get("sinks", ""), statement),
        sql="",
        query=query,
        text=text,
        options=options,
    )


def _name(target: exp.Expression) -> str:
    if isinstance(target, exp.Schema):
        raise refusal(
            Reason.UNSUPPORTED,
            "columns are named in the SELECT, not after the view's name",
            target,
            hint="SELECT expression AS name",
        )
    identifier = target.this
    name: str = identifier.name if identifier.args.get("quoted") else identifier.name.lower()
    if target.args.get("db") is not None or not _NAME.fullmatch(name) or len(name) > _NAME_CHARACTERS_MAX:
        raise refusal(
            Reason.NOT_A_VIEW,
            f"{target.sql(DIALECT)} cannot be the name of a view",
            target,
            detail=f"topics, indexes and tables are named after it: a-z, 0-9 and _, at most {_NAME_CHARACTERS_MAX}",
            hint="CREATE MATERIALIZED VIEW listing_card AS …",
        )
    return name


def _options(written: list[exp.Expression]) -> dict[str, str]:
    options: dict[str, str] = {}
    for item in written:
        if isinstance(item, exp.MaterializedProperty):
            continue
        name = item.name.lower()
        if type(item) is not exp.Property or name not in _OPTIONS:
            raise refusal(Reason.OPTION, f'no option "{name or item.sql(DIALECT)}"', item, hint=nearest(name, _OPTIONS))
        options[name] = item.args["value"].name
    return options


def _sinks(text: str, at: exp.Expr) -> tuple[str, ...]:
    sinks = _words(text)
    for sink in sinks:
        if sink not in SINKS:
            raise refusal(Reason.OPTION, f'no sink "{sink}"', at, hint=nearest(sink, SINKS))
    return sinks


def _words(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in text.split(",") if word.strip()))


def _bodies(text: str) -> list[str]:
    """The text after AS of every statement. AS at depth 0 is the first: WITH's options are in parentheses."""
    bodies: list[str] = []
    start: int | None = None
    depth, end, is_next = 0, 0, False
    for token in [*sqlglot.tokenize(text, dialect=DIALECT), Token(TokenType.SEMICOLON, ";")]:
        if token.token_type is TokenType.SEMICOLON:
            if start is not None:
                bodies.append(text[start:end])
            start, depth = None, 0
            continue
        depth += (token.token_type is TokenType.L_PAREN) - (token.token_type is TokenType.R_PAREN)
        if is_next:
            start, is_next = token.start, False
        if start is None and depth == 0 and token.token_type is TokenType.ALIAS:
            is_next = True
        end = token.end + 1
    return [body.strip() for body in bodies]


def _syntax(error: SqlglotError) -> ViewRefused:
    first = error.errors[0] if isinstance(error, ParseError) and error.errors else {}
    return ViewRefused(
        "the SQL cannot be read",
        reason=Reason.SYNTAX.value,
        line=int(first.get("line") or 0),
        column=max(1, int(first.get("col") or 1) - len(str(first.get("highlight") or "")) + 1),
        detail=str(first.get("description") or error).partition(" but got <Token")[0].rstrip("."),
        hint="run the SELECT in psql first",
    )

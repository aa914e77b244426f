"""What is known of a function: how a call is typed, and how DuckDB spells it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sqlglot import exp

from cdc.errors import ViewRefused
from views.refusals import Reason, refusal
from views.sql.typed import type_of

Arguments: TypeAlias = Sequence[exp.Expression]
Render: TypeAlias = Callable[[exp.Expression], str]
"""A bound expression in DuckDB's words."""


@dataclass(frozen=True, slots=True)
class Rule:
    bind: Callable[[str, Arguments, exp.Expression], exp.Expression]
    """Name, bound arguments and the place; returns the typed call. Raises ViewRefused."""
    render: Callable[[exp.Anonymous, Render], str]


def template(text: str) -> Callable[[exp.Anonymous, Render], str]:
    """{0}, {1} … are the arguments, {type} the result's type in DuckDB."""

    def spelled(call: exp.Anonymous, render: Render) -> str:
        return text.format(*map(render, call.expressions), type=type_of(call).duckdb)

    return spelled


def wrong_arguments(name: str, arguments: Arguments, at: exp.Expression, *known: str) -> ViewRefused:
    given = ", ".join(str(type_of(argument)) for argument in arguments)
    return refusal(
        Reason.TYPE_MISMATCH,
        f"no function {name}({given}) that views can compute",
        at,
        detail=f"known are {'; '.join(known)}" if known else "",
        hint="cast an argument, such as (…)::text",
    )


def constant_text(argument: exp.Expression) -> str | None:
    """The value of a quoted literal; None if it is not one."""
    return argument.name if isinstance(argument, exp.Literal) and argument.is_string else None


def constant_integer(argument: exp.Expression) -> int | None:
    bare = argument.this if isinstance(argument, exp.Neg) else argument
    if not isinstance(bare, exp.Literal) or bare.is_string or not bare.name.isdigit():
        return None
    return -int(bare.name) if isinstance(argument, exp.Neg) else int(bare.name)

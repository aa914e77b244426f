"""Why a view's SQL is not accepted: a reason that stays the same over versions, the place in the text, what to write
instead. Everything in views/sql that says no says it through `refusal`."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from enum import StrEnum

from sqlglot import exp

from cdc.errors import ViewRefused


class Reason(StrEnum):
    SYNTAX = "syntax"
    NOT_A_VIEW = "not-a-view"
    OPTION = "option"
    NOT_DETERMINISTIC = "not-deterministic"
    UNKNOWN_FUNCTION = "unknown-function"
    UNSUPPORTED = "unsupported"
    RECURSION = "recursion"
    LATERAL = "lateral"
    LOCKING = "locking"
    GROUPING_SETS = "grouping-sets"
    SET_RETURNING = "set-returning"
    NO_ORDER = "no-order"
    LIMIT_WITHOUT_ORDER = "limit-without-order"
    TIES = "ties"
    UNKNOWN_TABLE = "unknown-table"
    UNKNOWN_COLUMN = "unknown-column"
    AMBIGUOUS_COLUMN = "ambiguous-column"
    DUPLICATE_COLUMN = "duplicate-column"
    NOT_GROUPED = "not-grouped"
    AGGREGATE_MISPLACED = "aggregate-misplaced"
    WINDOW_MISPLACED = "window-misplaced"
    NON_EQUI_JOIN = "non-equi-join"
    SUBQUERY = "subquery"
    TYPE_MISMATCH = "type-mismatch"
    TYPE_NOT_CARRIED = "type-not-carried"
    NO_SCALE = "numeric-without-scale"
    NOT_COMPARABLE = "not-comparable"
    NO_KEY = "no-key"


def refusal(reason: Reason, fact: str, at: exp.Expr | None, *, detail: str = "", hint: str = "") -> ViewRefused:
    """To be raised. The line of the text is added by `pointed`, which knows the text."""
    line, column = position(at)
    return ViewRefused(fact, reason=reason.value, line=line, column=column, detail=detail, hint=hint)


def pointed(refused: ViewRefused, text: str) -> ViewRefused:
    """The same, with the line of the text and a caret under the place."""
    lines = text.splitlines()
    if not 1 <= refused.line <= len(lines):
        return refused
    shown = lines[refused.line - 1]
    lead = "".join("\t" if c == "\t" else " " for c in shown[: refused.column - 1])
    excerpt = f"line {refused.line}, column {refused.column}\n  {shown}\n  {lead}^"
    return ViewRefused(
        refused.fact,
        reason=refused.reason,
        line=refused.line,
        column=refused.column,
        detail=f"{refused.detail}, at {excerpt}" if refused.detail else f"at {excerpt}",
        hint=refused.hint,
    )


def position(at: exp.Expr | None) -> tuple[int, int]:
    """Line and column, from 1, of the leftmost part that has one; (0, 0) if none has."""
    if at is None:
        return 0, 0
    places = [p for p in (_place(node) for node in at.walk()) if p is not None]
    if not places and at.parent is not None:
        return position(at.parent)
    return min(places)[1:] if places else (0, 0)


def _place(node: exp.Expr) -> tuple[int, int, int] | None:
    """sqlglot keeps the end of a token on its line, and where it starts and ends in the text."""
    meta = node.meta
    if not {"line", "col", "start", "end"} <= meta.keys():
        return None
    return meta["start"], meta["line"], max(1, meta["col"] - (meta["end"] - meta["start"]))


def nearest(name: str, known: Iterable[str]) -> str:
    """Such as: did you mean "price"?"""
    names = list(known)
    close = difflib.get_close_matches(name, names, n=1)
    if close:
        return f'did you mean "{close[0]}"?'
    return f"known are {', '.join(sorted(names)) or 'none'}"

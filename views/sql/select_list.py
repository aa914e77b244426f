"""The select list: stars expanded, every column named as Postgres names it. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot import exp

from views.refusals import Reason, nearest, refusal
from views.sql.scope import Scope, folded

_UNNAMED = "?column?"


@dataclass(frozen=True)
class Item:
    name: str
    ast: exp.Expression
    bound: exp.Expression | None = None

    @property
    def value(self) -> exp.Expression:
        assert self.bound is not None
        return self.bound


def expanded(select: exp.Select, scope: Scope, *, is_root: bool) -> list[Item]:
    """Items of stars are bound already."""
    items: list[Item] = []
    for part in select.expressions:
        items += _star(part, scope) if part.is_star else [_item(part)]
    _check_names(items, is_root=is_root)
    return items


def _item(part: exp.Expression) -> Item:
    if isinstance(part, exp.Alias):
        return Item(folded(part.args["alias"]), part.this)
    return Item(_name(part), part)


def _name(part: exp.Expression) -> str:
    match part:
        case exp.Column():
            return folded(part.this)
        case exp.Cast() | exp.Paren():
            return _name(part.this)
        case exp.Filter() | exp.Window():
            return _name(part.this)
        case exp.Anonymous():
            return str(part.name).lower()
        case exp.Case():
            return "case"
        case exp.Func():
            return str(part.sql_names()[0]).lower() if part.sql_names() else _UNNAMED
        case exp.Subquery() if isinstance(part.this, exp.Select) and len(part.this.expressions) == 1:
            return _item(part.this.expressions[0]).name
    return _UNNAMED


def _star(part: exp.Expression, scope: Scope) -> list[Item]:
    if not isinstance(part, exp.Column):
        pairs = scope.star()
        sources = scope.sources
    else:
        alias = folded(part.args["table"])
        source = scope.source(alias)
        if source is None:
            known = [s.alias for s in scope.sources]
            raise refusal(
                Reason.UNKNOWN_TABLE, f'no table or alias "{alias}" in FROM', part, hint=nearest(alias, known)
            )
        pairs, sources = list(source.columns.items()), (source,)
    for source in sources:
        for name in source.refused:
            source.check(name, part)
    return [Item(name, part, value.copy()) for name, value in pairs]


def _check_names(items: Sequence[Item], *, is_root: bool) -> None:
    seen: set[str] = set()
    for item in items:
        if item.name == _UNNAMED and is_root:
            raise refusal(Reason.DUPLICATE_COLUMN, "a column has no name", item.ast, hint="expression AS name")
        if item.name in seen and (is_root or item.name != _UNNAMED):
            raise refusal(
                Reason.DUPLICATE_COLUMN,
                f'two columns are called "{item.name}"',
                item.ast,
                hint=f"… AS another_{item.name}",
            )
        seen.add(item.name)


def position_of(part: exp.Expression, items: Sequence[Item], scope: Scope | None = None) -> int | None:
    """The place in the select list that a number or a name stands for. With a scope, its columns come first (GROUP BY);
    without, the select list's names do (ORDER BY)."""
    if isinstance(part, exp.Literal) and not part.is_string:
        place = int(part.name) if part.name.isdigit() else 0
        if not 1 <= place <= len(items):
            raise refusal(Reason.UNKNOWN_COLUMN, f"no column number {part.name}", part, hint=f"there are {len(items)}")
        return place - 1
    if not isinstance(part, exp.Column) or part.args.get("table") is not None:
        return None
    name = folded(part.this)
    if scope is not None and (name in scope.merged or any(name in s.columns for s in scope.sources)):
        return None
    return next((n for n, item in enumerate(items) if item.name == name), None)

"""`headwater diff`: what differs between a view as it was at one point and as it was at another."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.output import JsonOption, line, table
from headwater.cli.view_at import POINT

if TYPE_CHECKING:
    from headwater.views.past import Diff, Differs

EXAMPLES: Final = 5
_TEXT_MAX: Final = 100
_STYLES: Final = {"added": "green", "removed": "red", "changed": "yellow"}


def register(app: typer.Typer) -> None:
    app.command("diff")(diff)


def diff(
    view: Annotated[str, typer.Argument(metavar="VIEW")],
    from_: Annotated[str, typer.Argument(metavar="FROM", help=POINT)],
    to: Annotated[str, typer.Argument(metavar="TO", help="The same.")] = "now",
    examples: Annotated[int, typer.Option("--examples", metavar="N", min=0, help="Rows to show.")] = EXAMPLES,
    as_json: JsonOption = False,
) -> None:
    """Rows that were added, removed and changed between two points, and in which columns."""
    import msgspec

    from headwater.views.past import diff as compared
    from headwater.views.past_objects import diff_object
    from headwater.views.place import Place

    found = compared(Place.here(), view, from_, to, examples)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(diff_object(found)), indent=2))
    else:
        _print(found)


def _print(found: Diff) -> None:
    counts = f"{found.added:,} added, {found.removed:,} removed, {found.changed:,} changed"
    line((f"{found.view}: ", "bold"), counts, (f", from {found.from_} to {found.to}, by the {found.source}", "dim"))
    if found.columns:
        table(("column", "changed rows"), [(name, f"{count:,}") for name, count in found.columns.items()])
    for each in found.examples:
        line((f"{each.kind} ", _STYLES[each.kind]), each.key)
        for text in _lines(each):
            line(f"  {text}")


def _lines(found: Differs) -> list[str]:
    before = json.loads(found.before, parse_float=str) if found.before else {}
    after = json.loads(found.after, parse_float=str) if found.after else {}
    if found.kind == "changed":
        return [f"{name}: {cut(before.get(name))} → {cut(after.get(name))}" for name in found.columns]
    return [cut(after or before)]


def cut(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"

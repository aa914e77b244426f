"""`headwater view-at`: a view's rows as they were. `headwater sql --as-of` computes with them, in the warehouse."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from headwater.cli.output import JsonOption, line

ROWS: Final = 100
POINT: Final = "An instant like 2026-05-01T12:00:00Z, an LSN, a position ERA:OFFSET, or now."


def register(app: typer.Typer) -> None:
    app.command("view-at")(view_at)


def view_at(
    view: Annotated[str, typer.Argument(metavar="VIEW")],
    at: Annotated[str, typer.Option("--at", metavar="WHEN", help=POINT)],
    limit: Annotated[int, typer.Option("--limit", metavar="N", min=1, help="Rows to print, by key.")] = ROWS,
    as_json: JsonOption = False,
) -> None:
    """A view's rows as they were, with or without a warehouse."""
    import msgspec

    from headwater.views.past import view_at as looked
    from headwater.views.past_objects import rows_object
    from headwater.views.place import Place

    found = looked(Place.here(), view, at, limit)
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(rows_object(found)), indent=2))
        return
    for row in found.rows:
        typer.echo(row.decode())
    line(
        (f"{len(found.rows):,} of {found.rows_total:,} rows of {view} at {at}, from the {found.source}", "dim"),
        stderr=True,
    )

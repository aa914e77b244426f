"""`headwater deadletters`: changes that a sink would not take, with the key, the row and the reason."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated

import typer

from headwater.cli.output import JsonOption, line, print_json, table


def register(app: typer.Typer) -> None:
    group = typer.Typer(help="Changes that a sink would not take.", no_args_is_help=True)
    group.command("list")(list_letters)
    app.add_typer(group, name="deadletters")


def list_letters(
    view: Annotated[str, typer.Option("--view", metavar="VIEW", help="Only of this view.")] = "",
    sink: Annotated[str, typer.Option("--sink", metavar="SINK", help="Only of this sink.")] = "",
    as_json: JsonOption = False,
) -> None:
    """What was refused, oldest first. Only the named keys are held; a later change of one is tried as usual."""
    from headwater.views.place import Place
    from views.sinks.board import read_letters

    place = Place.here()
    found = [
        letter
        for letter in read_letters(place.deployment.kafka, place.deployment.source)
        if view in ("", letter.view) and sink in ("", letter.sink)
    ]
    if as_json:
        print_json({"deadletters": found})
        return
    if not found:
        line("no dead letters")
        return
    columns = ("at", "view", "sink", "key", "version", "error")
    table(columns, [(_at(each.at_us), each.view, each.sink, each.key, each.version, each.error) for each in found])


def _at(at_us: int) -> str:
    return f"{datetime.fromtimestamp(at_us / 1e6, UTC):%Y-%m-%d %H:%M:%SZ}"

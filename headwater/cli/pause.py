"""`headwater pause` and `headwater resume`: a view, or one sink of it, stands still until a person lets it go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.output import JsonOption, line, print_json

if TYPE_CHECKING:
    from headwater.views.place import Place

ViewsArgument = Annotated[list[str], typer.Argument(metavar="VIEW…", show_default=False)]
SinkOption = Annotated[str, typer.Option("--sink", metavar="SINK", help="Only this one; the view itself goes on.")]


def register(app: typer.Typer) -> None:
    app.command("pause")(pause)
    app.command("resume")(resume)


def pause(views: ViewsArgument, sink: SinkOption = "", as_json: JsonOption = False) -> None:
    """Feed these views, or one sink of them, no further. Readers see them as they are now, and are told so."""
    from headwater.rebuilds import pause as ask

    _asked("pause", ask, views, sink, as_json=as_json)


def resume(views: ViewsArgument, sink: SinkOption = "", as_json: JsonOption = False) -> None:
    """Go on from where they are; nothing is lost meanwhile as long as Kafka keeps the log."""
    from headwater.rebuilds import resume as ask

    _asked("resume", ask, views, sink, as_json=as_json)


def _asked(
    verb: str, ask: Callable[[Place, list[str], str, str], str], views: list[str], sink: str, *, as_json: bool
) -> None:
    from headwater.audit import audited, os_actor
    from headwater.views.place import Place

    place = Place.here()
    with audited(place.deployment, verb, views=views, sink=sink):
        fact = ask(place, views, sink, os_actor())
    print_json({"done": fact}) if as_json else line(fact)

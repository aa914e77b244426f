"""`headwater generations`, `switch`, `rollback`: which rows readers use, and going over to others and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.output import JsonOption, duration_text, line, print_json, table
from headwater.cli.rebuild import STYLES

if TYPE_CHECKING:
    from headwater.views.place import Place

ViewArgument = Annotated[str, typer.Argument(metavar="VIEW", show_default=False)]
SinkOption = Annotated[str, typer.Option("--sink", metavar="SINK", help="Only this one; else all that can.")]


def register(app: typer.Typer) -> None:
    app.command("generations")(generations)
    app.command("switch")(switch)
    app.command("rollback")(rollback)


def generations(
    view: Annotated[str, typer.Argument(metavar="[VIEW]", show_default=False)] = "",
    retire: Annotated[
        int | None, typer.Option("--retire", metavar="N", help="Remove this standby of --sink before its time.")
    ] = None,
    sink: SinkOption = "",
    as_json: JsonOption = False,
) -> None:
    """Every generation of every sink: which is live, which could be gone back to, and until when."""
    from headwater.rebuilds import generations as known
    from headwater.views.place import Place

    place = Place.here()
    if retire is not None:
        from headwater.audit import audited, os_actor
        from headwater.rebuilds import retire as remove

        with audited(place.deployment, "generation retire", view=view, sink=sink, generation=retire):
            fact = remove(place, view, sink, retire, os_actor())
        print_json({"done": fact}) if as_json else line(fact)
        return
    found = known(place, view)
    if as_json:
        print_json({"generations": found})
        return
    now = time.time()
    rows = [
        (
            each.view,
            each.sink,
            each.number,
            each.state,
            duration_text(now - each.since_s) if each.since_s else "",
            duration_text(each.keep_until_s - now) if each.keep_until_s else "",
            each.reason,
        )
        for each in found
    ]
    table(("view", "sink", "generation", "state", "for", "kept for", "reason"), rows, styles=STYLES)


def switch(view: ViewArgument, sink: SinkOption = "", as_json: JsonOption = False) -> None:
    """Readers go over to a generation that was rebuilt with --no-switch and verified."""
    from headwater.rebuilds import switch as ask

    _asked("switch", ask, view, sink, as_json=as_json)


def rollback(view: ViewArgument, sink: SinkOption = "", as_json: JsonOption = False) -> None:
    """Readers go back to the generation that they left last, at once: it was kept fed."""
    from headwater.rebuilds import rollback as ask

    _asked("rollback", ask, view, sink, as_json=as_json)


def _asked(verb: str, ask: Callable[[Place, str, str, str], str], view: str, sink: str, *, as_json: bool) -> None:
    from headwater.audit import audited, os_actor
    from headwater.views.place import Place

    place = Place.here()
    began = time.monotonic()
    with audited(place.deployment, verb, view=view, sink=sink):
        fact = ask(place, view, sink, os_actor())
    took_ms = (time.monotonic() - began) * 1000
    if as_json:
        print_json({"done": fact, "took_ms": round(took_ms, 1)})
    else:
        line(f"{fact}, in {duration_text(took_ms / 1000)}")

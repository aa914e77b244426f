"""`headwater generations`, `switch`, `rollback`: which rows readers use, and going over to others and back."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.output import JsonOption, duration_text, line, print_json, table
from headwater.cli.rebuild import STYLES

if TYPE_CHECKING:
    from headwater.rebuilds import Moved
    from headwater.views.place import Place

    Ask = Callable[[Place, str, str, str], Moved]

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
    """Every generation of every sink: which is live, which could be gone back to, until when, and whether it is fed.
    Likewise the definitions that readers left."""
    import msgspec

    from headwater.feeding import fed
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
    state = place.registry.state()
    found = {each: fed(state, each) for each in known(place, view)}
    left = [each for each in state.standbys if view in ("", each.view)]
    if as_json:
        told = [{**msgspec.structs.asdict(each), "fed": how} for each, how in found.items()]
        print_json({"generations": told, "definitions": left})
        return
    now = time.time()
    rows: list[tuple[object, ...]] = [
        (
            each.view,
            each.sink,
            each.number,
            each.state,
            duration_text(now - each.since_s) if each.since_s else "",
            duration_text(each.keep_until_s - now) if each.keep_until_s else "",
            how.text(now) if how else "",
            each.reason,
        )
        for each, how in found.items()
    ]
    rows += [
        (
            each.view,
            "definition",
            each.group,
            "standby" if each.is_ready else "building",
            duration_text(now - each.since_s),
            duration_text(each.until_s - now),
            "",
            f"headwater rollback {each.view} --definition",
        )
        for each in left
    ]
    table(("view", "sink", "generation", "state", "for", "kept for", "fed", "reason"), rows, styles=STYLES)


def switch(view: ViewArgument, sink: SinkOption = "", as_json: JsonOption = False) -> None:
    """Readers go over to a generation that was rebuilt with --no-switch and verified."""
    from headwater.rebuilds import switch as ask

    _asked("switch", ask, view, sink, as_json=as_json)


def rollback(
    view: ViewArgument,
    sink: SinkOption = "",
    definition: Annotated[
        bool, typer.Option("--definition", help="To the definition that they left last, not to a sink's generation.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Readers go back to what they left last, at once: it was kept fed. That is a generation of a sink or, after a
    changed definition was applied, the definition before. Without --sink each sink by itself; who cannot is told."""
    from cdc.errors import ConfigurationError
    from headwater.rebuilds import Moved, restore
    from headwater.rebuilds import rollback as ask

    if definition and sink:
        raise ConfigurationError(
            "a definition is of the whole view", detail="--definition and --sink", hint=f"headwater rollback {view}"
        )
    back: Ask = (lambda place, view, *_: Moved(restore(place, view))) if definition else ask
    _asked("rollback", back, view, sink, as_json=as_json)


def _asked(verb: str, ask: Ask, view: str, sink: str, *, as_json: bool) -> None:
    from headwater.audit import audited, os_actor
    from headwater.views.place import Place

    place = Place.here()
    began = time.monotonic()
    with audited(place.deployment, verb, view=view, sink=sink) as action:
        found = ask(place, view, sink, os_actor())
        action.result = {"sinks": found.sinks}
        took_ms = (time.monotonic() - began) * 1000
        if as_json:
            print_json({"done": found.done, "sinks": found.sinks, "took_ms": round(took_ms, 1)})
        if found.left is not None:
            raise typer.Exit(1) if as_json else found.left
    if not as_json:
        line(f"{found.done}, in {duration_text(took_ms / 1000)}")

"""`headwater show`: one row of a view, and how fresh it is. Exit code 1 when there is no such row."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.output import JsonOption, duration_text, line

if TYPE_CHECKING:
    from headwater.views.kept import Frontiers
    from headwater.views.place import Place
    from views.maintain.publisher import Frontier

TIMEOUT_S: Final = 10.0


def register(app: typer.Typer) -> None:
    app.command("show")(show)


def show(
    view: Annotated[str, typer.Argument(metavar="VIEW")],
    key: Annotated[list[str], typer.Argument(metavar="KEY…", help="id=5 line=2, or the values in the key's order.")],
    at_least: Annotated[
        str, typer.Option("--at-least", metavar="LSN", help="Wait until the view includes what was committed before.")
    ] = "",
    timeout_s: Annotated[float, typer.Option("--timeout", metavar="S", min=0.0, help="How long to wait.")] = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """One row by its key. Exit code 1 when there is none."""
    from headwater.views.kept import Frontiers, open_view
    from headwater.views.key_text import encoded, named_values
    from headwater.views.place import Place

    place = Place.here()
    frontiers = Frontiers(place.deployment.kafka, place.deployment.source)
    if at_least:
        _wait(place, frontiers, view, at_least, timeout_s)
    known = frontiers.look()
    kept = open_view(place.registry, known, view)
    values = named_values(kept.store, key)
    (wanted,) = encoded(kept.store, [[values[name] for name in kept.store.key]])
    row = kept.read([wanted]).get(wanted)
    told = {"view": view, "key": values, **_fresh(place, known[view])}
    if as_json:
        _print_object(told, row)
    else:
        _print(told, row, view)
    if row is None:
        raise typer.Exit(1)


def _wait(place: Place, frontiers: Frontiers, view: str, at_least: str, timeout_s: float) -> None:
    from cdc.errors import ViewError
    from cdc.position import Lsn
    from headwater.views.kept import includes, not_ready

    lsn = Lsn.parse(at_least)
    if frontiers.wait(view, includes(lsn), timeout_s) is not None:
        return
    found = frontiers.look().get(view)
    if found is None:
        raise not_ready(view, place.registry.state().views.get(view), place.registry)
    raise ViewError(
        f"view {view} does not include {lsn} yet",
        detail=f"it is at {found.lsn}, after {timeout_s:g} s",
        hint="headwater views" if place.registry.is_kept() else "headwater up",
    )


def _fresh(place: Place, frontier: Frontier) -> dict[str, object]:
    status = place.registry.state().views.get(frontier.view)
    behind_s = None if frontier.committed_at_us is None else max(0.0, time.time() - frontier.committed_at_us / 1e6)
    return {
        "state": status.state.value if status else "waiting",
        "reason": status.reason if status else "",
        "position": str(frontier.position),
        "lsn": frontier.lsn,
        "behind_s": None if behind_s is None else round(behind_s, 3),
    }


def _print_object(told: dict[str, object], row: bytes | None) -> None:
    """The row as it is stored: its numbers keep their digits."""
    import msgspec

    whole = {**told, "row": msgspec.Raw(row or b"null")}
    typer.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2))


def _print(told: dict[str, object], row: bytes | None, view: str) -> None:
    if row is None:
        line(f"no row of {view} has this key")
    else:
        for name, value in json.loads(row, parse_float=str).items():
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            line((f"{name}: ", "cyan"), text)
    behind_s = told["behind_s"]
    fresh = f"{duration_text(behind_s)} behind, " if isinstance(behind_s, float) else ""
    line((f"{fresh}up to commit {told['lsn']} at {told['position']}", "dim"))
    if told["state"] != "live":
        line((f"the view is {told['state']}", "yellow"), f": {told['reason']}" if told["reason"] else "", stderr=True)

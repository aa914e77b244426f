"""`headwater repair`: single rows of a view, written to its sinks again. Exit code 1 when one is still wrong."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.output import JsonOption, duration_text, line, print_json

if TYPE_CHECKING:
    from headwater.views.place import Place
    from headwater.views.repair import Repaired


def register(app: typer.Typer) -> None:
    app.command("repair")(repair)


def repair(
    view: Annotated[str, typer.Argument(metavar="VIEW")],
    keys: Annotated[
        list[str] | None, typer.Option("--key", metavar="JSON", help='A row\'s key, as {"id":5}; may be repeated.')
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write rows to every sink again; without --key those that are known to be wrong there."""
    from headwater.audit import audited, os_actor
    from headwater.views.place import Place
    from headwater.views.repair import known_wrong, repair_keys

    place = Place.here()
    wanted = [_key(place, view, text) for text in keys] if keys else known_wrong(place, view)
    if not wanted:
        print_json({"view": view, "keys": []}) if as_json else line(f"nothing of {view} is known to be wrong")
        return
    # Not the keys: nobody can take them out of the audit's table again. The history of verifying has them.
    with audited(place.deployment, "repair", view=view, rows=len(wanted)):
        found = repair_keys(place, view, wanted, os_actor())
    print_json(repaired_object(found)) if as_json else print_repaired(found)
    if not found.is_equal:
        raise typer.Exit(1)


def print_repaired(found: Repaired) -> None:
    told = f"{len(found.keys):,} row{'s' if len(found.keys) != 1 else ''}"
    line((f"{found.view}: ", "bold"), f"{told} written again, in {duration_text(found.took_s)}")
    for sink in found.sinks:
        line(f"  {sink.sink}: ", ("equal", "green") if not sink.wrong else ("STILL WRONG", "bold red"))
        for kind, key in sink.wrong:
            line(f"    {kind} {key}")
    if not found.is_equal:
        line(f"if it stays so: headwater rebuild {found.view}", stderr=True)


def repaired_object(found: Repaired) -> dict[str, object]:
    sinks = [{"sink": each.sink, "is_equal": not each.wrong, "wrong": list(each.wrong)} for each in found.sinks]
    return {
        "view": found.view,
        "keys": list(found.keys),
        "is_equal": found.is_equal,
        "sinks": sinks,
        "attempts": found.attempts,
        "took_s": round(found.took_s, 3),
    }


def _key(place: Place, view: str, text: str) -> bytes:
    """In the form in which the view's topic has it, whatever its blanks and the order of its columns."""
    from cdc.errors import ConfigurationError
    from headwater.api.shapes import key_json
    from headwater.views.kept import Frontiers, open_view

    store = open_view(place.registry, Frontiers(place.deployment.kafka, place.deployment.source).look(), view).store
    try:
        values = json.loads(text, parse_float=str, parse_int=str)
    except ValueError:
        values = None
    if not isinstance(values, dict) or values.keys() != set(store.key):
        raise ConfigurationError(
            f"not a key of {view}: {text}",
            detail=f"the key is ({', '.join(f'{field.name} {field.type}' for field in store.key_fields)})",
            hint=f"headwater repair {view} --key '{json.dumps(dict.fromkeys(store.key, '…'), ensure_ascii=False)}'",
        )
    return key_json(store, [None if values[name] is None else _text(values[name]) for name in store.key])


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)

"""`headwater retention`: what is kept how long, when it was last compacted, what leaves next and when."""

from __future__ import annotations

from datetime import datetime

import typer

from headwater.cli.output import JsonOption, bytes_text, line, print_json, table


def register(app: typer.Typer) -> None:
    app.command("retention")(retention)


def retention(as_json: JsonOption = False) -> None:
    """The log, its archive, the views' topics and tables: oldest record, size, retention, what leaves next."""
    from headwater.retention import look
    from headwater.views.place import Place

    found = look(Place.here())
    if as_json:
        print_json({"kept": found})
        return
    if not found:
        line("nothing is kept yet: headwater up")
        return
    rows = [
        (each.name, f"{each.records:,}", "" if each.size_bytes is None else bytes_text(each.size_bytes),
         _at(each.oldest_at), each.policy, f"{each.leaves_next} {_at(each.leaves_at)}".strip(), _at(each.compacted_at),
         _at(each.vacuumed_at), each.note)
        for each in found
    ]  # fmt: skip
    table(("what", "records", "size", "oldest", "keeps", "leaves next", "compacted", "vacuumed", "note"), rows)


def _at(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M}Z" if at else ""

"""`headwater erase`: a person's data out of everything that was derived from the source: a plan, then a receipt."""

from __future__ import annotations

import secrets
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.output import JsonOption, line, print_json, table

if TYPE_CHECKING:
    from headwater.erasing.receipt import Receipt

EXIT_LEFT = 1


def register(app: typer.Typer) -> None:
    app.command("erase")(erase)


def erase(
    of: Annotated[str, typer.Option("--table", metavar="TABLE", help="Where the person's rows are: schema.table.")],
    where: Annotated[str, typer.Option("--where", metavar="SQL", help="Which rows: \"email = 'x@y.z'\".")] = "",
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--key", metavar="COLUMN=VALUE,…", help="Rows that are gone already, by key; repeatable; or a JSON object."
        ),
    ] = None,
    delete_source: Annotated[bool, typer.Option("--delete-source", help="Delete the rows in the source, too.")] = False,
    now: Annotated[
        bool, typer.Option("--now", help="Cut the change log in Kafka off behind them, too: not in a week.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do it; without it only the plan is shown.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Erase a person's data from the archive, topics, caches, indexes, warehouse, alerts. Exit code 1: some is left."""
    from cdc.archive import ArchiveReader
    from cdc.changelog import ChangeLog
    from cdc.errors import ConfigurationError
    from cdc.events import TableName
    from cdc.postgres import connect, explained
    from headwater.audit import audited
    from headwater.erasing import erase as erasing
    from headwater.erasing.finding import find_person
    from headwater.erasing.person import digest, parsed_key
    from headwater.views.place import Place

    if not (where or keys):
        raise ConfigurationError("say whose data: --where or --key", hint="headwater erase --help")
    place = Place.here()
    deployment, name = place.deployment, TableName.parse(of)
    archive = ArchiveReader(deployment.source, deployment.settings.warehouse_folder)
    log = ChangeLog(deployment.kafka, deployment.source, archive)
    with connect(deployment.postgres) as conn, explained(conn):
        person = find_person(conn, name, where, [parsed_key(key) for key in keys or ()], log.read(log.bounds()[0]))
        report = (lambda _what: None) if as_json else (lambda what: line((what, "dim"), stderr=True))
        if not yes:
            _show(erasing.plan(place, person, report), as_json=as_json)
            return
        salt = secrets.token_hex(16)
        if person.rows_in_source and delete_source:
            line((f"to go on, once the rows are gone: {person.command(now=now)}", "dim"), stderr=True)
        told: dict[str, Any] = {
            "table": of,
            "where": digest(where, salt) if where else "",
            "keys": person.digests(salt),
        }
        with audited(deployment, "erase", delete_source=delete_source, now=now, **told) as action:
            receipt = erasing.erase(place, person, conn, delete_source=delete_source, now=now, report=report)
            action.result = {"lines": receipt.lines, "is_clean": receipt.is_clean, "gone_by": receipt.gone_by}
    _show(replace(receipt, salt=salt), as_json=as_json)
    if not receipt.is_clean:
        raise typer.Exit(EXIT_LEFT)


def _show(receipt: Receipt, *, as_json: bool) -> None:
    from headwater.plain import plain

    if as_json:
        told = plain(receipt)
        assert isinstance(told, dict)
        print_json({**told, "is_clean": receipt.is_clean, "gone_by": plain(receipt.gone_by)})
        return
    what = "erased" if receipt.at else "plan: nothing is erased yet, --yes does it"
    line(
        (f"{receipt.table}: ", "bold"),
        f"{len(receipt.keys)} rows by key, {receipt.rows_in_source} in the source; {what}",
    )
    if receipt.shared:
        line(f"not looked for, others have the same values: {', '.join(receipt.shared)}")
    rows = [
        (each.place, each.found, each.erased, each.pending or "",
         f"{each.gone_by:%Y-%m-%d %H:%M}Z" if each.gone_by else "", "" if each.left is None else each.left, each.note)
        for each in receipt.lines
    ]  # fmt: skip
    if receipt.rows_in_source and not receipt.at:
        line(f"once the rows are gone: {receipt.by_key}")
    if receipt.salt:
        line(f"salt of the digests in the audit log: {receipt.salt}")
    table(("place", "found", "erased", "pending", "gone by", "left", "note"), rows)

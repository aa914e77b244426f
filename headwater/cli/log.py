"""`headwater log tail|show|seek`: the change log, readable."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cdc.events import Begin, ChangeEvent, DeadLetter, Entry, Op, TableName
from headwater.cli.output import JsonOption, line, print_json, print_json_line

if TYPE_CHECKING:
    from cdc.changelog import ChangeLog
    from cdc.position import Position
    from headwater.log_search import Wanted

LINES: Final = 20

PLACES: Final = "earliest, latest, ERA:OFFSET, an LSN like 0/1A2B3C, or a time like 2026-01-31T12:00:00Z"
FromOption = Annotated[str, typer.Option("--from", metavar="PLACE", help=f"Where to begin: {PLACES}.")]
TableOption = Annotated[str, typer.Option("--table", metavar="SCHEMA.TABLE", help="Changes of this table only.")]
OpOption = Annotated[Op | None, typer.Option("--op", help="Changes of this kind only.")]
CountOption = Annotated[int | None, typer.Option("-n", min=1, help=f"How many; the last {LINES} if no --from.")]
FollowOption = Annotated[bool, typer.Option("--follow", "-f", help="Go on with what is committed from now on.")]
PlaceArgument = Annotated[str, typer.Argument(metavar="PLACE", help=f"{PLACES[0].upper()}{PLACES[1:]}.")]
PositionArgument = Annotated[str, typer.Argument(metavar="ERA:OFFSET", help="As the other verbs print it.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="The change log: every committed change, in order.")
    for verb in (tail, show, seek):
        verbs.command(verb.__name__)(verb)
    app.add_typer(verbs, name="log")


def tail(
    from_: FromOption = "",
    table: TableOption = "",
    op: OpOption = None,
    count: CountOption = None,
    *,
    follow: FollowOption = False,
    as_json: JsonOption = False,
) -> None:
    """Print changes, transaction by transaction, in the order of their commits."""
    from headwater.log_search import last_entries, place

    log, wanted = _log(), _wanted(table, op)
    if from_:
        _print(_from(log, place(log, from_), wanted, follow=follow), count, as_json=as_json)
        return
    entries, end = last_entries(log, count or LINES, wanted)
    _print(iter(entries), None, as_json=as_json)
    if follow:
        _print(_from(log, end, wanted, follow=True), None, as_json=as_json)


def show(position: PositionArgument, as_json: JsonOption = False) -> None:
    """Print one record whole, and the transaction it is part of."""
    from cdc.position import Position
    from headwater.log_lines import entry_line, entry_object
    from headwater.log_search import find

    found = find(_log(), Position.parse(position))
    transaction = {
        "begin": entry_object(found.begin) if found.begin else None,
        "end": entry_object(found.end) if found.end else None,
    }
    if as_json:
        print_json({**entry_object(found.entry), "in_transaction": transaction})
        return
    for marker in (found.begin, found.end):
        if marker is not None and marker != found.entry:
            line(*entry_line(marker))
    print_json(entry_object(found.entry))


def seek(where: PlaceArgument, as_json: JsonOption = False) -> None:
    """Print the position of a place in the log."""
    from headwater.log_search import place

    log = _log()
    position = place(log, where)
    if as_json:
        low, high = log.bounds()
        print_json({"position": str(position), "low": str(low), "high": str(high)})
        return
    line(str(position))


def _log() -> ChangeLog:
    """With what Kafka no longer holds, where that was archived."""
    from cdc.archive import ArchiveReader
    from cdc.changelog import ChangeLog
    from headwater.deployment import Deployment
    from headwater.settings import load

    deployment = Deployment.resolve(load())
    settings = deployment.settings
    archive = ArchiveReader(deployment.source, settings.warehouse_folder) if settings.warehouse.archive else None
    return ChangeLog(deployment.kafka, deployment.source, archive)


def _wanted(table: str, op: Op | None) -> Wanted:
    """With a filter only changes that pass it, without their transactions' markers; what could not be parsed always."""
    name = TableName.parse(table) if table else None

    def wanted(entry: Entry) -> bool:
        if isinstance(entry, DeadLetter) or (name is None and op is None):
            return True
        return isinstance(entry, ChangeEvent) and name in (None, entry.table) and op in (None, entry.op)

    return wanted


def _from(log: ChangeLog, start: Position, wanted: Wanted, *, follow: bool) -> Iterator[Entry]:
    from cdc.envelope import parse

    records = log.follow(start, threading.Event()) if follow else log.read(start)
    return (entry for entry in map(parse, records) if wanted(entry))


def _print(entries: Iterator[Entry], count: int | None, *, as_json: bool) -> None:
    from headwater.log_lines import entry_line, entry_object

    for entry in islice(entries, count):
        if as_json:
            print_json_line(entry_object(entry))
            continue
        if isinstance(entry, Begin):
            line("")
        line(*entry_line(entry))

"""`headwater capture start|status|pause|resume|restart|reset|remove`: the connector and its slot, by hand."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.output import JsonOption, ask, bytes_text, line, print_json, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cdc.capture import Capture

YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Capture: from Postgres into the log.")
    for verb in (start, status, pause, resume, restart, reset, remove):
        verbs.command(verb.__name__)(verb)
    app.add_typer(verbs, name="capture")


def start() -> None:
    """Publish the tables, make the log, run the connector; leaves alone what is right already."""
    with _acting("start") as capture:
        changed = capture.ensure(line)
    line("capture runs" + ("" if changed else ", nothing had to change"))


def status(as_json: JsonOption = False) -> None:
    """The connector, its tasks, its configuration (without passwords) and the initial snapshot."""
    from cdc.changelog import ChangeLog
    from cdc.connect import ConnectClient
    from cdc.connector import redacted
    from cdc.snapshots import SnapshotTracker

    capture = _capture()
    with ConnectClient(capture.connect) as client:
        connector = client.status(capture.source.connector)
        config = redacted(client.config(capture.source.connector) or {})
    snapshot = SnapshotTracker(ChangeLog(capture.kafka, capture.source)).look()
    if as_json:
        print_json({"connector": connector, "snapshot": snapshot, "config": config})
        return
    state = connector.summary if connector else "MISSING"
    line(f"connector {capture.source.connector}: {state} {connector.reason if connector else ''}".rstrip())
    line(_slot(capture))
    line(f"snapshot: {'complete' if snapshot.complete else f'{snapshot.rows:,} rows so far'}")
    table(("setting", "value"), sorted(config.items()))


def pause() -> None:
    """Stop reading, also over restarts; Postgres keeps the WAL until capture resumes, up to its cap."""
    from cdc.connect import ConnectClient

    with _acting("pause") as capture, ConnectClient(capture.connect) as client:
        client.pause(capture.source.connector)
    slot = _slot(capture)
    line("paused; Postgres now keeps its WAL for the slot: headwater capture resume")
    line(slot)


def resume() -> None:
    """Go on where it was paused."""
    from cdc.connect import ConnectClient

    with _acting("resume") as capture, ConnectClient(capture.connect) as client:
        capture.resume(client)
    line("resumed")


def restart() -> None:
    """Stop it and let it go on, also when it has failed."""
    from cdc.connect import ConnectClient

    with _acting("restart") as capture, ConnectClient(capture.connect) as client:
        capture.restart(client)
    line("restarted")


def reset(yes: YesOption = False) -> None:
    """Begin a new era: a fresh slot and a fresh snapshot. What was derived from the log is built anew."""
    ask("take a fresh snapshot of all captured tables, and begin a new era?", yes=yes)
    with _acting("reset") as capture:
        capture.begin_anew(line)
    line("a new era has begun")


def remove(yes: YesOption = False) -> None:
    """Drop the connector, its offsets and the slot; the log, the publication and the schema stay."""
    ask("stop capturing and drop the slot?", yes=yes)
    with _acting("remove") as capture:
        capture.remove()
    line("removed; headwater capture start begins a new era")


def _slot(capture: Capture) -> str:
    from cdc.postgres import connect
    from cdc.slots import observe

    with connect(capture.postgres) as conn:
        found = observe(conn, capture.source)
    cap = "without a cap" if found.wal_keep_max_bytes is None else f"of at most {bytes_text(found.wal_keep_max_bytes)}"
    return f"slot {found.name}: holds {bytes_text(found.retained_bytes or 0)} of WAL, {cap}"


@contextmanager
def _acting(verb: str) -> Iterator[Capture]:
    """Capture, for a verb that changes it: the audit log tells of it."""
    from headwater.audit import audited
    from headwater.deployment import Deployment
    from headwater.settings import load

    deployment = Deployment.resolve(load())
    with audited(deployment, f"capture {verb}"):
        yield deployment.capture()


def _capture() -> Capture:
    from headwater.deployment import Deployment
    from headwater.settings import load

    return Deployment.resolve(load()).capture()

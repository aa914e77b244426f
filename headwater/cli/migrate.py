"""`headwater migrate up|down|status`: Headwater's own schema in the captured database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.output import JsonOption, line, print_json

if TYPE_CHECKING:
    from cdc.addresses import PostgresAddress, Source
    from headwater.migrate import MigrationStatus

SqlOption = Annotated[bool, typer.Option("--sql", help="Print the SQL for a fresh database instead of running it.")]
UpRevision = Annotated[str, typer.Option("--revision", metavar="REVISION", help="How far to go.")]
DownRevision = Annotated[str, typer.Option("--revision", metavar="REVISION", help="How far to go back.")]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Headwater's own schema in the captured database.")
    for verb in (up, down, status):
        verbs.command(verb.__name__)(verb)
    app.add_typer(verbs, name="migrate")


def up(revision: UpRevision = "head", sql: SqlOption = False, as_json: JsonOption = False) -> None:
    """Bring the schema to the newest revision. A second run changes nothing."""
    from headwater import migrate

    if sql:
        typer.echo(migrate.script(revision))
        return
    address, _ = _where()
    _show(migrate.migrate(address, revision), as_json=as_json)


def down(revision: DownRevision = "base", as_json: JsonOption = False) -> None:
    """Take the schema away again, and nothing else. Refused while capture is running."""
    from cdc.postgres import connect
    from cdc.slots import observe, refuse_in_use
    from headwater import migrate

    address, source = _where()
    with connect(address) as conn:
        refuse_in_use(observe(conn, source))
    _show(migrate.downgrade(address, revision), as_json=as_json)


def status(as_json: JsonOption = False) -> None:
    """Which revision the database is at."""
    from headwater import migrate

    address, _ = _where()
    _show(migrate.status(address), as_json=as_json)


def _where() -> tuple[PostgresAddress, Source]:
    """A database of the user's own is migrated whether or not the embedded stack runs."""
    from headwater.deployment import Deployment
    from headwater.settings import load

    settings = load()
    return settings.postgres.address() or Deployment.resolve(settings).postgres, settings.named_source


def _show(found: MigrationStatus, *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "revision": found.revision,
                "head": found.head,
                "up_to_date": found.up_to_date,
                "watched": found.watched,
            }
        )
        return
    if found.revision is None:
        line("not migrated; do so with: headwater migrate up")
        return
    line(f"at revision {found.revision}", "" if found.up_to_date else f" of {found.head}: headwater migrate up")
    if not found.watched:
        line(("schema changes are not followed: run headwater migrate up as a superuser", "yellow"))

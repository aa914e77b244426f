"""`headwater migrate up|down|status`: Headwater's own schema in the captured database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from headwater.cli.output import JsonOption, line, print_json

if TYPE_CHECKING:
    from headwater.deployment import Deployment
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
    from headwater.audit import audited

    if sql:
        typer.echo(migrate.script(revision))
        return
    deployment = _where()
    with audited(deployment, "migrate up", revision=revision):
        found = migrate.migrate(deployment.postgres, revision)
    _show(found, as_json=as_json)


def down(revision: DownRevision = "base", as_json: JsonOption = False) -> None:
    """Take the schema away again, and nothing else. Refused while capture is running."""
    from cdc.postgres import connect
    from cdc.slots import observe, refuse_in_use
    from headwater import migrate
    from headwater.audit import audited

    deployment = _where()
    with connect(deployment.postgres) as conn:
        refuse_in_use(observe(conn, deployment.source))
    with audited(deployment, "migrate down", revision=revision):
        found = migrate.downgrade(deployment.postgres, revision)
    _show(found, as_json=as_json)


def status(as_json: JsonOption = False) -> None:
    """Which revision the database is at."""
    from headwater import migrate

    _show(migrate.status(_where().postgres), as_json=as_json)


def _where() -> Deployment:
    """A database of the user's own is migrated whether or not the embedded stack runs."""
    from headwater.deployment import Deployment
    from headwater.settings import load
    from headwater.stack.state import StackState

    settings = load()
    return Deployment.resolve(settings) if settings.postgres.embedded else Deployment.of(settings, StackState())


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

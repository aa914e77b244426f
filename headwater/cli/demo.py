"""`headwater demo load|run|reset|status`: the demo's data in the captured Postgres, and keeping it in motion."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.output import JsonOption, console, duration_text, line, print_json, table

if TYPE_CHECKING:
    from psycopg import Connection

    from cdc.addresses import PostgresAddress
    from headwater.demo import DemoStatus, LoadReport, Progress, Size

# Written out, so that the help text needs none of the demo's modules; a test holds them against the demo's own.
LISTINGS = 2_000
SEED = 42
RATE_PER_S = 5.0

ListingsOption = Annotated[int, typer.Option("--listings", metavar="N", help="How many listings; the rest follows.")]
SeedOption = Annotated[int, typer.Option("--seed", metavar="N", help="The same seed gives the same data.")]
ResetOption = Annotated[bool, typer.Option("--reset", help="Empty the demo's tables first.")]
RateOption = Annotated[float, typer.Option("--rate", min=0.01, max=10_000, help="Transactions a second, at most.")]
SecondsOption = Annotated[float | None, typer.Option("--seconds", min=0.0, help="Stop after this time.")]
TransactionsOption = Annotated[
    int | None, typer.Option("--transactions", metavar="N", min=1, help="Stop after so many transactions.")
]


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="A property market, a shop and page hits to try things on.")
    for verb in (load, run, reset, status, catch):
        verbs.command(verb.__name__)(verb)
    app.add_typer(verbs, name="demo")


def load(
    listings: ListingsOption = LISTINGS,
    seed: SeedOption = SEED,
    reset: ResetOption = False,
    as_json: JsonOption = False,
) -> None:
    """Make the demo's tables and fill them, once."""
    from headwater import demo

    size = demo.Size(listings)
    with _connection() as conn, _progress(size, hidden=as_json) as progress:
        report = demo.load(conn, size, seed, reset=reset, progress=progress)
    if as_json:
        print_json(_report_object(report))
        return
    table(("table", "rows"), list(report.rows.items()))
    line(f"{report.rows_total:,} rows in {duration_text(report.took_s)}, {report.rows_per_s:,.0f} rows/s")


def run(
    rate_per_s: RateOption = RATE_PER_S,
    seconds: SecondsOption = None,
    transactions: TransactionsOption = None,
    seed: SeedOption = SEED,
    as_json: JsonOption = False,
) -> None:
    """Keep the demo's data moving, until Ctrl-C or a limit."""
    from headwater.cli.demo_run import keep_moving

    tally = keep_moving(_address(), rate_per_s, seed, seconds_max=seconds, transactions_max=transactions, quiet=as_json)
    if as_json:
        print_json(tally.summary())
        return
    table(("action", "transactions"), tally.actions.most_common())
    line(tally.text())


def reset(as_json: JsonOption = False) -> None:
    """Empty the demo's tables. The tables stay, and all other tables are left alone."""
    from headwater import demo

    with _connection() as conn:
        demo.reset(conn)
        found = demo.read_status(conn)
    if as_json:
        print_json(_status_object(found))
        return
    line("the demo's tables are empty" if found.installed else "there was no demo to empty")


def status(as_json: JsonOption = False) -> None:
    """What of the demo is in Postgres."""
    from headwater import demo

    with _connection() as conn:
        found = demo.read_status(conn)
    if as_json:
        print_json(_status_object(found))
        return
    line(_status_text(found))
    if found.rows:
        table(("table", "rows"), list(found.rows.items()))


def catch(
    secret: Annotated[str, typer.Option("--secret", metavar="SECRET", help="What the webhooks are signed with.")] = "",
    webhook_port: Annotated[int, typer.Option("--webhook-port", min=1, max=65_535, help="On loopback.")] = 8322,
    mail_port: Annotated[int, typer.Option("--mail-port", min=1, max=65_535, help="On loopback.")] = 8325,
) -> None:
    """Catch webhooks and mail on this machine, and show what arrives, until Ctrl-C."""
    import asyncio

    from alerts.channels.signature import new_secret
    from cdc.errors import ConfigurationError
    from headwater.cli.demo_catch import catch as catch_all

    shared = secret or new_secret()
    line(f"webhooks: http://127.0.0.1:{webhook_port}/ with the secret {shared}")
    line(f"          allow it with HEADWATER_WEBHOOK__OPENINGS=127.0.0.1:{webhook_port}")
    line(f"mail:     HEADWATER_MAIL__HOST=127.0.0.1 HEADWATER_MAIL__PORT={mail_port} HEADWATER_MAIL__SECURITY=none")
    try:
        asyncio.run(catch_all(shared, webhook_port, mail_port, line))
    except OSError as error:
        raise ConfigurationError(
            "a port is taken", detail=str(error), hint="headwater demo catch --webhook-port N --mail-port N"
        ) from error
    except KeyboardInterrupt:
        return


def _address() -> PostgresAddress:
    from headwater.deployment import Deployment
    from headwater.settings import load as load_settings

    return Deployment.resolve(load_settings()).postgres


@contextmanager
def _connection() -> Iterator[Connection[Any]]:
    import psycopg

    from cdc.errors import SourceError

    try:
        with psycopg.connect(_address().conninfo(), autocommit=True, application_name="headwater demo") as conn:
            yield conn
    except psycopg.OperationalError as error:
        raise SourceError("cannot reach the demo's Postgres", detail=str(error), hint="headwater status") from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise SourceError(
            "Postgres does not let this user make or fill the demo's tables",
            detail=error.diag.message_primary or str(error),
            hint="name a user who may create tables in schema public in headwater.toml, then: headwater demo load",
        ) from error


@contextmanager
def _progress(size: Size, *, hidden: bool) -> Iterator[Progress]:
    """A bar on a terminal, nothing elsewhere."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    out = console(stderr=True)
    columns = (TextColumn("loading"), BarColumn(), MofNCompleteColumn(), TextColumn("rows"), TimeRemainingColumn())
    with Progress(*columns, console=out, transient=True, disable=hidden or not out.is_terminal) as bar:
        task = bar.add_task("loading", total=size.rows_about)
        yield lambda rows: bar.advance(task, rows)


def _report_object(report: LoadReport) -> dict[str, object]:
    return {
        "listings": report.listings,
        "seed": report.seed,
        "rows": dict(report.rows),
        "rows_total": report.rows_total,
        "took_s": round(report.took_s, 3),
        "rows_per_s": round(report.rows_per_s, 1),
    }


def _status_object(found: DemoStatus) -> dict[str, object]:
    return {
        "installed": found.installed,
        "complete": found.complete,
        "seed": found.seed,
        "listings_loaded": found.listings_loaded,
        "rows": dict(found.rows or {}),
    }


def _status_text(found: DemoStatus) -> str:
    if found.complete:
        return f"loaded with {found.listings_loaded:,} listings from seed {found.seed}"
    if found.seed is not None:
        return "a load is running or was cut off; begin anew with: headwater demo load --reset"
    return "not loaded; load it with: headwater demo load"

"""Bringing everything up, as a visible list of steps: each idempotent, each with one line to say while it works."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Protocol

import psycopg
from psycopg import sql

from cdc import eras
from cdc.errors import CaptureError
from cdc.postgres import connect, explained
from headwater.deployment import Deployment
from headwater.settings import Settings
from headwater.stack.stack import Stack
from views.maintain.registry import Registry

EXAMPLES: Final = Path(__file__).parents[2] / "examples"


class Reporter(Protocol):
    """Who is told: a terminal with bars, or plain lines."""

    def fetching(self, total_bytes: int) -> Callable[[str, int], None]:
        """Before a download; returns what is called with a server's name and the bytes that arrived."""

    def server(self, name: str, what: str) -> None: ...

    def step(self, what: str) -> None: ...

    def loading(self, rows_total: int) -> Callable[[int], None]:
        """Before the demo's rows are loaded; returns what is called with the rows just committed."""


@dataclass(frozen=True, slots=True)
class Wanted:
    demo: bool = False
    listings: int = 2_000
    seed: int = 42


@dataclass(frozen=True, slots=True)
class Bringing:
    """What the steps work on."""

    settings: Settings
    stack: Stack
    wanted: Wanted
    reporter: Reporter

    @property
    def deployment(self) -> Deployment:
        return Deployment.of(self.settings, self.stack.site.state)


def fetch(bringing: Bringing) -> None:
    missing = bringing.stack.missing_bytes()
    if missing:
        bringing.stack.fetch(bringing.reporter.fetching(missing))


def start_servers(bringing: Bringing) -> None:
    bringing.stack.start(bringing.reporter.server)


def make_database(bringing: Bringing) -> None:
    """On the embedded Postgres only: on the user's own server the database is the user's."""
    if not bringing.settings.postgres.embedded:
        return
    address = bringing.deployment.postgres
    with connect(replace(address, database="postgres")) as conn, explained(conn):
        found = conn.execute("select 1 from pg_database where datname = %s", [address.database]).fetchone()
        if not found:
            conn.execute(sql.SQL("create database {}").format(sql.Identifier(address.database)))


def migrate_source(bringing: Bringing) -> None:
    from headwater.migrate import migrate

    bringing.reporter.step("migrating schema headwater")
    migrate(bringing.deployment.postgres)


def load_demo(bringing: Bringing) -> None:
    from headwater import demo

    if not bringing.wanted.demo:
        return
    size = demo.Size(bringing.wanted.listings)
    with psycopg.connect(bringing.deployment.postgres.conninfo(), autocommit=True) as conn:
        if not demo.read_status(conn).complete:
            bringing.reporter.step("loading the demo: a property market, a shop, page hits")
            demo.load(conn, size, bringing.wanted.seed, reset=True, progress=bringing.reporter.loading(size.rows_about))


def start_capture(bringing: Bringing) -> None:
    """Where capture has run before, everything else comes up without it: reads go on and say that they are stale, the
    keeper tries again, and `headwater recover` finds the servers that it needs."""
    deployment = bringing.deployment
    try:
        deployment.capture().ensure(bringing.reporter.step, keep_paused=True)
    except CaptureError as error:
        if eras.load(deployment.kafka, deployment.source).current is None:
            raise
        bringing.reporter.step(f"NOT CAPTURING: {error.fact} ({error.detail}); {error.hint}")


def apply_examples(bringing: Bringing) -> None:
    """The demo's views, unless views of the user's own are there. What the user dropped stays dropped."""
    registry = Registry(bringing.settings.views_state)
    if not bringing.wanted.demo or not EXAMPLES.is_dir() or registry.is_known():
        return
    from headwater.views.apply import apply
    from headwater.views.declared import read_files
    from headwater.views.plan_views import Sources, plan_views

    deployment, files = bringing.deployment, read_files(EXAMPLES)
    with connect(deployment.postgres) as conn, explained(conn):
        sources = Sources.read(conn, deployment.source, files)
        plan = plan_views(files, sources, registry.wanted(), registry.state())
        bringing.reporter.step(f"applying the example views: {len(plan.pending)}")
        apply(plan, sources, registry, conn, deployment.kafka, deployment.source, drop=False)


STEPS: Final[tuple[Callable[[Bringing], None], ...]] = (
    fetch,
    start_servers,
    make_database,
    migrate_source,
    load_demo,
    start_capture,
    apply_examples,
)


def bring_up(bringing: Bringing) -> Deployment:
    """Everything up, or an error and nothing left running."""
    try:
        for step in STEPS:
            step(bringing)
    except BaseException:
        bringing.stack.stop()
        raise
    return bringing.deployment

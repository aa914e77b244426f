"""Each way in which the log can lose a change, on the real servers: it is noticed, and one command brings it back.

A Postgres of the module's own is invalidated, restored and promoted; Kafka and Connect are those of the run.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import psycopg
import pytest

from cdc import eras
from cdc.canary import CanaryCheck
from cdc.capture import Capture
from cdc.changelog import ChangeLog
from cdc.connect import ConnectClient
from cdc.errors import CaptureGap, PreflightError
from cdc.events import ChangeEvent
from cdc.gaps import GapCode
from cdc.position import Position
from cdc.publication import drop_capture_role
from cdc.topics import delete_topic, ensure_topic
from headwater.deployment import Deployment
from headwater.http.app import make_app
from headwater.http.server import PageServer
from headwater.migrate import migrate
from headwater.recovery import Recoverer
from headwater.service.canary import Canary
from headwater.settings import Settings
from headwater.stack.stack import Stack, StackPlan, running
from headwater.status import Observer, Status
from tests.conftest import fresh_database
from tests.waiting import eventually
from views.maintain.registry import GroupStatus, Registry, State, ViewState, ViewStatus, Wanted, WantedView
from views.maintain.staleness import stale_views

pytestmark = pytest.mark.stack

WAL_KEEP_MAX_MB = 32


@dataclass
class Site:
    """A captured table t, and who watches over it."""

    capture: Capture
    deployment: Deployment

    def __post_init__(self) -> None:
        self.registry = Registry(self.deployment.settings.views_state)
        self.check = CanaryCheck(ChangeLog(self.capture.kafka, self.capture.source))
        self.canary = Canary(self.capture.postgres, self.check)
        self.observer = Observer(self.deployment)

    def sql(self, *statements: str) -> None:
        with psycopg.connect(self.capture.postgres.conninfo(), autocommit=True) as conn:
            for statement in statements:
                conn.execute(statement)  # type: ignore[call-overload]

    def tick(self) -> None:
        self.sql("select headwater.tick_canary()")

    def begun(self) -> Site:
        self.sql("create table t (id int primary key)", "insert into t values (1)")
        self.capture.ensure()
        self.arrives(1)
        return self

    def ids(self) -> set[object]:
        """What the current era holds of the table."""
        log, era = (
            ChangeLog(self.capture.kafka, self.capture.source),
            eras.current(self.capture.kafka, self.capture.source),
        )
        entries = log.entries(Position(era.era, era.first_offset))
        return {e.after["id"] for e in entries if isinstance(e, ChangeEvent) and e.table.name == "t" and e.after}

    def arrives(self, *ids: int) -> None:
        def check() -> None:
            assert self.ids() >= set(ids)

        eventually(check, 90)

    def stop(self) -> None:
        with ConnectClient(self.capture.connect) as client:
            client.stop(self.capture.source.connector)
            client.wait_stopped(self.capture.source.connector, 60)

    def look(self) -> Status:
        """As the watch does: the canary is followed, then everything is looked at, and gaps are written down."""
        gaps = self.registry.gaps()
        self.registry.note_gaps(gaps.plus((), self.check.look()))
        seen = self.observer.look()
        self.registry.note_gaps(self.registry.gaps().plus(seen.gaps, None))
        return seen

    def notices(self, code: GapCode) -> Status:
        def check() -> Status:
            seen = self.look()
            assert code in [gap.code for gap in seen.gaps], (seen.gaps, seen.findings)
            return seen

        seen = eventually(check, 90)
        assert not seen.healthy, "never healthy while there is a gap"
        assert any(f.level == "fail" and f.name == "gap" and f.hint == "headwater recover" for f in seen.findings)
        self.tells_readers(code)
        return seen

    def tells_readers(self, code: GapCode) -> None:
        """A view of that era, as who keeps it would have noted it: it is stale, and nobody is told to be ready."""
        [gap] = [each for each in self.registry.gaps().gaps if each.code is code]
        wanted = WantedView("create materialized view ids as select id from t", [], gap.since_s, "batch")
        group = GroupStatus(1, 1, is_live=True, is_following=False, era=gap.era)
        views = {"ids": ViewStatus(ViewState.LIVE, "group", gap.since_s)}
        self.registry.want(Wanted({"ids": wanted}))
        self.registry.note(State(time.time(), views=views, groups={"group": group}))
        try:
            assert stale_views(self.registry.state(), self.registry.gaps())["ids"].is_gap
            served = PageServer(self.deployment)
            served.status = self.observer.look()
            answer = asyncio.run(asked(served, "/readyz"))
            assert answer.status_code == 503
            [told] = [each for each in answer.json()["findings"] if each.startswith("view ids: is stale")]
            assert "the log has a gap" in told
        finally:
            self.registry.want(Wanted())  # nobody is here who would bring it back
            self.registry.note(State())

    def recovers(self, *ids: int) -> None:
        """By the one command, after which nothing is missing."""
        recoverer, before = (
            Recoverer(self.deployment, self.registry),
            eras.current(self.capture.kafka, self.capture.source),
        )
        plan = recoverer.plan()
        assert plan.new_era
        assert plan.seconds > 0
        recoverer.carry_out(plan, print)
        for _ in recoverer.wait(plan):
            pass
        assert eras.current(self.capture.kafka, self.capture.source).era > before.era
        self.arrives(*ids)
        self.tick()
        self.sql("insert into t values (99)")
        self.arrives(99)
        assert self.ids() == {*ids, 99}
        seen = self.look()
        assert seen.gaps == ()
        assert not recoverer.plan().is_needed


async def asked(server: PageServer, path: str) -> httpx.Response:
    transport = httpx.ASGITransport(make_app(server))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        return await client.get(path)


@pytest.fixture
def site(deployment: Deployment, capture: Capture, tmp_path: Path) -> Site:
    return watched(deployment, capture, tmp_path)


def watched(deployment: Deployment, capture: Capture, folder: Path) -> Site:
    mine = replace(
        deployment,
        settings=Settings.model_validate({"data_folder": str(folder), "tables": list(capture.tables)}),
        source=capture.source,
        postgres=capture.postgres,
        capture_postgres=capture.capture,
    )
    return Site(capture, mine).begun()


def test_while_all_is_well_there_is_no_gap(site: Site) -> None:
    site.canary.tick(0.0, is_running=True)
    site.canary.tick(1.0, is_running=True)  # not yet time for another
    site.canary.tick(1.5, is_running=False)
    assert [number for number, _ in site.canary.waiting] == [1, 2]
    site.sql("insert into t values (2)")
    site.arrives(2)
    seen = site.look()
    assert seen.gaps == ()
    site.canary.look()
    assert not site.canary.waiting, "they have arrived"
    assert not Recoverer(site.deployment, site.registry).plan().is_needed
    proven = site.check.known
    assert proven is not None
    assert not proven.gap
    assert not proven.skipped


def test_the_slot_is_lost(site: Site) -> None:
    site.look()
    site.stop()
    site.sql(f"select pg_drop_replication_slot('{site.capture.source.slot}')", "insert into t values (2)")
    site.notices(GapCode.SLOT_MISSING)
    site.recovers(1, 2)


def test_the_slot_is_ahead_of_the_offset(site: Site) -> None:
    site.stop()
    move = f"select pg_replication_slot_advance('{site.capture.source.slot}', pg_current_wal_lsn())"
    site.sql("insert into t values (2)", move)
    site.notices(GapCode.SLOT_AHEAD)
    with pytest.raises(CaptureGap):
        site.capture.ensure()
    site.recovers(1, 2)


def test_the_slot_is_moved_on_and_connect_goes_on_by_itself(site: Site) -> None:
    """Debezium does not notice: it compares its offset with the slot's restart LSN only. The canary does."""
    site.tick()
    site.look()
    site.stop()
    site.tick()  # as who watches does while capture stands still
    move = f"select pg_replication_slot_advance('{site.capture.source.slot}', pg_current_wal_lsn())"
    site.sql("insert into t values (2)", move)
    with ConnectClient(site.capture.connect) as client:
        client.resume(site.capture.source.connector)
    site.sql("insert into t values (3)")
    site.arrives(3)
    assert 2 not in site.ids(), "the connector lost it, and runs"
    site.tick()
    seen = site.notices(GapCode.CANARY)
    assert seen.connector == "RUNNING"
    site.recovers(1, 2, 3)


def test_the_topic_is_made_anew(site: Site) -> None:
    site.look()
    site.stop()
    delete_topic(site.capture.kafka, site.capture.source.changes_topic)
    site.sql("insert into t values (2)")
    ensure_topic(site.capture.kafka, site.capture.source.changes_topic)
    seen = eventually_gap(site, GapCode.TOPIC_RECREATED)
    assert not seen.healthy
    site.check = CanaryCheck(ChangeLog(site.capture.kafka, site.capture.source))
    site.recovers(1, 2)


def eventually_gap(site: Site, code: GapCode) -> Status:
    """Without the canary: its log is gone."""
    seen = site.observer.look()
    assert code in [gap.code for gap in seen.gaps], seen.findings
    site.registry.note_gaps(site.registry.gaps().plus(seen.gaps, None))
    site.tells_readers(code)
    return seen


# A server of its own


@pytest.fixture(scope="module")
def fragile() -> Iterator[Stack]:
    folder = Path(tempfile.mkdtemp(prefix="headwater-recovery-"))
    folder.chmod(0o755)
    plan = StackPlan(folder=folder, servers=("postgres",), wal_keep_max_mb=WAL_KEEP_MAX_MB)
    try:
        with running(plan) as stack:
            yield stack
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def own_site(deployment: Deployment, fragile: Stack, unique: str, tmp_path: Path) -> Iterator[Site]:
    from headwater.stack.servers.postgres import address

    for postgres in fresh_database(address(fragile.site), unique):
        migrate(postgres)
        capture = replace(
            deployment.capture(),
            source=type(deployment.source)(unique),
            postgres=postgres,
            capture=replace(postgres, user=f"{unique}_capture", password="a capture password"),
            tables=("public.*",),
        )
        yield watched(deployment, capture, tmp_path)
        capture.remove()
        with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
            drop_capture_role(conn, capture.capture.user)


def data(stack: Stack) -> Path:
    return stack.site.folder("postgres") / "data"


def stopped(stack: Stack) -> None:
    stack.child("postgres").stop(30)


def started(stack: Stack) -> None:
    stack.forgive()
    stack.restart("postgres")


def test_the_slot_is_invalidated_because_it_holds_back_too_much(own_site: Site) -> None:
    site = own_site
    site.look()
    site.stop()
    site.sql("insert into t values (2)", "create schema other; create table other.ballast (n text)")
    for _ in range(4):
        site.sql(
            "insert into other.ballast select repeat(md5(n::text), 100) from generate_series(1, 9000) n",
            "select pg_switch_wal()",
        )
    site.sql("checkpoint")
    site.notices(GapCode.SLOT_LOST)
    with pytest.raises(CaptureGap, match="slot lost"):
        site.capture.ensure()
    site.recovers(1, 2)


def test_the_source_is_restored_to_an_earlier_point(own_site: Site, fragile: Stack, tmp_path: Path) -> None:
    """A cold copy of the server, put back: same cluster, same timeline, even the slot is there, as it was."""
    site = own_site
    site.tick()
    site.stop()
    stopped(fragile)
    shutil.copytree(data(fragile), tmp_path / "backup", symlinks=True)
    started(fragile)
    with ConnectClient(site.capture.connect) as client:
        site.capture.resume(client)
    site.sql("select pg_switch_wal()", "insert into t values (2)")  # so far that a server that starts is still behind
    site.tick()
    site.arrives(2)
    site.look()
    site.stop()
    stopped(fragile)
    shutil.rmtree(data(fragile))
    shutil.copytree(tmp_path / "backup", data(fragile), symlinks=True)
    fragile.site.account.own(fragile.site.folder("postgres"))
    started(fragile)
    site.notices(GapCode.SOURCE_WENT_BACK)
    with pytest.raises(CaptureGap, match="went back"):  # Debezium would wait for its LSN, and skip all before it
        site.capture.ensure()
    site.recovers(1)


def test_the_source_fails_over_to_another_timeline(own_site: Site, fragile: Stack) -> None:
    """A standby that is promoted: a real promotion, of the same server's files."""
    site = own_site
    site.look()
    site.stop()
    stopped(fragile)
    (data(fragile) / "standby.signal").touch()
    fragile.site.account.own(fragile.site.folder("postgres"))
    started(fragile)
    site_as_admin = replace(site.capture.postgres, database="postgres")
    with psycopg.connect(site_as_admin.conninfo(), autocommit=True) as conn:
        conn.execute("select pg_promote(true, 60)")
        eventually(lambda: conn.execute("select pg_is_in_recovery()").fetchone() == (False,))
    site.sql("insert into t values (2)")
    site.notices(GapCode.SOURCE_CHANGED)
    before = eras.current(site.capture.kafka, site.capture.source)
    site.recovers(1, 2)
    assert eras.current(site.capture.kafka, site.capture.source).timeline == before.timeline + 1


def test_what_cannot_begin_anew_is_left_as_it_is(site: Site) -> None:
    """A table that cannot be captured is told before the slot is dropped, not after."""
    site.sql("create table keyless (n text)")
    before = eras.current(site.capture.kafka, site.capture.source)
    with pytest.raises(PreflightError):
        site.capture.begin_anew()
    assert eras.current(site.capture.kafka, site.capture.source) == before
    site.sql("drop table keyless", "insert into t values (2)")
    site.arrives(2)


def test_a_failover_while_nobody_looked_begins_a_new_era_at_the_next_start(own_site: Site, fragile: Stack) -> None:
    site = own_site
    before = eras.current(site.capture.kafka, site.capture.source)
    other = replace(before, era=before.era + 1, timeline=before.timeline + 7)
    eras.register(site.capture.kafka, site.capture.source, other.identity, "as if the server had been another")
    site.capture.ensure()
    after = eras.current(site.capture.kafka, site.capture.source)
    assert after.era > other.era
    assert after.timeline == before.timeline
    assert after.slot != before.slot, "a fresh slot, with a fresh snapshot"
    site.arrives(1)

"""The log is no longer what the views were built from: they say so, and come back exact, from the archive, from a fresh
snapshot or from a new era, without a second word to their readers about what did not change."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from cdc import eras
from cdc.archive import Archiver, ArchiveReader
from cdc.changelog import ChangeLog
from cdc.connect import ConnectClient
from cdc.errors import LogError
from cdc.events import ChangeEvent, Op
from cdc.kafka import admin
from cdc.topics import topic_state
from headwater.api.shapes import Shapes
from headwater.deployment import Deployment
from headwater.recovery import Recoverer, decide
from headwater.settings import Settings
from tests.maintain.rig import Rig, limits
from tests.waiting import eventually
from views.maintain.registry import ViewState
from views.maintain.staleness import stale_views
from views.maintain.wanting import LOG_LOST

pytestmark = [pytest.mark.stack, pytest.mark.spark]

SUMS = "create materialized view sums as select kind, sum(n) as total, count(*) as rows from things group by kind;"
ROWS = "create materialized view rows as select id, kind, n from things where n > 2;"
LATER = "create materialized view later as select id, n - 1 as less from things;"
LATE = "create materialized view late as select id, n * 2 as twice from things;"


@pytest.fixture(scope="module")
def ddl() -> str:
    return """
        create table things (id integer primary key, kind integer, n integer);
        insert into things select n, n % 5, n from generate_series(1, 50) n;
    """


@pytest.fixture
def archived(own_rig: Rig, tmp_path: Path) -> Rig:
    own_rig.archive = ArchiveReader(own_rig.capture.source, tmp_path / "warehouse")
    return own_rig


@pytest.fixture
def closing() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def end(rig: Rig) -> int:
    return topic_state(rig.capture.kafka, rig.capture.source.changes_topic).high


def archive(rig: Rig, folder: Path) -> None:
    """Everything that is in the log now."""
    archiver = Archiver(rig.capture.kafka, rig.capture.source, folder / "warehouse")
    until = end(rig)
    while archiver.step().end.offset < until:
        pass


def expire(rig: Rig) -> None:
    """What is in the log now goes, as by Kafka's retention."""
    partition = TopicPartition(rig.capture.source.changes_topic, 0, end(rig))
    admin(rig.capture.kafka).delete_records([partition])[partition].result()


def recoverer(rig: Rig, deployment: Deployment) -> Recoverer:
    settings = Settings.model_validate({"data_folder": str(rig.registry.folder.parent)})
    place = replace(deployment, settings=settings, source=rig.capture.source, postgres=rig.capture.postgres)
    return Recoverer(place, rig.registry)


def test_what_kafka_let_go_is_read_from_the_archive(archived: Rig, tmp_path: Path) -> None:
    rig = archived
    rig.want(SUMS)
    with rig.kept(limits()):
        rig.settled(timeout_s=90)
    rig.connection.execute("update things set n = n + 1 where id % 2 = 0")
    rig.marked()
    rig.connection.execute("delete from things where id = 4")
    eventually(lambda: has_deletes(rig))
    archive(rig, tmp_path)
    expire(rig)
    rig.connection.execute("delete from things where id = 7")
    rig.want(LATE)  # one that was left behind, and one that is new: both begin in the archive and go on in Kafka
    with rig.kept(limits()):
        rig.settled(timeout_s=90)
        rig.connection.execute("update things set n = n + 1")
        rig.settled()
        assert stale_views(rig.registry.state(), rig.registry.gaps()) == {}
    rig.chained("sums")


def test_what_nobody_has_any_more_is_read_anew(own_rig: Rig, deployment: Deployment, closing: ExitStack) -> None:
    rig = own_rig
    rig.want(SUMS + ROWS)
    with rig.kept(limits()):
        rig.settled(timeout_s=90)
    rig.connection.execute("update things set n = n + 1 where id % 2 = 0")
    rig.connection.execute("delete from things where id = 3")
    rig.marked()
    eventually(lambda: has_deletes(rig))
    connect = closing.enter_context(ConnectClient(rig.capture.connect))
    connect.stop(rig.capture.source.connector)
    connect.wait_stopped(rig.capture.source.connector, 60)
    expire(rig)
    rig.want(LATE)
    with rig.kept(limits()):
        assert "no whole transaction" in rig.paused("late", 90), "there is nothing in the log"
        rig.capture.resume(connect)
        committed(rig)
        rig.want(LATER)
        for view in ("sums", "rows", "late", "later"):
            assert rig.paused(view, 90).startswith(LOG_LOST)
        state = rig.registry.state()
        stale = stale_views(state, rig.registry.gaps())
        assert stale["sums"].is_gap
        assert stale["rows"].is_gap
        way = recoverer(rig, deployment)
        plan = decide((), {}, state, rig.registry.wanted(), {"public.things": 50})
        assert (plan.new_era, plan.read_anew) == (False, ("late", "later", "rows", "sums"))
        way.carry_out(plan, print)
        for _ in way.wait(plan):
            pass
        rig.settled(timeout_s=90)
        rig.connection.execute("update things set n = n + 1")
        rig.settled()
        assert stale_views(rig.registry.state(), rig.registry.gaps()) == {}
    rig.chained("sums")


def committed(rig: Rig) -> None:
    """A transaction more, and it is in the log."""
    before = end(rig)
    rig.marked()
    eventually(lambda: end(rig) > before)


def has_deletes(rig: Rig) -> bool:
    """Whether what was committed so far has reached the log: only then can it be taken from it."""
    log = ChangeLog(rig.capture.kafka, rig.capture.source)
    return any(isinstance(entry, ChangeEvent) and entry.op is Op.DELETE for entry in log.entries(log.bounds()[0]))


def test_a_new_era_makes_views_stale_until_they_are_built_from_it(own_rig: Rig) -> None:
    rig = own_rig
    rig.want(SUMS + ROWS)
    before = eras.current(rig.capture.kafka, rig.capture.source)

    def kept_over_the_end_of_the_era() -> None:
        with rig.kept(limits()) as maintainer:
            rig.settled(timeout_s=90)
            rig.capture.begin_anew()
            rig.connection.execute("delete from things where id = 9")
            eventually(maintainer._over.is_set, 90)

    with pytest.raises(LogError):
        kept_over_the_end_of_the_era()
    assert eras.current(rig.capture.kafka, rig.capture.source).era > before.era
    with rig.kept(limits()):

        def is_stale() -> None:
            state = rig.registry.state()
            stale = stale_views(state, rig.registry.gaps())
            assert state.views["sums"].state in (ViewState.WAITING, ViewState.BUILDING)
            assert "sums" in stale
            assert stale["sums"].is_gap
            assert str(before.era) in stale["sums"].reason
            assert Shapes(rig.registry, rig.capture.source).shape("sums").key == ("kind",), "readers have what they had"

        eventually(is_stale)
        rig.settled(timeout_s=90)
        rig.is_live("sums")
        eventually(lambda: stale_views(rig.registry.state(), rig.registry.gaps()) == {})
        rig.connection.execute("update things set n = n + 1")
        rig.settled()
    rig.chained("rows")


def test_a_number_that_is_missing_makes_a_view_stale(own_rig: Rig) -> None:
    """The maintainer's own look at the canary: what it read is not whole, whatever the log's own check says."""
    rig = own_rig
    rig.want(SUMS)
    with rig.kept(limits()):
        rig.settled(timeout_s=90)
        rig.connection.execute("select headwater.tick_canary()")
        rig.connection.execute("update headwater.canary set number = number + 2")  # as if a commit had not arrived
        rig.connection.execute("select headwater.tick_canary()")

        def is_stale() -> None:
            stale = stale_views(rig.registry.state(), rig.registry.gaps())
            assert "sums" in stale
            assert stale["sums"].is_gap
            assert "the canary says" in stale["sums"].reason

        eventually(is_stale)
    with rig.kept(limits()):  # and still says so after a restart
        rig.settled(timeout_s=90)
        assert stale_views(rig.registry.state(), rig.registry.gaps())["sums"].is_gap

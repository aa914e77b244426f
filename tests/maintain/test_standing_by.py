"""A definition that readers left is kept fed: to go back to it, and forth again, is at once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from headwater import cli
from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from headwater.views.place import Place
from tests.maintain.rig import Rig, limits
from tests.waiting import eventually
from views.maintain.group import Group
from views.maintain.registry import Standby
from views.maintain.runner import Measured

pytestmark = [pytest.mark.stack, pytest.mark.spark]

BEFORE = "create materialized view dear with (sinks = 'cache') as select id, price from items where price >= 10"
AFTER = "create materialized view dear with (sinks = 'cache') as select id, price from items where price >= 12"
WIDER = "create materialized view dear with (sinks = 'cache') as select id, price, price * 2 as twice from items"
BESIDE = "create materialized view cheap as select id, price from items where price < 10"


@pytest.fixture(scope="module")
def ddl() -> str:
    return """
        create table items (id integer primary key, price integer);
        insert into items select n, n from generate_series(1, 20) n;
    """


@pytest.fixture(autouse=True)
def _as_at_first(rig: Rig, deployment: Deployment) -> Iterator[None]:
    rig.sinks = dict(sink_kinds(deployment))
    yield
    with rig.kept(limits()):
        for view in list(rig.definitions):
            rig.drop(view)
        eventually(lambda: not rig.registry.state().views, 60)
    rig.connection.execute("delete from items")
    rig.connection.execute("insert into items select n, n from generate_series(1, 20) n")


def standing_by(rig: Rig) -> Standby:
    def is_ready() -> Standby:
        [found] = rig.registry.state().standbys
        assert (found.view, found.is_ready) == ("dear", True)
        return found

    return eventually(is_ready, 60)


def applied(rig: Rig, text: str) -> str:
    """The group that keeps the view then, which is what Postgres says, and read so in its sink."""
    rig.want(text)
    rig.settled("dear")
    rig.sunk_equals_now("dear", "cache")
    return rig.group("dear").spec.id


@pytest.mark.parametrize("beside", [[], [BESIDE]], ids=["alone", "with others"])
@pytest.mark.parametrize("changed", [AFTER, WIDER], ids=["other rows", "other columns"])
def test_back_and_forth(rig: Rig, changed: str, beside: list[str]) -> None:
    with rig.kept(limits()):
        rig.want(";".join([BEFORE, *beside]))
        rig.settled(timeout_s=120)
        second = applied(rig, changed)
        first = standing_by(rig).group
        rig.connection.execute("insert into items select n, n from generate_series(30, 35) n")
        rig.connection.execute("delete from items where id in (12, 13)")
        assert applied(rig, BEFORE) == first, "nothing is computed anew"
        assert standing_by(rig).group == second
        rig.connection.execute("update items set price = price + 1 where id > 10")
        assert applied(rig, changed) == second
        assert standing_by(rig).group == first
        rig.settled()


def test_rolled_back_by_one_command(rig: Rig, deployment: Deployment, capsys: pytest.CaptureFixture[str]) -> None:
    """Only what differs is told, and silently. What never was another cannot be rolled back."""
    at = replace(deployment, source=rig.capture.source, postgres=rig.capture.postgres)
    place = Place(at, rig.registry, rig.registry.folder)
    with rig.kept(limits()), pytest.MonkeyPatch.context() as patched:
        patched.setattr(Place, "here", classmethod(lambda cls: place))
        rig.want(BEFORE)
        rig.settled(timeout_s=120)
        assert cli.run(["rollback", "dear", "--definition"]) == 1
        assert "no earlier definition of dear is kept" in capsys.readouterr().err
        applied(rig, AFTER)
        standing_by(rig)
        told = len(list(rig.told("dear")))
        assert cli.run(["rollback", "dear"]) == 0
        assert "readers of dear have the definition again that they left" in capsys.readouterr().out
        assert cli.run(["generations", "dear", "--json"]) == 0
        [left] = json.loads(capsys.readouterr().out)["definitions"]
        assert (left["view"], left["is_ready"]) == ("dear", True)
        rig.define(BEFORE)
        rig.settled("dear")
        rig.sunk_equals_now("dear", "cache")
        fresh = [(key, each.silent) for key, each in list(rig.told("dear"))[told:] if each is not None]
        assert sorted(fresh) == [(b'{"id":10}', True), (b'{"id":11}', True)]


def test_it_outlives_a_restart_and_not_its_time(rig: Rig) -> None:
    with rig.kept(limits()):
        rig.want(BEFORE)
        rig.settled(timeout_s=120)
        applied(rig, AFTER)
        first = standing_by(rig).group
    rig.connection.execute("insert into items values (40, 40)")
    with rig.kept(limits()):
        assert standing_by(rig).group == first
        assert applied(rig, BEFORE) == first
        second = standing_by(rig).group
    folder = rig.registry.groups / second
    assert folder.is_dir()
    _hurry(folder)
    with rig.kept(limits()):
        rig.settled("dear")
        eventually(lambda: _is_gone(rig, folder), 60)
        assert applied(rig, AFTER) != second, "computed anew"


def test_who_publishes_nothing_is_behind_nobody(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else what is built from a log of yesterday would slow itself down for readers who wait for nothing."""
    seen: list[Measured] = []
    with rig.kept(limits()) as maintainer:
        monkeypatch.setattr(maintainer._meters, "add", seen.append)
        rig.want(BEFORE)
        rig.settled(timeout_s=120)
        rig.connection.execute("insert into items values (50, 50)")
        rig.settled("dear")
    building = [each for each in seen if each.behind_ms is None]
    assert sum(each.records for each in building) > 20
    assert sum(each.changes for each in building) == 0
    assert any(each.changes for each in seen if each.behind_ms is not None)


def test_a_view_that_is_dropped_leaves_nothing_that_stands_by(rig: Rig) -> None:
    with rig.kept(limits()):
        rig.want(f"{BEFORE}; {BESIDE}")
        rig.settled(timeout_s=120)
        applied(rig, AFTER)
        folder = rig.registry.groups / standing_by(rig).group
        rig.drop("dear")
        eventually(lambda: _is_gone(rig, folder), 60)


def _hurry(folder: Path) -> None:
    """Its time is over."""
    msgspec.structs.replace(Group.load(folder).spec, keep_until_s=1.0).save(folder.parent)


def _is_gone(rig: Rig, folder: Path) -> None:
    assert folder.name not in {each.group for each in rig.registry.state().standbys}
    assert not folder.exists()

"""Rows that somebody changed in a sink behind our back: noticed by a sample, told by the status, written again one by
one, and all of it is in the history. On the real thing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from headwater import cli, views_status
from headwater.deployment import Deployment
from headwater.settings import Settings
from headwater.sinks import sink_kinds
from headwater.views.place import Place
from headwater.views.sampling import Sampler
from headwater.views.verify_history import Why
from headwater.views.verify_view import history_of
from tests.maintain.rig import Rig, limits
from views.sinks.cache_keys import CacheKeys

pytestmark = [pytest.mark.stack, pytest.mark.spark]

SINKS = ("cache", "search", "warehouse")
CARDS = f"""
create materialized view cards with (sinks = '{", ".join(SINKS)}') as
    select i.id, i.price, s.label from items i join shelves s on s.id = i.shelf
"""
KEY = '{"id":7}'


@pytest.fixture(scope="module")
def ddl() -> str:
    return """
        create table items (id integer primary key, shelf integer, price numeric(12,2));
        create table shelves (id integer primary key, label text);
        insert into shelves values (1, 'top'), (2, 'middle');
        insert into items select n, 1 + n % 2, n from generate_series(1, 40) n;
    """


@pytest.fixture(scope="module")
def place(deployment: Deployment, rig: Rig, tmp_path_factory: pytest.TempPathFactory) -> Place:
    folder: Path = tmp_path_factory.mktemp("data")
    settings = Settings(source=rig.capture.source.name, data_folder=folder, warehouse={"interval_s": 1})
    here = replace(deployment, settings=settings, source=rig.capture.source, postgres=rig.capture.postgres)
    return Place(here, rig.registry, folder)


@pytest.fixture(scope="module")
def kept(rig: Rig, place: Place) -> Iterator[Rig]:
    rig.sinks = dict(sink_kinds(place.deployment))
    rig.want(CARDS)
    with rig.kept(limits()):
        rig.settled(timeout_s=120)
        for sink in SINKS:
            rig.sunk_equals("cards", sink)
        yield rig


@pytest.fixture(autouse=True)
def here(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Place, "here", classmethod(lambda cls: place))


def spoil_cache(place: Place, row: bytes | None) -> None:
    deployment = place.deployment
    with deployment.redis.client() as client:
        where = CacheKeys(deployment.source.name, "cards").row(1, KEY)
        client.delete(where) if row is None else client.set(where, row)


def spoil_search(place: Place, kept: Rig, row: str) -> None:
    """As anybody may: without a version, so the document's own goes on by one each time."""
    sink = sink_kinds(place.deployment)["search"].open(kept.group("cards").shape("cards", kept.capture.source), 1)
    with place.deployment.elasticsearch.client() as client:
        client.index(index=sink.index, id=KEY, document={"row": row}, refresh=True)  # type: ignore[attr-defined]
    sink.close()


def test_a_sample_finds_nothing_where_nothing_is_wrong(kept: Rig, place: Place) -> None:
    run = Sampler(place, 100).sample("cards")
    assert run.is_equal
    assert {each.place: (each.rows, each.note) for each in run.places} == dict.fromkeys(("view", *SINKS), (40, ""))
    [told] = history_of(place).runs("cards", 1)
    assert (told.why, told.is_equal, told.rows) == (Why.SAMPLE, True, 160)


def test_noticed_told_written_again_and_in_the_history(
    kept: Rig, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil_cache(place, b'{"_version":1,"id":7,"price":0.01,"label":"spoilt"}')
    spoil_search(place, kept, '{"id":7,"price":0.02,"label":"spoilt"}')
    spoil_search(place, kept, '{"id":7,"price":0.03,"label":"spoilt"}')  # two versions ahead of ours
    run = Sampler(place, 100).sample("cards")
    results = {each.place: each for each in run.places}
    assert results["cache"].keys == results["search"].keys == (f"different {KEY}",)
    assert results["view"].is_equal
    assert results["warehouse"].is_equal
    _, findings = views_status.look(place.registry.folder)
    told = {finding.name: finding for finding in findings}
    assert told["cache of cards"].hint == "headwater repair cards"
    assert KEY in told["search of cards"].detail
    capsys.readouterr()
    assert cli.run(["verify", "--history", "cards", "--json"]) == 0
    assert [each["place"] for each in json.loads(capsys.readouterr().out)["wrong"]] == ["cache", "search"]

    assert cli.run(["repair", "cards"]) == 0
    assert "1 row written again" in capsys.readouterr().out
    assert views_status.look(place.registry.folder)[1] == []
    assert cli.run(["verify", "cards"]) == 0
    assert cli.run(["verify", "--history", "cards"]) == 0
    out = capsys.readouterr().out
    assert "DIFFERENT, cache: 1 different; search: 1 different" in out
    assert "equal, 1 written again" in out
    assert cli.run(["repair", "cards"]) == 0
    assert "nothing of cards is known to be wrong" in capsys.readouterr().out


def test_verify_repairs_rows_and_not_the_view(kept: Rig, place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    group = kept.group("cards").spec.id
    spoil_cache(place, None)
    capsys.readouterr()
    assert cli.run(["verify", "cards"]) == 1
    assert cli.run(["verify", "cards", "--repair", "--json"]) == 0
    assert kept.group("cards").spec.id == group, "it was not built again"
    kept.sunk_equals("cards", "cache")


def test_a_row_that_should_be_gone(kept: Rig, place: Place) -> None:
    """It is among those that changed last, so a sample looks at it though the view has no such row."""
    kept.connection.execute("delete from items where id = 7")
    kept.sunk_equals("cards", "cache")
    spoil_cache(place, b'{"_version":1,"id":7,"price":7.00,"label":"middle"}')
    run = Sampler(place, 100).sample("cards")
    assert {each.place: each.keys for each in run.places if each.keys} == {"cache": (f"extra {KEY}",)}
    assert cli.run(["repair", "cards", "--key", '{ "id": 7 }']) == 0
    kept.sunk_equals("cards", "cache")


def test_what_is_no_key(kept: Rig, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["repair", "cards", "--key", "7"]) == 2
    assert cli.run(["repair", "cards", "--key", '{"id":"x"}']) == 2
    assert "the key is (id integer)" in capsys.readouterr().err

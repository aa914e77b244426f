"""Dead letters on the real thing: a row that Elasticsearch refuses holds just its key, until it is taken or dropped."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cdc.capture import Capture
from cdc.errors import ConfigurationError
from headwater import audit_store, cli, dead_letters
from headwater.api.freshness import Freshness
from headwater.audit_store import listed
from headwater.dead_letters import Chosen, open_letters
from headwater.deployment import Deployment
from headwater.views.place import Place
from tests.headwater.operated import Shop, verbs
from tests.waiting import eventually
from views.sinks.board import read_board
from views.sinks.lane import SinkStatus
from views.sinks.letters import DeadLetter

DDL = """
    create table albums (id integer primary key, label text, photos jsonb not null default '[]');
    insert into albums select n, 'album ' || n from generate_series(1, 50) n;
"""
VIEWS = {
    "album": """create materialized view album with (sinks = 'search, cache') as
        select id, label, photos from albums"""
}
MANY = "select jsonb_agg(jsonb_build_object('n', n)) from generate_series(1, %s) n"


@pytest.fixture
def shop(capture: Capture, deployment: Deployment, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(capture, deployment, tmp_path, DDL, VIEWS, ["albums"])
    with shop.keeping():
        shop.whole()
        yield shop
    shop.leave()


def letter(n: int) -> DeadLetter:
    return DeadLetter("album", "search", f'{{"id":{n}}}', 5, "too many", "{}", 0, 1)


@pytest.mark.parametrize("verb", ["show", "replay", "drop"])
def test_an_id_that_is_empty_or_fits_several_means_none_of_them(
    verb: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`drop "$ID"` with $ID never set closed every open letter of every view."""
    place: Any = SimpleNamespace(deployment=SimpleNamespace(kafka=None, source=None))
    letters = [letter(n) for n in range(17)]
    first = next(of for of, found in Counter(each.id.short[0] for each in letters).items() if found > 1)
    alike = [each.id.short for each in letters if each.id.short.startswith(first)]
    monkeypatch.setattr(dead_letters, "read_letters", lambda *_: letters)
    monkeypatch.setattr(Place, "here", lambda: place)
    monkeypatch.setattr(audit_store, "keep", lambda *_: pytest.fail("it was begun"))
    for id_, told in (("", "an id is empty"), (first, f"{len(alike)} open letters begin with {first}")):
        given = [verb, id_, *(["--yes"] if verb == "drop" else [])]
        assert cli.run(["deadletters", *given]) == 2
        assert told in (said := capsys.readouterr().err)
    assert all(id_ in said for id_ in alike)
    assert open_letters(place, Chosen(ids=(alike[0][:-1], alike[0]))) == [
        each for each in letters if each.id.short == alike[0]
    ]
    with pytest.raises(ConfigurationError, match="no open letter"):
        open_letters(place, Chosen(sink="cache", ids=(alike[0],)))


@pytest.mark.stack
def test_from_the_refusal_to_the_replay(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run = verbs(shop, monkeypatch, capsys)
    limit_elements(shop, 5)
    fill(shop, 7, elements=6)
    fill(shop, 8, elements=6)
    fill(shop, 9, elements=5)
    shop.whole()
    eventually(lambda: len(run("deadletters", "list")[1]["deadletters"]) == 2)  # told after the place's mark has moved

    # Only the two keys are held, and everybody is told so.
    found = run("deadletters", "list", "--view", "album", "--sink", "search")[1]
    assert [letter["key"] for letter in found["deadletters"]] == ['{"id":7}', '{"id":8}']
    assert "nested" in found["deadletters"][0]["error"]
    assert found["incomplete"] == [{"view": "album", "sink": "search", "generation": 1, "keys": 2}]
    assert elements(shop) == {7: 0, 8: 0, 9: 5}
    eventually(lambda: status(shop, "search").incomplete == 2)
    assert Freshness.of(status(shop, "search")).headers()["X-Headwater-Incomplete"] == "2"
    assert status(shop, "cache").incomplete == 0
    eventually(lambda: {each["sink"]: each["incomplete"] for each in run("views", "album")[1]["sinks"]}["search"] == 2)

    # Replayed while nothing has changed, they stay, and say why; a newer row that is taken closes one by itself.
    seven, _eight = (letter["id"] for letter in found["deadletters"])
    code, told = run("deadletters", "replay", seven)
    assert code == 1
    assert told["replayed"][0]["outcome"] == "refused"
    fill(shop, 8, elements=3)
    eventually(lambda: [letter["id"] for letter in run("deadletters", "list")[1]["deadletters"]] == [seven])
    assert elements(shop)[8] == 3

    # The mapping is put right: the letter's row is written, the mark stays where the lane has it.
    limit_elements(shop, 100)
    assert run("deadletters", "show", seven[:4])[1]["deadletters"][0]["version"] > 0
    assert run("deadletters", "replay", "--view", "album") == (
        0,
        {"replayed": [{"id": seven, "outcome": "taken", "reason": ""}]},
    )
    assert elements(shop) == {7: 6, 8: 3, 9: 5}
    eventually(lambda: status(shop, "search").incomplete == 0)
    assert run("deadletters", "list")[1] == {"deadletters": [], "incomplete": []}

    # One that a person gives up is closed, and the key stays as it is.
    limit_elements(shop, 5)
    fill(shop, 10, elements=9)
    [letter] = eventually(lambda: run("deadletters", "list")[1]["deadletters"] or False)
    assert run("deadletters", "drop", letter["id"], "--yes")[0] == 0
    assert run("deadletters", "list")[1]["deadletters"] == []
    assert run("deadletters", "replay", "nothing")[0] == 2
    assert run("deadletters", "drop")[0] == 2

    done = [(each.verb, each.outcome, each.result) for each in reversed(listed(shop.deployment))]
    assert done == [
        ("deadletters replay", "done", {seven: "refused"}),
        ("deadletters replay", "done", {seven: "taken"}),
        ("deadletters drop", "done", None),
    ]


@pytest.mark.stack
def test_a_newer_row_that_is_refused_meanwhile_keeps_its_letter(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What was replayed, or what a person gave up, was the older row; of the newer one nobody else would know."""
    run = verbs(shop, monkeypatch, capsys)
    monkeypatch.setattr(dead_letters, "AT_ONCE", 1)
    write = dead_letters._written

    def opened() -> dict[str, int]:
        return {each["key"]: each["version"] for each in run("deadletters", "list")[1]["deadletters"]}

    def refuse_newer(elements: int) -> None:
        before = opened()['{"id":7}']
        fill(shop, 7, elements=elements)
        eventually(lambda: opened().get('{"id":7}', 0) > before)

    def replayed(elements: int, *, is_mended: bool) -> dict[str, str]:
        """With a newer row of 7 refused after its older one was written."""

        def written(kind: Any, shape: Any, generation: int, changes: Any) -> Any:
            limit_elements(shop, 100 if is_mended else 5)
            found = write(kind, shape, generation, changes)
            limit_elements(shop, 5)
            if changes[0].key == b'{"id":7}':
                refuse_newer(elements)
            return found

        with monkeypatch.context() as meanwhile:
            meanwhile.setattr(dead_letters, "_written", written)
            code, told = run("deadletters", "replay", "--all")
        assert code == 1
        return {each["id"]: each["outcome"] for each in told["replayed"]}

    limit_elements(shop, 5)
    fill(shop, 7, elements=6)
    fill(shop, 8, elements=6)
    eventually(lambda: len(opened()) == 2)
    ids = {each["key"]: each["id"] for each in run("deadletters", "list")[1]["deadletters"]}
    seven, eight = ids['{"id":7}'], ids['{"id":8}']

    at_first = opened()
    assert replayed(7, is_mended=False) == {seven: "newer", eight: "refused"}
    now = opened()
    assert now['{"id":7}'] > at_first['{"id":7}'], "what was told anew of the older row did not take its place"
    assert now['{"id":8}'] == at_first['{"id":8}']
    assert replayed(8, is_mended=True) == {seven: "newer", eight: "taken"}
    assert list(opened()) == ['{"id":7}']
    assert elements(shop)[7] == 7
    eventually(lambda: status(shop, "search").incomplete == 1)

    monkeypatch.setattr("headwater.cli.deadletters.ask", lambda *_, **__: refuse_newer(9))
    assert run("deadletters", "drop", seven) == (1, {"dropped": [], "left": [seven]})
    assert list(opened()) == ['{"id":7}']
    monkeypatch.setattr("headwater.cli.deadletters.ask", lambda *_, **__: None)
    assert run("deadletters", "drop", seven) == (0, {"dropped": [seven], "left": []})


def fill(shop: Shop, id_: int, *, elements: int) -> None:
    shop.conn.execute(f"update albums set photos = ({MANY}) where id = %s", [elements, id_])


def limit_elements(shop: Shop, most: int) -> None:
    with shop.deployment.elasticsearch.client() as client:
        index = f"{shop.capture.source.name}-album-g1"
        client.indices.put_settings(index=index, settings={"index.mapping.nested_objects.limit": most})


def elements(shop: Shop) -> dict[int, int]:
    """What readers of the index find: how many photos albums 7 to 9 have."""
    import json

    from headwater.sinks import sink_kinds

    sink: Any = sink_kinds(shop.deployment)["search"].open(shop.group.shape("album", shop.capture.source), 1)
    rows = [json.loads(row) for row in sink.rows()]
    sink.close()
    return {row["id"]: len(row["photos"]) for row in rows if row["id"] in (7, 8, 9)}


def status(shop: Shop, sink: str) -> SinkStatus:
    return read_board(shop.capture.kafka, shop.capture.source)["album", sink]

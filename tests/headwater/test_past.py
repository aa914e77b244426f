"""Looking back: a view as it was, what differs between two points, and the story of a row with what caused it; from the
topic and from the warehouse, on the command line and over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from cdc.errors import ViewError
from cdc.position import Lsn
from headwater import cli
from headwater.client import Client
from headwater.deployment import Deployment
from headwater.rebuild_plans import plan
from headwater.views import past_topic
from headwater.views.causes import Role
from headwater.views.past import Past, diff, view_at
from headwater.views.past_warehouse import PastWarehouse
from headwater.views.place import Place
from headwater.views.story import Kind, story
from tests.headwater.test_api import Shop, opened_shop
from tests.waiting import eventually
from views.maintain.registry import Registry

pytestmark = pytest.mark.stack


@pytest.fixture(scope="module")
def shop(deployment: Deployment, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    with opened_shop(deployment, tmp_path_factory.mktemp("past"), warehouse={"interval_s": 1}) as made:
        yield made


@pytest.fixture(autouse=True)
def place(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Place:
    mine = shop.page.deployment
    here = Place(mine, Registry(mine.settings.views_state), Path())
    monkeypatch.setattr(Place, "here", classmethod(lambda cls: here))
    return here


def committed(shop: Shop, statement: str, view: str = "card") -> str:
    """The LSN of a state of the view that includes it: what an answer says of itself."""
    shop.conn.execute(statement)
    told = shop.sure(f"/v1/views/{view}/{'1' if view == 'card' else 'maker=1,at=2026-01-31T12:00:00Z'}")
    return str(told["freshness"]["lsn"])


def in_warehouse(place: Place) -> Past:
    """Once it has all of the view's topic."""

    def there() -> Past:
        past = Past.open(place, "card")
        assert past.in_warehouse(None) == past.frontier.next_offset
        return past

    return eventually(there, 60)


def prices(shop: Shop, place: Place, when: str) -> dict[int, Any]:
    return {row["id"]: row["price"] for row in map(json.loads, view_at(place, "card", when).rows)}


def test_a_view_as_it_was_and_what_differs(
    shop: Shop, place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = committed(shop, "update products set price = 1000 where id = 3")
    shop.conn.execute("delete from products where id = 4")
    second = committed(shop, "insert into products values (90, 'p-90', 1, 5, now())")
    committed(shop, "update products set price = 2000, slug = 'three' where id = 3; delete from products where id = 90")
    in_warehouse(place)

    def look(source: str) -> None:
        one, two, now = (prices(shop, place, when) for when in (first, second, "now"))
        assert (one[3], 4 in one, 90 in one) == (1000, True, False)
        assert (two[3], 4 in two, 90 in two) == (1000, False, True)
        assert (now[3], 4 in now, 90 in now) == (2000, False, False)
        assert len(one) == 50
        found = diff(place, "card", first, second)
        assert (found.added, found.removed, found.changed, found.source) == (1, 1, 0, source)
        whole = diff(place, "card", first)
        assert (whole.added, whole.removed, whole.changed) == (0, 1, 1), "what came and went is no difference"
        assert whole.columns == {"price": 1, "slug": 1}
        [changed] = [each for each in whole.examples if each.kind == "changed"]
        assert json.loads(changed.before or b"")["price"] == 1000
        assert json.loads(changed.after or b"")["slug"] == "three"

    look("topic")
    monkeypatch.setattr(past_topic, "WHOLE_MS", 0)  # as if all of it were old
    look("warehouse")
    with pytest.raises(ViewError, match="no longer kept"):
        diff(place, "by_maker", first, second)
    monkeypatch.undo()
    monkeypatch.setattr(Place, "here", classmethod(lambda cls: place))

    with pytest.raises(ViewError, match="does not include FFFF/0 yet"):
        view_at(place, "card", "FFFF/0")
    with pytest.raises(ViewError, match="does not reach back"):
        view_at(place, "card", "2001-01-01T00:00:00Z")
    capsys.readouterr()
    assert cli.run(["diff", "card", first, second]) == 0
    out = capsys.readouterr().out
    assert "1 added, 1 removed, 0 changed" in out
    assert 'removed {"id":4}' in out
    assert cli.run(["view-at", "card", "--at", first, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows_total"] == 50
    told = shop.get(f"/v1/views/card/at?at={first}&limit=2")
    assert (told["rows_total"], [row["id"] for row in told["rows"]]) == (50, [1, 2])
    shop.get(f"/v1/views/nothing/at?at={first}", status=404)
    shop.get("/v1/views/card/at?at=2001-01-01T00:00:00Z", status=409)
    told = shop.get(f"/v1/views/card/diff?from={first}&to={second}")
    assert (told["added"], told["removed"]) == (1, 1)
    with Client(shop.page.url) as client:
        assert client.diff("card", first, second)["removed"] == 1
        assert client.view_at("card", first)["rows_total"] == 50
    shop.get(f"/v1/views/nothing/diff?from={first}", status=404)


def test_the_story_of_a_row(
    shop: Shop, place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    [[xid]] = shop.conn.execute(
        "with changed as (update products set price = 77 where id = 7 returning 1)"
        " select pg_current_xact_id()::text from changed"
    ).fetchall()
    committed(shop, "update products set price = price + 1 where id = 8")  # somebody else's
    committed(shop, "update makers set name = 'Bobby' where id = 2")
    in_warehouse(place)
    committed(shop, "delete from products where id = 7")
    found = story(place, "card", ["7"])
    assert [version.kind for version in found.versions] == [Kind.APPEARED, Kind.CHANGED, Kind.CHANGED, Kind.GONE]
    built, priced, named, gone = found.versions
    assert built.causes.found[0].changes[0].op == "read"
    assert [(each.name, each.before, each.after) for each in priced.changed] == [("price", "7.50", "77.00")]
    [cause] = priced.causes.found
    assert (cause.xid, cause.role) == (int(xid), Role.DIRECT)
    assert [(each.table, each.op, dict(each.key or {})) for each in cause.changes] == [
        ("public.products", "update", {"id": 7})
    ]
    assert priced.committed_at is not None
    assert priced.published_at is not None
    assert cause.lsn is not None
    assert cause.lsn <= Lsn.parse(priced.lsn)
    [cause] = named.causes.found
    assert [(each.table, dict(each.key or {})) for each in cause.changes] == [("public.makers", {"id": 2})]
    assert [each.op for cause in gone.causes.found for each in cause.changes] == ["delete"]
    assert all(version.follows for version in found.versions)
    assert found.row is None

    with monkeypatch.context() as patched:  # the warehouse goes on while it is asked
        mark = PastWarehouse.mark
        patched.setattr(
            PastWarehouse, "mark", lambda kept: msgspec.structs.replace(mark(kept), next_offset=named.version)
        )
        again = story(place, "card", ["7"])
    assert [version.version for version in again.versions] == [version.version for version in found.versions]

    capsys.readouterr()
    assert cli.run(["story", "card", "id=7", "--last", "3"]) == 0
    out = capsys.readouterr().out
    assert "price: 7.50 → 77.00" in out
    assert f"transaction {xid}" in out
    assert 'name: "Bob" → "Bobby"' in out
    assert cli.run(["story", "card", "12345"]) == 1
    told = shop.get("/v1/views/card/7/story?causes=true")
    assert [each["kind"] for each in told["versions"]] == ["appeared", "changed", "changed", "gone"]
    assert told["versions"][1]["causes"][0]["xid"] == int(xid)
    with Client(shop.page.url) as client:
        assert "causes" not in client.story("card", 7)["versions"][0]


def test_the_story_of_a_group_without_a_warehouse(shop: Shop, place: Place) -> None:
    committed(shop, "update products set price = price + 100 where id in (11, 12)", "by_maker")
    committed(shop, "update products set price = price + 5 where id = 13", "by_maker")
    found = story(place, "by_maker", ["maker=2", "at=2026-01-31T12:00:00Z"])
    last = found.versions[-1]
    assert last.kind is Kind.CHANGED
    keys = {str(dict(each.key or {})["id"]) for cause in last.causes.found for each in cause.changes}
    # The table's log has no old values, so of an update only the new group is known for certain.
    assert "13" in keys
    assert any("not in the warehouse" in note for note in found.notes)


def test_the_plan_of_a_rebuild_says_what_becomes_of_history(
    shop: Shop, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_warehouse(place)

    def told() -> list[str]:
        [planned] = plan(place, "card", ["warehouse"])
        return [step.text for step in planned.steps if "history" in step.text]

    [text] = told()
    assert "take over" in text
    assert "stays whole since 20" in text
    monkeypatch.setattr(PastWarehouse, "whole_from", lambda _: None)
    [text] = told()
    assert "begins anew" in text


def test_versions_that_are_gone_are_told_as_a_gap(shop: Shop, place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    for price in (1, 2, 3):
        committed(shop, f"update products set price = {price} where id = 21", "by_maker")
    key = ["maker=2", "at=2026-01-31T12:00:00Z"]
    whole = story(place, "by_maker", key, with_causes=False).versions
    assert all(version.follows for version in whole)
    real = past_topic.told
    monkeypatch.setattr(past_topic, "told", lambda raw: None if raw.offset == whole[-2].version else real(raw))
    found = story(place, "by_maker", key, with_causes=False)
    assert [version.follows for version in found.versions][-2:] == [True, False]
    assert any("no longer kept" in note for note in found.notes)

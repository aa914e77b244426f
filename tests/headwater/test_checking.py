"""What is checked before readers go over: rows that may be absent, or that a dead letter holds, do not fail it; others
do. And nobody writes rows again that their place refuses."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from cdc.capture import Capture
from headwater.dead_letters import Chosen, drop, held_now, open_letters
from headwater.deployment import Deployment
from headwater.service import verifying
from headwater.service.verifying import Verifying
from headwater.settings.runtime import VerifySettings
from headwater.sinks import sink_kinds
from headwater.views.checking import check
from headwater.views.sampling import Sampler
from headwater.views.verify_history import VerifyHistory
from tests.headwater.operated import Shop
from tests.waiting import eventually
from views.rebuild import Checked
from views.sinks.cache_keys import CacheKeys

pytestmark = pytest.mark.stack

DDL = """
    create table albums (id integer primary key, label text, photos jsonb not null default '[]');
    insert into albums select n, 'album ' || n from generate_series(1, 20) n;
"""
VIEWS = {
    "album": "create materialized view album with (sinks = 'search, cache') as select id, label, photos from albums",
    "brief": """create materialized view brief with (sinks = 'cache', cache_ttl_s = '3600') as
        select id, label from albums""",
}


@pytest.fixture
def shop(capture: Capture, deployment: Deployment, tmp_path: Path) -> Iterator[Shop]:
    shop = Shop(capture, deployment, tmp_path, DDL, VIEWS, ["albums"])
    with shop.keeping():
        shop.whole()
        yield shop
    shop.leave()


def checked(shop: Shop, view: str, sink: str) -> Checked:
    at, kind = shop.deployment, sink_kinds(shop.deployment)[sink]
    return check(at.postgres, at.kafka, at.source, shop.registry, kind, view, 1)


def lose(shop: Shop, view: str, key: str) -> None:
    with shop.deployment.redis.client() as client:
        assert client.delete(CacheKeys(shop.capture.source.name, view).row(1, key)) == 1


def refuse(shop: Shop, *ids: int) -> None:
    """Elasticsearch will not have these albums."""
    with shop.deployment.elasticsearch.client() as client:
        index = f"{shop.capture.source.name}-album-g1"
        client.indices.put_settings(index=index, settings={"index.mapping.nested_objects.limit": 5})
    photos = "select jsonb_agg(jsonb_build_object('n', n)) from generate_series(1, 6) n"
    shop.conn.execute(f"update albums set photos = ({photos}) where id = any(%s)", [list(ids)])
    shop.whole()
    eventually(lambda: len(held_now(shop.place, "album", "search")) == len(ids) or pytest.fail("not refused"))


def test_rows_that_have_expired(shop: Shop) -> None:
    lose(shop, "brief", '{"id":3}')
    assert checked(shop, "brief", "cache").is_equal
    lose(shop, "album", '{"id":3}')
    found = checked(shop, "album", "cache")
    assert (found.is_equal, found.different) == (False, 1)
    assert found.detail == "1 rows of the cache differ; which: headwater verify album --history --json"
    [run] = VerifyHistory(shop.registry.folder).runs("album", 1)
    assert run.places[1].keys == ('missing {"id":3}',)


def test_rows_that_dead_letters_hold(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(shop, 7, 8)
    found = checked(shop, "album", "search")
    assert (found.is_equal, found.different) == (True, 0), found
    assert found.detail == "2 rows of the search are held by dead letters"
    assert held_now(shop.place, "album", "search") == {'{"id":7}', '{"id":8}'}
    assert held_now(shop.place, "album", "cache") == set()

    # Only what no letter holds is written again by itself.
    lose(shop, "album", '{"id":7}')
    lose(shop, "album", '{"id":9}')
    asked: list[list[bytes]] = []

    def repaired(place: object, view: str, keys: list[bytes], by: str) -> object:
        asked.append(keys)
        return SimpleNamespace(is_equal=True)

    monkeypatch.setattr(verifying, "repair_keys", repaired)
    turn = Verifying(shop.place, VerifySettings(interval_s=1, repair=True), threading.Event())
    assert not Sampler(shop.place, 100).sample("album").is_equal
    turn._repair("album")
    assert asked == [[b'{"id":7}', b'{"id":9}']], "7 because of the cache"

    # What is wrong beside the letters is found all the same.
    seven = [each for each in open_letters(shop.place, Chosen("album")) if each.key == '{"id":7}']
    drop(shop.place, seven)
    found = checked(shop, "album", "search")
    assert (found.is_equal, found.different) == (False, 1)


def test_nothing_is_repaired_that_is_only_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(shop, 7)
    monkeypatch.setattr(verifying, "repair_keys", lambda *_: pytest.fail("asked to repair what was refused"))
    assert not Sampler(shop.place, 100).sample("album").is_equal
    Verifying(shop.place, VerifySettings(interval_s=1, repair=True), threading.Event())._repair("album")

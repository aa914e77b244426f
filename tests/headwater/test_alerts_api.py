"""Saved searches over HTTP, in a real Postgres; the views are made up. Who may, what is told, one click that ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from alerts import quiet
from alerts.explaining import LastChange
from alerts.notifier import notify
from alerts.previewing import Version
from alerts.suppressions import suppress
from cdc.errors import ConfigurationError
from headwater.api.access import ApiKey, KeyStore
from headwater.api.owners import HEADER, owner_for
from headwater.api.problems import Forbidden, NotFound
from headwater.deployment import Deployment
from headwater.http.server import PageServer
from headwater.migrate import migrate
from headwater.saved_searches import SavedSearches
from headwater.settings import Settings
from headwater.view_history import History
from search.index import IndexDefinition, define
from search.query import Query
from tests.alerts.store.wishes import FIELDS, match, record, row
from tests.conftest import fresh_database
from tests.headwater.test_http import free_port
from views.sinks.sink import ViewShape

COMMITTED = datetime(2026, 6, 1, 12, tzinfo=UTC)
CARD = {"view": "listing", "query": "city:paris price:..500"}


class MadeUp:
    """A view `listing`: twenty rows match anything, and row 1 is there."""

    is_searched = has_history = True
    matching = 20
    fields = FIELDS
    changed: LastChange | None = None
    past: Sequence[Version] = (Version(1, row(1, 600)), Version(1, row(1, 400)), Version(2, row(2, 100)))

    def definition(self, view: str) -> IndexDefinition:
        if view != "listing":
            raise NotFound(f"no view {view}", hint="did you mean listing?")
        return define(ViewShape("market", "listing", self.fields, ("id",)))

    def count(self, view: str, query: Query) -> int | None:
        return self.matching if self.is_searched else None

    def row(self, view: str, key: Sequence[str] | str) -> tuple[bytes, bytes | None]:
        word = key if isinstance(key, str) else key[0]
        return f'{{"id":{word}}}'.encode(), row(1, 600) if word == "1" else None

    def last_change(self, view: str, key: bytes) -> LastChange | None:
        return self.changed

    def history(self, view: str, since: datetime, versions_max: int) -> History | None:
        return History(since, iter(self.past)) if self.has_history else None


class Desk:
    version = 0

    def __init__(
        self,
        client: httpx.Client,
        conn: psycopg.Connection,
        views: MadeUp,
        keys: KeyStore,
        searches: SavedSearches,
    ) -> None:
        self.client, self.conn, self.views, self.keys, self.searches = client, conn, views, keys, searches

    def ask(self, method: str, path: str, status: int = 200, owner: str = "ada", **given: Any) -> Any:
        headers = {HEADER: owner} | given.pop("headers", {})
        answer = self.client.request(method, f"/v1/alerts{path}", headers=headers, **given)
        assert answer.status_code == status, answer.text
        return answer.json()

    def save(self, status: int = 201, owner: str = "ada", **given: Any) -> Any:
        return self.ask("POST", "", status, owner, json={**CARD, **given})

    def hit(self, *ids: int, key: int = 1) -> None:
        self.version += 1
        record(self.conn, "listing", self.version, [match(id_, key, version=self.version - 1) for id_ in ids])


@pytest.fixture
def desk(
    deployment: Deployment, unique: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Desk]:
    keys = getattr(request, "param", "auto")
    for address in fresh_database(deployment.postgres, unique):
        migrate(address)
        settings = Settings.model_validate(
            {
                "data_folder": str(tmp_path),
                "http": {"port": free_port()},
                "api": {"keys": keys},
                "alerts": {"searches_per_owner_max": 3, "hits_max": 50},
            }
        )
        views = MadeUp()
        made = SavedSearches(address, views, settings.alerts)
        monkeypatch.setattr(SavedSearches, "of", lambda *_given, made=made: made)
        page = PageServer(replace(deployment, settings=settings, postgres=address))
        with (
            page.running(),
            psycopg.connect(address.conninfo(), autocommit=True) as conn,
            httpx.Client(base_url=page.url, timeout=60) as client,
        ):
            yield Desk(client, conn, views, KeyStore(address), made)


pytestmark = pytest.mark.stack


def test_an_owner_is_the_same_in_a_header_and_in_a_body(desk: Desk) -> None:
    for written in ("josé", "Ада ✓"):
        told = desk.ask("GET", "/inbox", headers={HEADER: written.encode()})
        vouched = desk.client.post("/v1/site/sessions", json={"owner": written}).json()
        assert told["owner"] == vouched["owner"] == written
    refused = desk.ask("GET", "/inbox", 400, headers={HEADER: "josé".encode("latin-1")})
    assert "UTF-8" in refused["hint"]


def test_a_search_from_its_saving_to_its_end(desk: Desk) -> None:
    made = desk.save(label="Paris", channel="email", target="ada@example.com", threshold=None)
    assert (made["state"], made["query_text"], made["events"]) == ("active", "city:paris price:..500", ["entered"])
    assert "secret" not in made
    assert desk.ask("GET", f"/{made['id']}") == made
    assert desk.ask("GET", "")["alerts"] == [made]
    paused = desk.ask("PATCH", f"/{made['id']}", json={"paused": True, "query": "city:lyon"})
    assert (paused["state"], paused["query_text"], paused["label"]) == ("paused", "city:lyon", "Paris")
    assert desk.ask("PATCH", f"/{made['id']}", json={"paused": False})["state"] == "active"
    assert desk.ask("DELETE", f"/{made['id']}") == {"id": made["id"], "state": "removed"}
    desk.ask("GET", f"/{made['id']}", 404)
    desk.ask("DELETE", f"/{made['id']}", 404)


def test_nobody_sees_what_is_somebody_elses(desk: Desk) -> None:
    id_ = desk.save()["id"]
    desk.hit(id_)
    assert desk.ask("GET", "", owner="bob") == {"owner": "bob", "alerts": []}
    assert desk.ask("GET", "/inbox", owner="bob")["news"] == []
    for method, path in (("GET", f"/{id_}"), ("PATCH", f"/{id_}"), ("DELETE", f"/{id_}"), ("GET", f"/{id_}/explain/1")):
        given = {"json": {"label": "mine"}} if method == "PATCH" else {}
        assert desk.ask(method, path, 404, owner="bob", **given)["error"] == f"no saved search {id_}"
    assert desk.ask("GET", f"/{id_}")["label"] == ""


@pytest.mark.parametrize(
    ("given", "status", "word"),
    [
        ({"view": "listng"}, 404, "did you mean listing"),
        ({"view": 5}, 400, "about a view"),
        ({"query": "prise:1"}, 400, "price"),
        ({"evnts": []}, 400, "events"),
        ({"events": ["dropped"]}, 400, "watched"),
        ({"channel": "email", "target": "nobody"}, 400, "ada@example.com"),
    ],
)
def test_what_is_wrong_is_told(desk: Desk, given: dict[str, Any], status: int, word: str) -> None:
    answer = desk.save(status, **given)
    assert word in str(answer)
    assert set(answer) == {"error", "detail", "hint"}


def test_limits(desk: Desk) -> None:
    desk.views.matching = 51
    refused = desk.save(400)
    assert "about 51 rows match now, at most 50" in refused["detail"]
    assert (refused["hits"], refused["hits_max"]) == (51, 50)
    desk.views.matching = 50
    ids = [desk.save()["id"] for _ in range(3)]
    assert "as many as one may have" in desk.save(409)["error"]
    desk.save(owner="bob")
    desk.views.matching = 51
    desk.ask("PATCH", f"/{ids[0]}", 400, json={"query": "*"})
    desk.ask("PATCH", f"/{ids[0]}", json={"label": "still"})
    assert desk.ask("PATCH", f"/{ids[0]}", 400, json={"view": "house"})["error"] == "a saved search stays with its view"


def test_an_end_that_is_past_is_refused(desk: Desk) -> None:
    past, future = ((datetime.now(UTC) + timedelta(hours=hours)).isoformat() for hours in (-1, 1))
    assert desk.save(400, expires_at=past)["error"] == "a saved search expires in the future"
    id_ = desk.save(expires_at=future)["id"]
    desk.ask("PATCH", f"/{id_}", 400, json={"expires_at": past})
    desk.conn.execute("update headwater.subscriptions set expires_at = now() - interval '1 hour'")
    assert desk.ask("PATCH", f"/{id_}", json={"label": "old"})["state"] == "expired"
    assert desk.ask("PATCH", f"/{id_}", json={"expires_at": None})["state"] == "active"


def test_a_webhook_comes_with_its_secret(desk: Desk) -> None:
    made = desk.save(channel="webhook", target="https://example.com/hook")
    assert made["secret"].startswith("whsec_")
    assert "secret" not in desk.ask("GET", f"/{made['id']}")
    second, third = (desk.ask("POST", f"/{made['id']}/secret")["secret"] for _ in range(2))
    [[kept]] = desk.conn.execute("select secrets from headwater.endpoints").fetchall()
    assert kept == [third, second], "the one before goes on signing, older ones end"
    desk.ask("POST", f"/{made['id']}/secret", 404, owner="bob")
    assert "secret" not in desk.ask("PATCH", f"/{made['id']}", json={"label": "x"})
    moved = desk.ask("PATCH", f"/{made['id']}", json={"target": "https://example.com/other"})
    [[kept]] = desk.conn.execute("select secrets[1] from headwater.endpoints where target like '%other'").fetchall()
    assert moved["secret"] == kept, "or nobody would ever know it"
    desk.ask("POST", f"/{desk.save()['id']}/secret", 400)


def test_a_search_that_its_view_cannot_answer_any_more_says_so(desk: Desk) -> None:
    by_query, by_column = desk.save(), desk.save(query="city:paris", events=["changed"], columns=["price"])
    paused, fine = desk.save(paused=True), desk.save(query="city:paris", owner="bob")
    desk.views.fields = tuple(field for field in FIELDS if field.name != "price")
    found = {each["id"]: (each["state"], each["trouble"]) for each in desk.ask("GET", "")["alerts"]}
    assert [state for state, _ in found.values()] == ["broken", "broken", "paused"]
    assert all("price" in trouble and "listing" in trouble for _, trouble in found.values())
    assert desk.ask("GET", f"/{by_query['id']}")["trouble"] == found[by_query["id"]][1]
    assert (by_column["trouble"], paused["trouble"]) == (None, None)
    told = desk.ask("GET", f"/{fine['id']}", owner="bob")
    assert (told["state"], told["trouble"]) == ("active", None)


def test_the_page_of_somebodys_alerts_says_so_too(desk: Desk) -> None:
    id_ = desk.save()["id"]
    link = desk.client.post("/v1/site/sessions", json={"owner": "ada", "views": ["listing"], "to": "alerts"})
    desk.client.get(link.json()["url"])
    desk.views.fields = tuple(field for field in FIELDS if field.name != "price")
    for path in ("/alerts", f"/alerts/{id_}"):
        text = desk.client.get(path).text
        assert "Broken" in text
        assert "no field price in listing" in text
        assert ">Pause" in text


def test_a_search_whose_view_is_gone_says_so(desk: Desk) -> None:
    id_ = desk.save()["id"]
    desk.conn.execute("update headwater.subscriptions set view = 'house'")
    told = desk.ask("GET", f"/{id_}")
    assert (told["state"], told["trouble"]) == ("broken", "no view house")
    told = desk.ask("PATCH", f"/{id_}", json={"paused": True, "label": "Old"})
    assert (told["state"], told["label"]) == ("paused", "Old"), "it can be left alone all the same"
    desk.ask("PATCH", f"/{id_}", 404, json={"query": "city:lyon"})


def test_a_search_that_nothing_can_be_sent_of_says_so(desk: Desk) -> None:
    mail = desk.save(channel="email", target="ada@example.com")["id"]
    hook = desk.save(channel="webhook", target="https://example.com/hook")["id"]
    desk.save(channel="webhook", target="https://example.com/hook", owner="bob")
    suppress(desk.conn, "email", "ada@example.com", "bounced")
    desk.conn.execute(
        "update headwater.endpoints set disabled_reason = 'answered 410' where channel = 'webhook' and owner = 'ada'"
    )
    found = {each["id"]: (each["state"], each["trouble"]) for each in desk.ask("GET", "")["alerts"]}
    assert found == {
        mail: ("unreachable", "the address is closed: it bounced"),
        hook: ("unreachable", "the endpoint is switched off: answered 410"),
    }
    assert desk.ask("GET", "", owner="bob")["alerts"][0]["state"] == "active"
    assert desk.ask("PATCH", f"/{hook}", json={"paused": False})["state"] == "unreachable"
    assert desk.ask("PATCH", f"/{hook}", json={"target": "https://example.com/hook"})["state"] == "active"


def test_the_inbox_goes_on_from_what_is_known(desk: Desk) -> None:
    id_ = desk.save(label="Paris")["id"]
    for key in (1, 2, 3):
        desk.hit(id_, key=key)
    first = desk.ask("GET", "/inbox?size=2")
    assert [(each["sequence"], each["key"], each["label"]) for each in first["news"]] == [
        (1, {"id": 1}, "Paris"),
        (2, {"id": 2}, "Paris"),
    ]
    assert first["news"][0]["after"]["city"] == "paris"
    rest = desk.ask("GET", f"/inbox?after={first['next']}")
    assert [each["sequence"] for each in rest["news"]] == [3]
    assert desk.ask("GET", f"/inbox?after={rest['next']}") == {"owner": "ada", "news": [], "next": 3}


def test_why_a_row_matches_or_does_not(desk: Desk) -> None:
    id_ = desk.save()["id"]
    desk.hit(id_)
    found = desk.ask("GET", f"/{id_}/explain/1")
    assert (found["matches"], found["key"], found["row"]["price"]) == (False, {"id": 1}, 600)
    assert {each["clause"]: each["matches"] for each in found["explanation"]["inside"]} == {
        "city:paris": True,
        "price:..500": False,
    }
    assert [(each["event"], each["reason"]) for each in found["news"]] == [("entered", "is new")]
    assert found["news"][0]["due_at"] is not None
    missing = desk.ask("GET", f"/{id_}/explain/2")
    assert (missing["matches"], missing["explanation"], missing["news"]) == (False, None, [])


def test_why_nothing_was_told_of_a_row(desk: Desk) -> None:
    id_ = desk.save(query="city:paris", events=["dropped"], watched_column="price", threshold=5)["id"]
    assert "not known" in desk.ask("GET", f"/{id_}/explain/1")["notes"][0]

    def noted(at: datetime) -> list[str]:
        desk.views.changed = LastChange("7:40", at)
        return list(desk.ask("GET", f"/{id_}/explain/1")["notes"])

    assert noted(datetime.now(UTC) - timedelta(hours=1)) == [
        "it is as it was before the search was saved: nothing has changed since"
    ]
    quiet.begin(desk.conn, "listing", "nightly import")
    assert noted(datetime.now(UTC)) == [
        "its last change lies in a quiet stretch, of which nobody is told: nightly import"
    ]
    quiet.end(desk.conn, "listing")
    assert noted(datetime.now(UTC) + timedelta(hours=1)) == []
    moved = match(id_, 1, "dropped", 0, row(1, 700), row(1, 602))
    record(desk.conn, "listing", 1, [moved])
    value = desk.ask("GET", f"/{id_}/explain/1")["told_value"]
    assert (value["column"], value["told"], value["now"], value["dropped_from"]) == ("price", 602, 600, 597)
    assert value["rose_from"] is None


def test_a_broken_search_is_explained_as_such(desk: Desk) -> None:
    id_ = desk.save()["id"]
    desk.views.fields = tuple(field for field in FIELDS if field.name != "price")
    found = desk.ask("GET", f"/{id_}/explain/1")
    assert (found["state"], found["explanation"], found["matches"]) == ("broken", None, False)
    assert "no field price" in found["trouble"]


def test_a_preview_saves_nothing(desk: Desk) -> None:
    asked = {**CARD, "events": ["entered", "left"]}
    found = desk.ask("POST", "/preview?days=10", json=asked)
    assert (found["matching"], found["is_too_broad"], found["events"]) == (20, False, {"entered": 2, "left": 0})
    assert (found["days"], found["per_day"]) == (10, 0.2)
    assert desk.ask("GET", "")["alerts"] == []
    desk.views.is_searched = desk.views.has_history = False
    less = desk.ask("POST", "/preview", json=asked)
    assert less["matching"] is less["events"] is None
    assert "sinks = 'search'" in less["matching_unknown"]
    assert "sinks = 'warehouse'" in less["events_unknown"]


def test_a_preview_counts_each_event_alone_for_who_has_to_choose(desk: Desk) -> None:
    """A price that hovers: with `left` wanted each entry counts, without it one does."""
    desk.views.past = [Version(1, row(1, price), committed_at=COMMITTED) for price in (600, 400, 600, 400, 600, 400)]
    searches, asked = desk.searches, {**CARD, "events": ["entered", "left"]}
    assert searches.preview(asked, 7)["events"] == {"entered": 3, "left": 2}
    assert searches.preview(asked, 7, each_alone=True)["events"] == {"entered": 1, "left": 2}


def test_a_preview_leaves_out_what_is_quiet(desk: Desk) -> None:
    at = datetime.now(UTC) - timedelta(hours=1)
    desk.conn.execute("insert into headwater.quiet (view, began_at, ended_at) values (null, %s, %s)", [at, at])
    desk.views.past = [
        Version(key, row(key), committed_at=at + timedelta(minutes=minutes)) for key, minutes in ((1, 0), (2, 5))
    ]
    assert desk.ask("POST", "/preview", json=CARD)["events"] == {"entered": 1}


def test_why_a_row_matches_can_be_asked_before_saving(desk: Desk) -> None:
    found = desk.ask("POST", "/preview/1", json=CARD)
    assert (found["key"], found["matches"], found["row"]["price"]) == ({"id": 1}, False, 600)
    assert [clause["matches"] for clause in found["explanation"]["inside"]] == [True, False]
    assert desk.ask("POST", "/preview/2", json=CARD)["row"] is None
    assert desk.ask("GET", "")["alerts"] == []


# Who may


@pytest.mark.parametrize("desk", ["required"], indirect=True)
def test_keys_act_for_their_owner(desk: Desk) -> None:
    def bearer(scope: str, owner: str = "") -> tuple[str, dict[str, str]]:
        key, text = desk.keys.create([scope], owner=owner)
        return key.id, {"Authorization": f"Bearer {text}"}

    desk.ask("GET", "", 401)
    assert "takes alerts" in desk.ask("GET", "", 403, headers=bearer("read")[1])["detail"]
    id_, own = bearer("alerts")
    assert desk.ask("GET", "", owner="", headers=own)["owner"] == id_
    desk.ask("GET", "", 403, owner="ada", headers=own)
    _, ada = bearer("alerts", "ada")
    made = desk.ask("POST", "", 201, owner="", headers=ada, json=CARD)
    assert made["owner"] == "ada"
    desk.ask("GET", f"/{made['id']}", 404, owner="", headers=own)
    _, shop = bearer("alerts", "shop/*")
    assert desk.ask("GET", "", owner="shop/7", headers=shop)["owner"] == "shop/7"
    desk.ask("GET", "", 403, owner="ada", headers=shop)
    desk.ask("GET", "", 400, owner="", headers=shop)
    assert desk.ask("GET", f"/{made['id']}", owner="ada", headers=bearer("admin")[1])["id"] == made["id"]


def test_owners() -> None:
    def key(owner: str, *scopes: str) -> ApiKey:
        return ApiKey("k1", scopes or ("alerts",), "", datetime.now(UTC), owner=owner)

    assert owner_for(None, "") == "local"
    assert owner_for(key(""), "") == owner_for(key(""), "k1") == "k1"
    assert owner_for(key("", "admin"), "") == "k1"
    assert owner_for(key("*"), "anybody") == "anybody"
    for own, asked in (("", "k2"), ("ada", "bob"), ("shop/*", "shop"), ("ada", "ad")):
        with pytest.raises(Forbidden):
            owner_for(key(own), asked)
    for asked in ("a*", "a\nb", "x" * 201):
        with pytest.raises(ConfigurationError):
            owner_for(key("*"), asked)


# One click


def told(desk: Desk) -> tuple[int, str]:
    """A search whose owner was told something, and the link of that message."""
    id_ = desk.save(channel="email", target="ada@example.com", label="<b>Paris</b>")["id"]
    desk.hit(id_)
    notify(desk.conn)
    [[token]] = desk.conn.execute("select unsubscribe_token from headwater.notifications").fetchall()
    return id_, f"/v1/alerts/unsubscribe/{token}"


@pytest.mark.parametrize("desk", ["required"], indirect=True)
def test_a_link_ends_nothing_and_its_button_does(desk: Desk) -> None:
    _, text = desk.keys.create(["admin"])
    desk.client.headers["Authorization"] = f"Bearer {text}"
    id_, link = told(desk)
    del desk.client.headers["Authorization"]
    for _ in range(2):
        page = desk.client.get(link)
        assert page.status_code == 200
        assert "&lt;b&gt;Paris&lt;/b&gt;" in page.text
        assert "<b>" not in page.text
        assert page.headers["Referrer-Policy"] == "no-referrer"
    assert desk.client.head(link).status_code in (200, 405)
    state = "select unsubscribed_at is not null, paused from headwater.subscriptions where id = %s"
    assert desk.conn.execute(state, [id_]).fetchall() == [(False, False)]
    for _ in range(2):
        page = desk.client.post(link, data={"List-Unsubscribe": "One-Click"})
        assert (page.status_code, "You are unsubscribed" in page.text) == (200, True)
    assert desk.conn.execute(state, [id_]).fetchall() == [(True, True)]
    assert "already" in desk.client.get(link).text
    assert desk.conn.execute("select count(*) from headwater.suppressions").fetchone() == (0,)


def test_everything_can_be_ended(desk: Desk) -> None:
    _, link = told(desk)
    assert "everything" in desk.client.get(link).text
    desk.client.post(link, data={"everything": "on"})
    assert desk.conn.execute("select channel, target, reason from headwater.suppressions").fetchall() == [
        ("email", "ada@example.com", "unsubscribed")
    ]
    assert "nothing is sent to" in desk.save(400, channel="email", target="ada@example.com")["error"]

    # Who runs the service lifts it.
    [found] = desk.client.get("/v1/suppressions").json()["suppressions"]
    assert (found["channel"], found["target"], found["reason"]) == ("email", "ada@example.com", "unsubscribed")
    assert desk.client.delete("/v1/suppressions/email/ada@example.com").status_code == 204
    assert desk.client.delete("/v1/suppressions/email/ada@example.com").status_code == 404
    assert desk.client.get("/v1/suppressions").json() == {"suppressions": []}
    closing = {"target": "ada@example.com", "reason": "complained", "detail": "by the relay"}
    assert desk.client.post("/v1/suppressions", json=closing).status_code == 204
    [found] = desk.client.get("/v1/suppressions").json()["suppressions"]
    assert (found["target"], found["reason"], found["detail"]) == ("ada@example.com", "complained", "by the relay")
    assert desk.client.post("/v1/suppressions", json={**closing, "reason": "whim"}).status_code == 400
    assert desk.client.delete("/v1/suppressions/email/ada@example.com").status_code == 204
    desk.save(channel="email", target="ada@example.com")


@pytest.mark.parametrize("desk", ["required"], indirect=True)
def test_suppressions_are_for_administrators(desk: Desk) -> None:
    _, alerts = desk.keys.create(["alerts"])
    _, admin = desk.keys.create(["admin"])
    for text, status in ((alerts, 403), (admin, 200)):
        headers = {"Authorization": f"Bearer {text}"}
        assert desk.client.get("/v1/suppressions", headers=headers).status_code == status


def test_a_form_without_end_is_not_read_to_its_end(desk: Desk) -> None:
    _, link = told(desk)
    assert desk.client.post(link, content=b"x" * 1_000_000).status_code == 200


def test_a_link_that_is_not_ours(desk: Desk) -> None:
    for method in ("GET", "POST"):
        answer = desk.client.request(method, "/v1/alerts/unsubscribe/nonsense")
        assert (answer.status_code, "not one of ours" in answer.text) == (404, True)


def test_a_database_without_the_tables(desk: Desk) -> None:
    desk.conn.execute("drop table headwater.told_values, headwater.subscriptions")
    answer = desk.ask("GET", "", 500)
    assert "headwater migrate up" in answer["hint"]

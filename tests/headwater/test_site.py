"""The pages for people, without a server: what an address means, who a text says somebody is, how values read."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import cast

import httpx
import pytest
from fastapi import APIRouter, FastAPI, Request
from fastapi.testclient import TestClient

from alerts.inbox import News
from alerts.saved_search import Wish
from alerts.wish_reading import read_wish
from cdc.errors import ConfigurationError
from headwater.api import problems
from headwater.pages import site_inbox
from headwater.pages.forms import Form
from headwater.pages.site import Site
from headwater.pages.site_alerts import back, changes
from headwater.pages.site_cards import Dresser
from headwater.pages.site_chips import chips
from headwater.pages.site_controls import choices
from headwater.pages.site_layout import Profile, Values, layout
from headwater.pages.site_narrowing import Narrowing, of_params, of_query, query_of
from headwater.pages.site_options import Options, column_choices, last_day, of_wish, unit_labels
from headwater.pages.site_saving import wish
from headwater.pages.site_sessions import COOKIE, LINK, Session, Signer
from headwater.pages.site_signing import api, place
from headwater.pages.site_visitors import Visitor
from headwater.pages.site_words import ago_text, column_label, number_text, value_label, view_label
from headwater.service.service import pages_line
from headwater.service.steps import EXAMPLES
from headwater.settings import Settings
from search.answers import Bucket
from search.errors import QueryRefused
from search.index import Column, Geo, IndexDefinition
from search.kinds import Kind
from search.query import And, Query
from search.query_parser import parse
from search.query_text import to_text

NOW = datetime(2026, 11, 17, 12, tzinfo=UTC)
HOMES = IndexDefinition(
    "s",
    "homes",
    (
        Column("id", Kind.INTEGER),
        Column("title", Kind.TEXT),
        Column("description", Kind.TEXT),
        Column("kind", Kind.EXACT),
        Column("city", Kind.TEXT),
        Column("price", Kind.DECIMAL),
        Column("area_m2", Kind.DECIMAL),
        Column("bedrooms", Kind.INTEGER),
        Column("has_garden", Kind.BOOLEAN),
        Column("features", Kind.TEXT, is_array=True),
        Column("listed_at", Kind.TIMESTAMPTZ),
        Column("built_on", Kind.DATE),
        Column("lat", Kind.FLOAT),
        Column("lon", Kind.FLOAT),
    ),
    ("id",),
    ("title", "description"),
    Geo("lat", "lon"),
)
CITIES = Profile({"city": Values((("Paris", 60), ("Lyon", 30)), 100)})


def clauses(query: Query) -> set[Query]:
    """All of them hold, in any order."""
    return set(query.clauses) if isinstance(query, And) else {query}


# What an address means


@pytest.mark.parametrize(
    ("params", "text"),
    [
        ([], "*"),
        ([("q", "garden"), ("is.kind", "flat")], "garden kind:flat"),
        ([("is.city", "Paris"), ("is.city", "Lyon"), ("is.city", "Lyon")], "city=(Paris,Lyon)"),
        ([("from.price", " 100 "), ("to.price", "500000")], "price:100..500000"),
        ([("to.built_on", "2020-12-31"), ("from.price", "")], "built_on:..2020-12-31"),
        ([("is.city", ""), ("is.city", " Lyon"), ("is.kind", "")], 'city=(""," Lyon") kind:""'),
        ([("is.bedrooms", " 2 "), ("is.has_garden", "")], "bedrooms:2"),
        ([("q", 'city=" Lyon"'), ("is.kind", " ")], 'kind:" " city=" Lyon"'),
        ([("box", "49,2,48,3.5")], "box:49,2,48,3.5"),
        ([("q", "kind:flat price:..9 attic"), ("sort", "-price"), ("part", "1")], "attic kind:flat price:..9"),
        ([("q", "kind:flat"), ("is.kind", "house")], "kind:flat kind:house"),
    ],
)
def test_an_address_is_a_query_and_back(params: list[tuple[str, str]], text: str) -> None:
    narrowing = of_params(params, HOMES)
    query = query_of(narrowing, HOMES)
    assert to_text(query, HOMES) == text
    again = of_query(query, HOMES)
    assert clauses(query_of(again, HOMES)) == clauses(query)
    assert of_params(again.params(), HOMES) == again


@pytest.mark.parametrize(
    "text",
    [
        "a OR b",
        "-kind:flat",
        "price:>5..<9",
        "near:48.85,2.35,15km",
        "listed_at:now-7d..",
        'kind:flat kind:house price:..3 price:1.. "south facing"',
        "price:0.1..0.30",
        "box:48.123456789,2,48,3",
        "has:city",
    ],
)
def test_a_saved_search_comes_back_as_it_was(text: str) -> None:
    query = parse(text, HOMES)
    assert clauses(query_of(of_query(query, HOMES), HOMES)) == clauses(query)


@pytest.mark.parametrize(
    "params", [[("is.colour", "red")], [("box", "1,2,3")], [("from.price", "cheap")], [("q", "(")]]
)
def test_what_is_wrong_is_refused(params: list[tuple[str, str]]) -> None:
    with pytest.raises(QueryRefused):
        query_of(of_params(params, HOMES), HOMES)


def test_one_step_further() -> None:
    chosen = Narrowing(words="a b", chosen={"kind": ("flat",)}, ranges={"price": ("", "9")})
    assert chosen.toggled("kind", "house").chosen == {"kind": ("flat", "house")}
    assert chosen.toggled("kind", "flat").chosen == {}
    assert chosen.address() == "?q=a+b&is.kind=flat&to.price=9"
    labels = [chip.label for chip in chips(chosen, HOMES, "€")]
    assert labels == ["“a b”", "Flat", "Price up to €9"]


def test_what_is_empty_or_has_spaces_around_it_can_be_chosen() -> None:
    counted = {"city": (Bucket("Lyon", 3), Bucket("", 2), Bucket("Lyon ", 1))}
    plan = layout(HOMES, CITIES)
    [city] = choices(Narrowing(), plan, counted, HOMES)
    assert [(value.label, value.address) for value in city.values] == [
        ("Lyon", "?is.city=Lyon"), ("(empty)", "?is.city="), ("“Lyon ”", "?is.city=Lyon+"),
    ]  # fmt: skip
    chosen = of_params([("is.city", ""), ("is.city", "Lyon ")], HOMES)
    [city] = choices(chosen, plan, counted, HOMES)
    assert [value.is_chosen for value in city.values] == [False, True, True]
    assert [chip.label for chip in chips(chosen, HOMES, "")] == ["City (empty)", "“Lyon ”"]
    assert of_query(query_of(chosen, HOMES), HOMES) == chosen, "a saved search comes back as it was chosen"


# Which column plays which part, and how a row reads


def test_a_view_is_laid_out_by_its_columns() -> None:
    made = layout(HOMES, CITIES)
    assert (made.title, made.headline, made.summary, made.when) == ("title", "price", "description", "listed_at")
    assert made.facets == ("kind", "city", "has_garden")
    assert made.ranges == ("price", "area_m2", "bedrooms", "listed_at", "built_on")
    assert layout(HOMES, Profile()).facets == ("kind", "has_garden")


def test_a_view_of_numbers_alone_is_named_by_its_key() -> None:
    counts = IndexDefinition("s", "counts", (Column("day", Kind.DATE), Column("hits", Kind.INTEGER)), ("day",))
    card = Dresser(counts, layout(counts, Profile()), "", NOW).card({"day": "2026-11-16", "hits": 1200})
    assert (card.name, card.facts) == ("2026-11-16", ("1,200 hits",))


def test_a_row_as_people_see_it() -> None:
    row = {
        "id": 7, "title": "<b>Flat</b>", "description": "word " * 100, "kind": "for_sale", "city": "Paris",
        "price": 485000, "area_m2": 85.5, "bedrooms": 1, "has_garden": True, "features": ["lift"],
        "listed_at": "2026-11-14T12:00:00+00:00", "lat": 48.85, "lon": 2.35,
    }  # fmt: skip
    card = Dresser(HOMES, layout(HOMES, CITIES), "€", NOW).card(row)
    assert (card.name, card.headline, card.subtitle, card.badges) == ("<b>Flat</b>", "€485,000", "Paris", ("For sale",))
    assert card.facts == ("85.5 m²", "1 bedroom", "Garden")
    assert card.when == "Listed 3 days ago"
    assert card.point == (48.85, 2.35)
    assert len("".join(text for text, _ in card.summary)) <= 190


def test_what_changed_of_a_row() -> None:
    dresser = Dresser(HOMES, layout(HOMES, CITIES), "€", NOW)
    before, after = {"id": 1, "price": 500, "has_garden": False}, {"id": 1, "price": 400, "has_garden": True}
    assert dresser.changes(before, after) == (("Price", "€500", "€400"), ("Garden", "No", "Yes"))
    assert dresser.changes(None, after) == ()


def test_words() -> None:
    assert [column_label(name) for name in ("has_garden", "area_m2", "listed_at", "price_per_m2", "sku")] == [
        "Garden", "Area", "Listed", "Price per m²", "Sku",
    ]  # fmt: skip
    assert [view_label(name) for name in ("listing_search", "back_in_stock", "city_stats")] == [
        "Listings", "Back in stock", "City stats",
    ]  # fmt: skip
    assert number_text("price", -1234.50, "€") == "−€1,234.5"
    assert number_text("area_m2", 85) == "85 m²"
    assert value_label(Kind.EXACT, "under_offer") == "Under offer"
    assert value_label(Kind.TEXT, "under_offer") == "under_offer"
    assert ago_text(NOW - timedelta(minutes=3), NOW) == "3 minutes ago"
    assert ago_text(NOW - timedelta(days=90), NOW) == "19 August 2026"


# Who somebody is


def test_a_text_says_who_somebody_is_for_one_purpose_and_a_time() -> None:
    signer, ada = Signer(b"secret"), Session("ada", int(NOW.timestamp()) + 60, views=("homes",))
    text = signer.written(ada, LINK)
    assert signer.read(text, LINK, NOW) == ada
    assert signer.read(text, COOKIE, NOW) is None
    assert signer.read(text, LINK, NOW + timedelta(seconds=61)) is None
    assert Signer(b"another").read(text, LINK, NOW) is None
    said, _, signature = text.partition(".")
    forged = signer.written(Session("eve", ada.expires_at_s), COOKIE).partition(".")[0]
    for odd in (f"{forged}.{signature}", said, f"{said}.", "", ".", "é.x", f"{said}.{signature}x!", "a" * 9_999):
        assert signer.read(odd, LINK, NOW) is None


def test_a_link_that_nobody_could_open_is_not_given() -> None:
    async def admit(*_: object) -> None:
        return None

    access, deployment = SimpleNamespace(key=lambda *_: None), SimpleNamespace(settings=Settings())
    reading = SimpleNamespace(admit=admit, access=access, deployment=deployment)
    signer, app = Signer(b"secret"), FastAPI()
    app.include_router(api(cast(Site, SimpleNamespace(reading=reading, visitors=SimpleNamespace(signer=signer)))))
    problems.register(app)

    def ask(views: int) -> httpx.Response:
        named = [f"{number:03}_{'v' * 59}" for number in range(views)]
        return TestClient(app).post("/v1/site/sessions", json={"owner": "ada", "views": named})

    few, many = ask(40), ask(50)
    ticket = few.json()["url"].partition("/site/enter/")[2].partition("?")[0]
    session = signer.read(ticket, LINK, datetime.now(UTC))
    assert session is not None
    assert len(session.views) == 40
    assert (many.status_code, many.json()["hint"]) == (400, "name fewer views")


def test_a_form_belongs_to_one_cookie() -> None:
    signer = Signer(b"secret")
    assert signer.form_token("a") != signer.form_token("b")
    assert signer.form_token("a") != Signer(b"another").form_token("a")


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", "search/../admin", "search/a?b", "v1/keys", ""]
)
def test_a_link_leads_to_our_own_pages(to: str) -> None:
    with pytest.raises(ConfigurationError):
        place(to)
    assert place("search/listing_search") == "search/listing_search"


def test_the_demo_says_where_its_pages_are() -> None:
    said = pages_line("http://127.0.0.1:8321/")
    [view] = re.findall(r"http://127\.0\.0\.1:8321/search/(\w+)", said)
    assert f"{view} WITH" in "".join(file.read_text(encoding="utf-8") for file in EXAMPLES.rglob("*.sql"))


def told_to(session: Session) -> bytes:
    """What an open inbox hears of three events."""

    async def visitor(_: Request) -> Visitor:
        return Visitor(session, "token")

    async def events(owner: str, after: int, _: object) -> AsyncGenerator[bytes, None]:
        for number in range(3):
            yield f": {owner} {after + number}\n\n".encode()

    app, routes = FastAPI(), APIRouter()
    watching = SimpleNamespace(events=events)
    site_inbox.add_routes(routes, cast(Site, SimpleNamespace(visitor=visitor, watching=watching)))
    app.include_router(routes)
    answer = TestClient(app).get("/inbox/live?after=7")
    assert answer.headers["Content-Type"].startswith("text/event-stream")
    return answer.content


def test_an_open_inbox_ends_with_its_session(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = int(datetime.now(UTC).timestamp())
    in_time = Session("ada", now_s + 3_600)
    assert told_to(in_time) == b": ada 7\n\n: ada 8\n\n: ada 9\n\n"
    assert told_to(Session("ada", now_s - 1)) == b": ada 7\n\n"
    monkeypatch.setattr(site_inbox, "STREAM_S_MAX", 0.0)
    assert told_to(in_time) == b": ada 7\n\n", "its cookie is looked at anew"


def inbox_of(before: dict[str, object] | None, after: dict[str, object] | None) -> str:
    """What `/inbox` shows of one row of `homes`, after the view was given its columns of today."""

    async def visitor(_: Request) -> Visitor:
        return Visitor(Session("ada", int(NOW.timestamp())), "token")

    rows = [None if row is None else json.dumps(row) for row in (before, after)]
    told = News(1, 1, "Flats", "homes", '{"id":7}', "changed", "changed", *rows, "1:2", NOW, NOW, NOW, "n", None)
    searches = SimpleNamespace(newest=lambda *_: [told], listed=lambda _: [])
    visitors = SimpleNamespace(views=lambda _: {"homes"}, currency=lambda: "€")
    site = {"visitor": visitor, "visitors": visitors, "searches": searches}
    app, routes = FastAPI(), APIRouter()
    site_inbox.add_routes(routes, cast(Site, SimpleNamespace(**site, layout=lambda _: (HOMES, layout(HOMES, CITIES)))))
    app.include_router(routes)
    answer = TestClient(app).get("/inbox")
    assert answer.status_code == 200
    return answer.text


@pytest.mark.parametrize("old", [{"price": "on request"}, {"lat": "north", "lon": "west"}])
def test_an_inbox_holds_rows_of_the_view_as_it_was(old: dict[str, object]) -> None:
    today = {"id": 7, "title": "Attic", "price": 5, "lat": 1.0, "lon": 2.0}
    assert "<h2>Attic</h2>" in inbox_of({**today, "price": 4}, today)
    for before, after in ((today | old, today), (today, today | old), (today | old, None)):
        assert re.search("<h2>(Attic|{&#34;id&#34;:7})</h2>", inbox_of(before, after))


# What forms ask for


def test_a_form_is_a_wish() -> None:
    form = Form(
        [
            ("view", "homes"),
            ("query", "kind:flat"),
            ("label", " Flats "),
            ("events", "entered"),
            ("events", "dropped"),
            ("watched_column", "price"),
            ("frequency", "daily"),
            ("time_zone", ""),
            ("email", ""),
        ]
    )
    assert wish(form) == {
        "view": "homes", "query": "kind:flat", "label": "Flats", "events": ["entered", "dropped"], "frequency": "daily",
        "watched_column": "price",
    }  # fmt: skip
    assert wish(Form([("view", "homes")]))["events"] == ["entered"]
    assert wish(Form([("email", "a@b.c")]))["target"] == "a@b.c"
    with pytest.raises(ConfigurationError, match="e-mail or by webhook"):
        wish(Form([("email", "a@b.c"), ("webhook", "https://example.com/")]))


def test_what_is_folded_away_is_asked_for() -> None:
    form = Form(
        [
            ("view", "homes"),
            ("query", "kind:flat"),
            ("events", "dropped"),
            ("events", "changed"),
            ("watched_column", "price"),
            ("threshold", "2.5"),
            ("threshold_unit", "percent"),
            ("columns", "kind"),
            ("columns", "city"),
            ("expires_on", "2026-12-31"),
            ("expires_was", ""),
            ("time_zone", "Europe/Paris"),
            ("webhook", " https://example.com/hook "),
            ("reenter_s", "0"),
        ]
    )
    made = read_wish(wish(form), HOMES)
    assert (made.threshold, made.threshold_unit, made.columns) == (Decimal("2.5"), "percent", ("kind", "city"))
    assert (made.channel, made.target) == ("webhook", "https://example.com/hook")
    assert made.expires_at == datetime(2026, 12, 31, 23, tzinfo=UTC), "midnight in Paris"
    assert of_wish(made) == Options("2.5", "percent", ("kind", "city"), "2026-12-31", reenter="0")
    assert made.reenter_s == 0, "each time"
    assert changes(Form([("events", "left"), ("reenter_s", "")]))["reenter_s"] is None
    assert Options(reenter="7200").reenter_choices["7200"] == "after 7200 s"
    # The form that changes it shows the day; what was not touched stays as exact as it was.
    again = Form([("events", "changed"), ("expires_on", "2026-12-31"), ("expires_was", last_day(made))])
    assert changes(again) == {"events": ["changed"], "watched_column": None, "threshold": None}
    assert changes(Form([("events", "changed"), ("columns", "")]))["columns"] == []
    assert changes(Form([("events", "left"), ("expires_on", ""), ("expires_was", "2026-12-31")]))["expires_at"] is None
    for name, text in (
        ("threshold", "much"),
        ("reenter_s", "soon"),
        ("expires_on", "31/12/2026"),
        ("expires_on", "9999-12-31"),
    ):
        with pytest.raises(ConfigurationError):
            changes(Form([("events", "dropped"), ("watched_column", "price"), (name, text)]))
    assert ("id", "Id") not in column_choices(HOMES)
    assert unit_labels("price", "€")["amount"] == "€"


def test_an_event_that_is_unticked_takes_its_fields_with_it() -> None:
    """What `dropped` and `changed` were about is nobody's without them: the wish would be refused as a whole."""
    saved = {"view": "homes", "events": ["entered", "dropped", "changed"], "watched_column": "price", "threshold": 5}
    old = read_wish({**saved, "columns": ["kind"]}, HOMES)

    def edited(*events: str) -> Wish:
        form = Form([("events", ""), *(("events", event) for event in events), ("watched_column", "price")])
        return read_wish({**old.fields(), **changes(form)}, HOMES)

    plain = edited("entered")
    assert (plain.events, plain.watched_column, plain.threshold, plain.columns) == (("entered",), None, None, ())
    cheaper = edited("dropped")
    assert (cheaper.watched_column, cheaper.threshold, cheaper.columns) == ("price", 5, ())
    assert edited("changed").columns == ("kind",)


def test_a_form_changes_what_it_holds() -> None:
    assert changes(Form([("frequency", "weekly"), ("watched_column", "price")])) == {"frequency": "weekly"}
    dropping = changes(Form([("events", "dropped"), ("watched_column", "price")]))
    assert dropping == {"events": ["dropped"], "watched_column": "price", "columns": []}
    assert changes(Form([("cap_per_day", ""), ("quiet_from", ""), ("quiet_to", ""), ("digest_hour", "7")])) == {
        "cap_per_day": None, "quiet_from": None, "quiet_to": None, "digest_hour": 7,
    }  # fmt: skip
    with pytest.raises(ConfigurationError):
        changes(Form([("digest_hour", "x")]))
    # Every box of the form unticked: the form says so, and a saved search without an event is refused.
    assert changes(Form([("events", ""), ("watched_column", "price")]))["events"] == []
    assert back(Form([("back", "inbox")]), "alerts") == "inbox"
    assert back(Form([("back", "//evil.example")]), "alerts") == "alerts"

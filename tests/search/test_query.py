"""The two written forms of a query, the checks, and relative instants."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from decimal import Decimal

import msgspec
import pytest
from hypothesis import given, settings

from cdc.pgtypes.instants import Date, TimestampTz, parse_date, parse_timestamptz
from search.errors import QueryRefused
from search.geo import Point
from search.instants import Relative
from search.kinds import Kind
from search.query import (
    And,
    AnyOf,
    Box,
    Element,
    Equals,
    Exists,
    MatchAll,
    Mode,
    Near,
    Not,
    Or,
    Polygon,
    Query,
    Range,
    Text,
    resolve,
)
from search.query_check import check
from search.query_json import from_json, to_json
from search.query_parser import parse
from search.query_text import to_text
from tests.search import market

D = market.DEFINITION
NOW = datetime(2026, 3, 31, 12, 0, tzinfo=UTC)


@settings(max_examples=150)
@given(market.queries)
def test_text_and_json_give_the_same_query_back(drawn: Query) -> None:
    query = check(drawn, D)
    assert check(query, D) == query
    assert parse(to_text(query, D), D) == query
    assert from_json(msgspec.json.decode(msgspec.json.encode(to_json(query))), D) == query


SEEN_DAY = Range("seen", parse_timestamptz("2026-05-31"), parse_timestamptz("2026-06-01"), high_open=True)
FORMS: list[tuple[str, Query]] = [
    ("", MatchAll()),
    (" * ", MatchAll()),
    ("garden", Text("garden")),
    ("south-facing", Text("south-facing")),
    ('"south facing"', Text("south facing", Mode.PHRASE)),
    ("gard*", Text("gard", Mode.PREFIX)),
    ('any:"sea view"', Text("sea view", Mode.ANY)),
    ("city:paris", Text("paris", Mode.ALL, "city")),
    ("city:(paris,lyon)", Or((Text("paris", field="city"), Text("lyon", field="city")))),
    ('city="Paris"', Equals("city", "Paris")),
    ("city=(Paris, Lyon)", AnyOf("city", ("Paris", "Lyon"))),
    ('"odd name.x":sea', Text("sea", Mode.ALL, "odd name.x")),
    ("kind:studio", Equals("kind", "studio")),
    ("kind:(flat,house)", AnyOf("kind", ("flat", "house"))),
    ("price:..500000", Range("price", None, Decimal(500000))),
    ("number:2..", Range("number", 2)),
    ("number:-2..3", Range("number", -2, 3)),
    ("price:>1..<9.5", Range("price", Decimal(1), Decimal("9.5"), low_open=True, high_open=True)),
    ("price:>=1", Range("price", Decimal(1))),
    ("price:<=9", Range("price", None, Decimal(9))),
    ("flag:yes", Equals("flag", True)),
    ("seen:now-7d..", Range("seen", Relative("now-7d", Kind.TIMESTAMPTZ))),
    ("seen:2026-05-31", SEEN_DAY),
    ("seen:>2026-05-31", Range("seen", parse_timestamptz("2026-06-01"))),
    ("day:2026-05-31", Equals("day", parse_date("2026-05-31"))),
    ("has:doc.photos", Exists("doc.photos")),
    ("doc.name:paul", Text("paul", Mode.ALL, "doc.name")),
    ("doc.width:800", Equals("doc.width", 800)),
    ('doc.width="800"', Equals("doc.width", "800")),
    ("doc.width:800..", Range("doc.width", 800)),
    (
        "doc.photos:(kind:plan caption:garden)",
        Element("doc.photos", And((Text("plan", field="kind"), Text("garden", field="caption")))),
    ),
    ("doc:(width:800..)", Element("doc", Range("width", 800))),
    ("doc.photos:(*)", Element("doc.photos", MatchAll())),
    ("doc.photos:( -* )", Element("doc.photos", Not(MatchAll()))),
    ("doc.photos:(-kind=plan)", Element("doc.photos", Not(Equals("kind", "plan")))),
    ("-doc.photos:(kind=plan)", Not(Element("doc.photos", Equals("kind", "plan")))),
    (
        'doc.photos:("odd name":(a,b))',
        Element("doc.photos", Or((Text("a", field="odd name"), Text("b", field="odd name")))),
    ),
    ("doc.photos:(near:48.85,2.35,5km)", Element("doc.photos", Near(48.85, 2.35, 5000.0))),
    ("doc.a:(has:b OR c:(has:d))", Element("doc.a", Or((Exists("b"), Element("c", Exists("d")))))),
    ("doc.name:(paul,anna)", Or((Text("paul", field="doc.name"), Text("anna", field="doc.name")))),
    ("doc.name:(paul)", Text("paul", field="doc.name")),
    ('doc.name:("a:b")', Text("a:b", Mode.PHRASE, "doc.name")),
    ("near:48.85,2.35,5km", Near(48.85, 2.35, 5000.0)),
    ("box:49,2,48,3", Box(49.0, 2.0, 48.0, 3.0)),
    ("polygon:48,2,49,2,49,3", Polygon((Point(48, 2), Point(49, 2), Point(49, 3)))),
    ("-kind:studio", Not(Equals("kind", "studio"))),
    ("NOT kind:studio", Not(Equals("kind", "studio"))),
    ("a OR b c", Or((Text("a"), And((Text("b"), Text("c")))))),
    ("(a OR b) c", And((Or((Text("a"), Text("b"))), Text("c")))),
    ("a AND b", And((Text("a"), Text("b")))),
    ("ORchid", Text("ORchid")),
]


@pytest.mark.parametrize(("text", "wanted"), FORMS, ids=[text or "nothing" for text, _ in FORMS])
def test_what_people_write(text: str, wanted: Query) -> None:
    assert parse(text, D) == wanted
    assert parse(to_text(wanted, D), D) == wanted


REFUSALS = [
    ("citi:paris", 1, "no field citi", "did you mean city?"),
    ("sea pric:5", 5, "no field pric", "did you mean price?"),
    ("price:cheap", 1, "'cheap' is not", "write a number"),
    ("price:1_000", 1, "is not", "write a number"),
    ("number:1 price:", 16, "a value is missing", "price:value"),
    ("(a OR b", 1, "a bracket is not closed", "(a OR b)"),
    ("a )", 3, "closes that was not opened", "(a OR b)"),
    ('sea "view', 5, "a quote is not closed", '"south facing"'),
    ("a OR", 5, "a clause is missing", "field:value"),
    ("OR a", 1, "OR stands alone", "a OR b"),
    ("near:1,2", 1, "not a near", "near:48.85,2.35,5km"),
    ("near:100,2,5km", 1, "not a place on the map", "±90"),
    ("near:1,2,0m", 1, "not a radius", "5km"),
    ("box:48,2,49,3", 1, "south lies above", "north,west,south,east"),
    ("polygon:0,0,1,1,0,1,1,0", 1, "sides cross", "in the order"),
    ("polygon:0,0,1,1,2,2", 1, "no area", "one line"),
    ("kind:a..b", 1, "kind has no order", "kind:(one,another)"),
    ("blob:x", 1, "blob cannot be searched", "there are: id"),
    ("doc:x", 1, "doc is a json document", "doc.name"),
    ("seen:now-7x..", 1, "is not", "now-7d"),
    ("!!!", 1, "no word", "letters or digits"),
    ("kind:all:flat", 1, "kind is not a text", "kind=…"),
    ("ref:7", 1, "is not", "write a uuid"),
    ("kind:(flat house)", 12, "goes on with a comma", "kind:(one,another)"),
    ("doc.x:1..b", 1, "from number to number", ""),
    ("doc.photos:(kind:plan garden)", 23, "has no text to search", "name a field"),
    ("doc.photos:(kind:plan", 12, "a bracket is not closed", "(a OR b)"),
    ("doc.photos:()", 13, "a clause is missing", "field:value"),
    ("doc.a:(b:(c:(d:1)))", 11, "at most 2 deep", "rooms.windows:(kind:bay)"),
]


@pytest.mark.parametrize(("text", "position", "fact", "hint"), REFUSALS, ids=[each[0] for each in REFUSALS])
def test_a_refusal_says_where_and_what_to_write(text: str, position: int, fact: str, hint: str) -> None:
    with pytest.raises(QueryRefused) as caught:
        parse(text, D)
    assert caught.value.position == position
    assert fact in caught.value.fact
    assert hint in caught.value.hint
    assert pickle.loads(pickle.dumps(caught.value)).position == position


def test_limits() -> None:
    for text, what in (
        ("(" * 11 + "a" + ")" * 11, "more than 10 levels"),
        ("-" * 11 + "a", "more than 10 levels"),
        ("doc:(" + "(" * 10 + "a:1" + ")" * 11, "more than 10 levels"),
        ("doc:(" + "kind:a " * 200 + ")", "more than 200 clauses"),
        ("kind:a " * 201, "more than 200 clauses"),
        ("a " * 51, "more than 50 words"),
        ("number=(" + ",".join(map(str, range(1001))) + ")", "more than 1000 values"),
        ("a" * 10_001, "more than 10000 characters"),
    ):
        with pytest.raises(QueryRefused, match=what):
            parse(text, D)


@pytest.mark.parametrize(
    ("written", "fact"),
    [
        ([], "not an object with one member"),
        ({"and": []}, "not a list"),
        ({"same": {"field": "x"}}, 'no clause "same"'),
        ({"equals": {"field": "kind"}}, "has no value"),
        ({"equals": {"field": "kind", "value": "flat", "boost": 2}}, "a member too many: boost"),
        ({"range": {"field": "price", "gt": 1, "gte": 2}}, "one end on each side"),
        ({"range": {"field": "price"}}, "without ends"),
        ({"text": {"text": "sea", "mode": "fuzzy"}}, 'no mode "fuzzy"'),
        ({"near": {"lat": "1", "lon": 2, "radius_m": 3}}, "not a number"),
        ({"polygon": {"corners": [1, 2, 3]}}, "corner is not"),
        ({"element": {"field": "doc.photos"}}, "has no query"),
        ({"element": {"field": "tags", "query": {"match_all": {}}}}, "tags has no elements"),
        ({"element": {"field": "doc", "query": {"text": {"text": "sea"}}}}, "no text to search"),
        ({"element": {"field": "doc", "query": {"exists": {"field": "x"}}, "path": "y"}}, "a member too many: path"),
        ({"equals": {"field": "number", "value": True}}, "is not"),
    ],
)
def test_json_that_is_no_query(written: object, fact: str) -> None:
    with pytest.raises(QueryRefused, match=fact):
        from_json(written, D)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("now", "2026-03-31 12:00:00+00"),
        ("now-7d", "2026-03-24 12:00:00+00"),
        ("now-1M", "2026-02-28 12:00:00+00"),
        ("now-13M+1d", "2025-03-01 12:00:00+00"),
        ("now+9M", "2026-12-31 12:00:00+00"),
        ("now-2y-1h", "2024-03-31 11:00:00+00"),
        ("now+30m-10s", "2026-03-31 12:29:50+00"),
        ("now-2w", "2026-03-17 12:00:00+00"),
    ],
)
def test_relative_instants_are_resolved_once(text: str, wanted: str) -> None:
    query = parse(f"seen:{text}.. day:..{text} -seen:({text},infinity)", D)
    resolved = resolve(query, NOW)
    assert isinstance(resolved, And)
    stamp = parse_timestamptz(wanted)
    seen, day, neither = resolved.clauses
    assert isinstance(seen, Range)
    assert isinstance(seen.low, TimestampTz)
    assert seen == Range("seen", stamp)
    assert day == Range("day", None, Date(stamp // 86_400_000_000))
    assert isinstance(neither, Not)
    assert isinstance(neither.clause, AnyOf)
    assert neither.clause.values[0] == stamp
    assert resolve(resolved, NOW) == resolved

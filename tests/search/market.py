"""A view with a column of every kind, and rows and queries drawn over it: from small pools, so that they meet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from cdc.pgtypes.instants import parse_date, parse_timestamp, parse_timestamptz
from search.geo import Point
from search.index import IndexDefinition, define
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
)  # fmt: skip
from views import sqltypes
from views.plan import Field
from views.sinks.sink import ViewShape
from views.sqltypes import Family, SqlType

ENUM = SqlType("public.listing_kind", pa.string(), "VARCHAR", Family.ENUM)
FIELDS = (
    Field("id", sqltypes.BIGINT, nullable=False),
    Field("flag", sqltypes.BOOLEAN),
    Field("number", sqltypes.BIGINT),
    Field("price", sqltypes.named("numeric(12,2)")),
    Field("total", sqltypes.numeric(38, 10)),
    Field("loose", sqltypes.NUMERIC),
    Field("ratio", sqltypes.DOUBLE),
    Field("title", sqltypes.TEXT),
    Field("city", sqltypes.VARCHAR),
    Field("odd name.x", sqltypes.TEXT),
    Field("tags", sqltypes.array_of(sqltypes.TEXT)),
    Field("scores", sqltypes.array_of(sqltypes.INTEGER)),
    Field("kind", ENUM),
    Field("ref", sqltypes.UUID),
    Field("opens", sqltypes.TIME),
    Field("day", sqltypes.DATE),
    Field("at", sqltypes.TIMESTAMP),
    Field("seen", sqltypes.TIMESTAMPTZ),
    Field("doc", sqltypes.JSONB),
    Field("lat", sqltypes.DOUBLE),
    Field("lon", sqltypes.DOUBLE),
    Field("blob", sqltypes.BYTEA),
)


def shape(source: str = "market", view: str = "listing", **options: str) -> ViewShape:
    return ViewShape(source, view, FIELDS, ("id",), options)


DEFINITION: IndexDefinition = define(shape())

WORDS = ("garden", "gardens", "gardening", "sea", "View", "happy", "happily", "Élan", "naïve", "straße", "x1", "東京")
_LONG = "long " * 100
ODD_TEXTS = (
    "", " ", "Sea-view, garden!", _LONG + "a", _LONG + "b", "a" * 150, "paris", "Paris", "-", "..", "now", "5", "true",
    "OR", 'a "b" \\c', "x:y", "a,b", "(a", "a*",
)  # fmt: skip
TEXTS = st.one_of(
    st.lists(st.sampled_from(WORDS), max_size=5).map(" ".join),
    st.sampled_from(ODD_TEXTS),
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=4),
)
_NUMBERS = ["0", "-0.01", "0.01", "1", "1.5", "1.50", "2", "-2", "-2.5", "10", "99999999.99", "0.005"]
_BIG = ["123456789012345678901234567.0123456789", "-123456789012345678901234567.0123456789", "1e20", "1.5e-9", "NaN"]
_LONGS = [0, 1, -1, 2, 2**53, 2**53 + 1, 2**63 - 1, -(2**63), 10**18]
_FLOATS = ["0", "-0", "0.1", "0.30000000000000004", "0.3", "1e300", "-1e-300", '"NaN"', '"Infinity"', '"-Infinity"']
_DAYS = ["1970-01-01", "2026-05-30", "2026-05-31", "infinity", "-infinity", "0044-03-15 BC", "12026-01-01"]
_CLOCKS = ["00:00:00", "12:30:00", "12:30:00.000001", "24:00:00"]
_STAMPS = ["2026-05-31T00:00:00", "2026-05-31T00:00:00.000001", "2026-05-30T23:59:59.999999", "infinity", "-infinity"]
_UUIDS = ["7d444840-9dc0-11d1-b245-5ffdce74fad2", "00000000-0000-0000-0000-000000000000"]
_KINDS = ["flat", "house", "studio"]
_DEGREES = [-180.0, -179.5, -10.5, 0.0, 0.5, 1.0, 2.35, 48.85, 90.0, 91.0, 179.5]
_PATHS = ("name", "photos.caption", "photos.width", "open", "a b", "photos", "deep.er.x=y", "photos.rooms.size")
_ELEMENT_PATHS = ("caption", "width", "rooms", "rooms.size", "x=y", "lat")
"""Inside an element: of photos, of deep.er, or of a document that is an array itself."""
_ARRAYS = ("doc.photos", "doc", "doc.deep.er", "doc.photos.rooms", "doc.name", "doc.rooms")
_INNER_ARRAYS = ("rooms", "photos", "x=y", "")

_LEAVES = (None, True, False, "5", "paris", "Sea view", "garden", "", 5, 0, -1, 2**60, 1.5, 800)


def _text(random: Random) -> str:
    if random.random() < 0.6:
        return " ".join(random.choices(WORDS, k=random.randrange(6)))
    return random.choice((*ODD_TEXTS, "".join(chr(random.randrange(1, 0xD800)) for _ in range(random.randrange(5)))))


def _photo(random: Random) -> dict[str, Any]:
    made: dict[str, Any] = {name: random.choice(_LEAVES) for name in ("caption", "width") if random.random() < 0.7}
    if random.random() < 0.3:
        made |= {"lat": random.choice((*_DEGREES, "0.5", None, True)), "lng": random.choice(_DEGREES)}
    if random.random() < 0.4:
        made["rooms"] = random.choice((_array(random, _room), _room(random), None, []))
    return made


def _room(random: Random) -> dict[str, Any]:
    return {name: random.choice(_LEAVES) for name in ("caption", "size", "width") if random.random() < 0.6}


def _array(random: Random, element: Callable[[Random], Any]) -> list[Any]:
    """Of objects, with now and then something else between them."""
    found = [element(random) for _ in range(random.randrange(4))]
    return [[one] if random.random() < 0.1 else random.choice((one, one, one, random.choice(_LEAVES))) for one in found]


def _document(random: Random) -> Any:
    if random.random() < 0.2:
        return random.choice(_LEAVES)
    if random.random() < 0.15:
        return _array(random, _photo)
    photos = (random.choice(_LEAVES), _photo(random), _array(random, _photo), _array(random, _photo))
    members = {
        "name": random.choice(_LEAVES),
        "open": random.choice(_LEAVES),
        "a b": random.choice(_LEAVES),
        "photos": random.choice(photos),
        "deep": {"er": [{"x=y": "sea"}, {"x=y": 7}, {"x=y": [{"caption": "sea"}, {}], "width": 800}]},
    }
    return {name: value for name, value in members.items() if random.random() < 0.6}


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _values(random: Random) -> dict[str, str]:
    """One value of each column, as it stands in a row's JSON."""
    pick = random.choice
    some = range(random.randrange(4))
    return {
        "flag": pick(["true", "false"]),
        "number": _json(pick(_LONGS)),
        "price": pick([*(n for n in _NUMBERS if len(n.partition(".")[2]) <= 2), '"NaN"']),
        "total": pick([*_NUMBERS, *(n for n in _BIG if n[0] in "-1" and "e" not in n)]),
        "loose": pick([*_NUMBERS, *(n if n != "NaN" else '"NaN"' for n in _BIG), '"Infinity"', '"-Infinity"']),
        "ratio": pick(_FLOATS),
        "title": _json(_text(random)),
        "city": _json(_text(random)),
        "odd name.x": _json(_text(random)),
        "tags": _json([pick((None, _text(random), _text(random))) for _ in some]),
        "scores": _json([pick((None, -2, -1, 0, 1, 2, 3, 4, 5)) for _ in some]),
        "kind": _json(pick(_KINDS)),
        "ref": _json(pick(_UUIDS)),
        "opens": _json(pick(_CLOCKS)),
        "day": _json(pick(_DAYS)),
        "at": _json(pick(_STAMPS)),
        "seen": _json(pick([f"{text}+00:00" if text[0].isdigit() else text for text in _STAMPS])),
        "doc": _json(_document(random)),
        "lat": _json(pick(_DEGREES)),
        "lon": _json(pick(_DEGREES)),
        "blob": _json("\\x00ff"),
    }


def row(seed: int) -> bytes:
    """A row's JSON, as Postgres prints it; any column may be NULL."""
    random = Random(seed)
    values = {name: value if random.random() < 0.75 else "null" for name, value in _values(random).items()}
    members = [f'"id":{random.choice(_LONGS)}', *(f"{_json(name)}:{value}" for name, value in values.items())]
    return f"{{{','.join(members)}}}".encode()


rows = st.integers(0, 2**32).map(row)
SPECIAL_ROWS = (
    b'{"id":1,"tags":["Sea View","garden"],"title":"sea","city":"view"}',
    b'{"id":2,"doc":{"photos":[{"caption":"sea"},{"caption":"view garden"}]},"lat":0.5,"lon":null}',
    b'{"id":3,"tags":[["sea"],["view garden"]],"scores":[[1,2],[3,null]]}',
    b'{"id":4,"doc":{"photos":[{"caption":"sea view","width":5},{"caption":"garden","width":800}]}}',
    b'{"id":5,"doc":[{"caption":"sea","rooms":[{"caption":"garden","size":5},{"size":800}]},{"rooms":[{}]}]}',
    b'{"id":6,"doc":{"photos":[]}}',
    b'{"id":7,"doc":{"photos":[null,5,"sea",[],{}]}}',
    b'{"id":8,"doc":{"photos":[{"caption":null,"lat":48.85,"lng":2.35}]}}',
    b'{"id":9,"doc":{"photos":{"caption":"sea","width":5}}}',
    b'{"id":10,"doc":[{"":[{"caption":"sea"}],"lat":1e400,"lon":2}]}',
)
"""What a draw rarely meets: phrases from one value into the next, arrays in arrays, arrays of this and that."""

POOLS: dict[str, list[Any]] = {
    "flag": [True, False],
    "id": _LONGS,
    "number": [*_LONGS, 10**30, -(10**30), Decimal("0.5"), Decimal("-1.5"), Decimal("Infinity")],
    "price": [Decimal(text) for text in (*_NUMBERS, "1e30", "-1e30", "Infinity", "-Infinity")],
    "total": [Decimal(text) for text in (*_NUMBERS, *_BIG[:-1], "Infinity")],
    "loose": [Decimal(text) for text in (*_NUMBERS, *_BIG[:-1], "Infinity", "-Infinity")],
    "ratio": [float(text.strip('"')) for text in _FLOATS if "NaN" not in text],
    "title": [*ODD_TEXTS, *WORDS],
    "city": [*ODD_TEXTS, *WORDS],
    "odd name.x": [*ODD_TEXTS, *WORDS],
    "tags": [*ODD_TEXTS, *WORDS],
    "scores": list(range(-2, 6)),
    "kind": _KINDS,
    "ref": _UUIDS,
    "opens": _CLOCKS,
    "day": [parse_date(text) for text in _DAYS],
    "at": [parse_timestamp(text) for text in _STAMPS],
    "seen": [parse_timestamptz(text) for text in _STAMPS],
}
"""What queries ask of each column."""
_WORDED = ("title", "city", "odd name.x", "tags")
VALUES = {name: TEXTS if name in _WORDED else st.sampled_from(pool) for name, pool in POOLS.items()}
JSON_NUMBERS = [5, 0, -1, 2**60, Decimal("1.5"), 800, 7]
JSON_TEXTS = ["5", "paris", "Sea view", "garden", "", "sea"]
json_numbers = st.sampled_from(JSON_NUMBERS)
json_texts = st.sampled_from(JSON_TEXTS)
paths = st.sampled_from(_PATHS).map(lambda path: f"doc.{path}")
fields = st.sampled_from(sorted(VALUES))
ordered = st.sampled_from(sorted(set(VALUES) - {"flag", "kind"}))
worded = st.sampled_from(_WORDED)


@st.composite
def equalities(draw: st.DrawFn, asked: st.SearchStrategy[str]) -> Query:
    field = draw(asked)
    values = VALUES.get(field, st.one_of(json_numbers, json_texts, st.booleans()))
    if draw(st.booleans()):
        return Equals(field, draw(values))
    return AnyOf(field, tuple(draw(st.lists(values, min_size=1, max_size=3))))


@st.composite
def ranges(draw: st.DrawFn, asked: st.SearchStrategy[str]) -> Query:
    field = draw(asked)
    values = VALUES[field] if field in VALUES else draw(st.sampled_from([json_numbers, json_texts]))
    low, high = draw(st.one_of(st.tuples(values, values), st.tuples(st.none(), values), st.tuples(values, st.none())))
    opened = st.booleans()
    return Range(field, low, high, low is not None and draw(opened), high is not None and draw(opened))


@st.composite
def worded_queries(draw: st.DrawFn, where: st.SearchStrategy[str | None]) -> Query:
    asked = st.lists(st.sampled_from((*WORDS, "gard", "hap", "s", "pari", "a" * 100)), min_size=1, max_size=3)
    field = draw(where)
    return Text(draw(st.sampled_from([" ", "-", ", "])).join(draw(asked)), draw(st.sampled_from(Mode)), field)


@st.composite
def places(draw: st.DrawFn) -> Query:
    lat = st.sampled_from([d for d in _DEGREES if abs(d) <= 90])
    lon = st.sampled_from([d for d in _DEGREES if d != 91.0])
    drawn = draw(st.sampled_from(["near", "box", "polygon"]))
    if drawn == "near":
        return Near(draw(lat), draw(lon), draw(st.sampled_from([0.5, 1000.0, 55_555.5, 1e6, 1.9e7])))
    if drawn == "box":
        south, north = sorted((draw(lat), draw(lat)))
        return Box(north, draw(lon), south, draw(lon))
    spans = draw(st.lists(st.sampled_from([0.31, 3.3, 20.7]), min_size=4, max_size=4))
    lat_, lon_ = draw(st.sampled_from([0.1, 2.2, 47.9])), draw(st.sampled_from([0.05, 2.0, -10.7]))
    turns = ((1, 0), (0, 1), (-1, 0), (0, -1))
    corners = tuple(Point(lat_ + s * a, lon_ + s * b) for s, (a, b) in zip(spans, turns, strict=True))
    return Polygon(corners[:: draw(st.sampled_from([1, -1]))])


existing = st.one_of(st.sampled_from([field.name for field in FIELDS if field.name != "blob"]), paths).map(Exists)


def _grown(inside: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    several = st.lists(inside, min_size=2, max_size=3).map(tuple)
    return st.one_of(several.map(And), several.map(Or), inside.map(Not))


def _of_elements(*more: st.SearchStrategy[Query]) -> st.SearchStrategy[Query]:
    """What is asked of one element."""
    inner = st.sampled_from(_ELEMENT_PATHS)
    everything = st.just(MatchAll())
    asked = (everything, equalities(inner), ranges(inner), worded_queries(inner), places(), inner.map(Exists), *more)
    return st.recursive(st.one_of(*asked), _grown, max_leaves=3)


in_elements = st.builds(Element, st.sampled_from(_INNER_ARRAYS), _of_elements())
elements = st.builds(Element, st.sampled_from(_ARRAYS), _of_elements(in_elements))
clauses = st.one_of(
    st.just(MatchAll()),
    equalities(st.one_of(fields, paths)),
    ranges(st.one_of(ordered, paths)),
    worded_queries(st.one_of(st.none(), worded, paths)),
    places(),
    existing,
    elements,
)
queries: st.SearchStrategy[Query] = st.recursive(clauses, _grown, max_leaves=5)


def every_clause() -> Iterator[Query]:
    """Each kind of clause with each field and value that it can have, without drawing."""
    yield MatchAll()
    paths = [f"doc.{path}" for path in _PATHS]
    pools = POOLS | {path: [*JSON_NUMBERS, *JSON_TEXTS, True, False] for path in paths}
    for field, pool in pools.items():
        yield Exists(field)
        yield from (Equals(field, value) for value in pool)
        yield AnyOf(field, tuple(pool[::2]))
    for field, values in [(f, p) for f, p in POOLS.items() if f not in ("flag", "kind")] + [
        (path, pool) for path in paths for pool in (JSON_NUMBERS, JSON_TEXTS)
    ]:
        for value in values:
            yield from (Range(field, value, None, low_open=opened) for opened in (False, True))
            yield from (Range(field, None, value, high_open=opened) for opened in (False, True))
        yield Range(field, values[0], values[-1])
    asked = (*WORDS, "gard", "happi", "s", "pari", "sea view", "view garden", "garden gardens", "sea gard", "a" * 100)
    for field_ in (None, *_WORDED, *paths):
        yield from (Text(text, mode, field_) for text in asked for mode in Mode)
    yield from _every_element()
    degrees = [d for d in _DEGREES if abs(d) <= 90]
    yield from (Near(d, e, r) for d in degrees for e in (2.35, 0.5, 180.0) for r in (0.5, 55_555.5, 5_437_000.0, 1.9e7))
    yield from (Box(48.85, west, south, east) for west in degrees for east in degrees for south in (-10.5, 0.5))
    yield Polygon((Point(-0.3, -0.3), Point(1.2, 0.4), Point(0.4, 0.6), Point(0.7, 2.7)))


def _every_element() -> Iterator[Query]:
    """Each kind of clause in an element: alone, negated on either side, with another one, and in an inner element."""
    pool = (5, 800, Decimal("1.5"), "sea", "Sea view", True)
    plain = [MatchAll(), *map(Exists, _ELEMENT_PATHS)]
    plain += [Equals(path, value) for path in _ELEMENT_PATHS for value in pool]
    plain += [Range(path, low, high) for path in _ELEMENT_PATHS for low, high in ((0, None), (None, 5), ("a", "q"))]
    plain += [
        Text(text, mode, path) for path in _ELEMENT_PATHS for text in ("sea", "sea view", "gard") for mode in Mode
    ]
    plain += [Near(48.85, 2.35, 1e6), Near(0.5, 1.0, 1e6), Box(49.0, -20.0, 0.2, 180.0), Box(90.0, 179.0, -90.0, 2.0)]
    plain += [Polygon((Point(-1.3, -1.3), Point(60.2, 0.4), Point(50.4, 9.6), Point(0.7, 2.7)))]
    wide = Range("width", 5, None)
    for field in _ARRAYS[:4]:
        for clause in plain:
            yield from (Element(field, clause), Not(Element(field, clause)), Element(field, Not(clause)))
            yield from (Element(field, And((clause, wide))), Element(field, Or((Not(clause), Not(wide)))))
            yield from (Element(field, Element(inner, clause)) for inner in ("rooms", ""))
        yield Element(field, And((wide, Not(Element("rooms", Range("size", 5, None))))))

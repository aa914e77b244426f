"""The analysis of text, the encodings that keep order, the map, and how a view becomes an index."""

from __future__ import annotations

import pickle
from decimal import Decimal
from math import isnan

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cdc.errors import ConfigurationError
from cdc.pgtypes.instants import parse_date, parse_timestamptz
from search import evaluate
from search.analysis import WORD_CHARACTERS_MAX, analyse, tokens, words
from search.documents import DocumentBuilder
from search.encoding import scaled, scaled_bound, sortable, unscaled, unsortable
from search.explain import explain
from search.geo import Point, crosses_itself, distance_m, in_box, in_polygon, point_of_text
from search.highlights import highlights
from search.index import Geo, decode_row, define
from search.kinds import Kind, date_of, decimal_form, float_form, float_of, text_form, timestamp_of
from search.query import Query
from search.query_parser import parse
from tests.search import market
from views import sqltypes
from views.plan import Field
from views.sinks.sink import ViewShape

decimals = st.decimals(allow_nan=False, places=None, min_value=Decimal("-1e30"), max_value=Decimal("1e30"))


def test_words_are_folded_and_stemmed() -> None:
    assert analyse("Gärten, South-facing; STRASSE/straße").stems == ("garten", "south", "face", "strass", "strass")
    assert words("ﬁne ½ Élan_x1 東京タワー किताब") == ["fine", "1", "2", "elan", "x1", "東京タワー", "किताब"]
    assert words("a" * 500) == ["a" * WORD_CHARACTERS_MAX]
    assert analyse("happy", "english").stems != analyse("happy", "french").stems


@given(st.text(max_size=40))
def test_tokens_are_the_words_and_stand_where_they_say(text: str) -> None:
    found = tokens(text)
    assert [token.word for token in found] == words(text)
    assert [token.stem for token in found] == list(analyse(text).stems)
    for token in found:
        assert token.word in words(text[token.start : token.end])


@given(decimals, decimals)
def test_sortable_numbers_sort_as_numbers_do(one: Decimal, other: Decimal) -> None:
    assert (sortable(one) < sortable(other)) == (one < other)
    assert (sortable(one) == sortable(other)) == (one == other)
    assert unsortable(sortable(one)) == one


def test_the_ends_of_numbers() -> None:
    ordered = ["-Infinity", "-1e9", "-1.23", "-1.2", "-1e-9", "0", "1e-9", "1.2", "1.23", "1e9", "Infinity", "NaN"]
    numbers = [Decimal(text) for text in ordered]
    assert sorted(map(sortable, numbers)) == [sortable(number) for number in numbers]
    assert sorted(map(decimal_form, numbers)) == [decimal_form(number) for number in numbers]
    assert [str(unscaled(scaled(Decimal(end), 2), 2)) for end in ("NaN", "Infinity", "-Infinity")] == [
        "NaN", "Infinity", "-Infinity",
    ]  # fmt: skip
    with pytest.raises(ValueError, match="more digits"):
        sortable(Decimal("1e500000"))


@given(st.decimals(-(10**9), 10**9, places=4))
def test_scaled_numbers_are_exact(number: Decimal) -> None:
    assert unscaled(scaled(number, 4), 4) == number
    up, down = scaled_bound(number, 2, up=True), scaled_bound(number, 2, up=False)
    assert Decimal(down) / 100 <= number <= Decimal(up) / 100
    assert up - down <= 1


@pytest.mark.parametrize("text", ["1.234", "1e17"])
def test_numbers_that_do_not_fit_are_not_bent(text: str) -> None:
    with pytest.raises(ValueError, match="does not fit"):
        scaled(Decimal(text), 2)


@given(st.floats(), st.floats())
def test_floats_as_whole_numbers_keep_their_order(one: float, other: float) -> None:
    if isnan(one):
        assert isnan(float_of(float_form(one)))
        assert isnan(other) or float_form(other) < float_form(one)
    elif not isnan(other):
        assert (float_form(one) < float_form(other)) == (one < other)
        assert float_of(float_form(one)) == one


def test_long_texts_are_equal_when_they_are() -> None:
    one, other = "x" * 1000 + "a", "x" * 1000 + "b"
    assert text_form(one) == text_form(one) != text_form(other)
    assert text_form("short") == "short"
    assert text_form("w") < text_form(one) < text_form("y")


@given(st.dates(), st.datetimes())
def test_the_short_way_to_read_instants(day: object, stamp: object) -> None:
    assert date_of(str(day)) == parse_date(str(day))
    text = str(stamp).replace(" ", "T")
    assert timestamp_of(text) == timestamp_of(f"{text}+00:00") == parse_timestamptz(text)


def test_the_map() -> None:
    paris, london = Point(48.8566, 2.3522), Point(51.5074, -0.1278)
    assert 343_000 < distance_m(paris, london) < 344_500
    assert in_box(Point(0, 179.5), 1, 170, -1, -170)
    assert not in_box(Point(0, 0), 1, 170, -1, -170)
    walls = (Point(0, 0), Point(3, 0), Point(3, 1), Point(1, 1), Point(1, 2), Point(3, 2), Point(3, 3), Point(0, 3))
    assert not crosses_itself(walls)
    assert in_polygon(Point(2, 0.5), walls)
    assert not in_polygon(Point(2, 1.5), walls)
    assert crosses_itself((Point(0, 0), Point(1, 1), Point(0, 1), Point(1, 0)))
    assert point_of_text("(2.35,48.85)") == Point(48.85, 2.35)
    assert point_of_text("(200,0)") is None
    assert point_of_text(None) is None


def test_how_a_view_is_indexed() -> None:
    definition = define(market.shape())
    kinds = {column.name: column.kind for column in definition.columns}
    assert kinds["blob"] is Kind.OPAQUE
    assert kinds["doc"] is Kind.JSON
    assert definition.text == ("title", "city", "odd name.x", "tags")
    assert definition.geo == Geo("lat", "lon")
    fields = definition.mapping()["properties"]
    assert fields["v"]["properties"]["price"] == {"type": "long"}
    assert fields["v"]["properties"]["total"] == {"type": "keyword"}
    assert fields["v"]["properties"]["odd%20;name%2e;x"] == {"type": "keyword"}
    assert "blob" not in fields["v"]["properties"]
    assert pickle.loads(pickle.dumps(definition)) == definition
    assert hash(definition) == hash(define(market.shape()))


def test_options() -> None:
    definition = define(market.shape(text="title", geo="ratio, lon", language="french"))
    assert definition.text == ("title",)
    assert definition.geo == Geo("ratio", "lon")
    assert definition.language == "french"
    for options, what in (
        ({"text": "titel"}, "titel"),
        ({"text": "price"}, "price"),
        ({"geo": "lat"}, "geo"),
        ({"geo": "title, lon"}, "title"),
        ({"language": "klingon"}, "klingon"),
    ):
        with pytest.raises(ConfigurationError, match=what):
            define(market.shape(**options))


def test_a_point_column_is_the_place() -> None:
    fields = (Field("id", sqltypes.BIGINT), Field("at", sqltypes.named("point")))
    definition = define(ViewShape("s", "v", fields, ("id",)))
    row = b'{"id":1,"at":"(2.35,48.85)"}'
    assert DocumentBuilder(definition).document(row)["at"] == [2.35, 48.85]
    assert evaluate.compile(parse("near:48.85,2.35,1m", definition), definition)(decode_row(definition, row))


def test_documents_are_decided_by_the_definition_alone() -> None:
    row = (
        b'{"id":9007199254740993,"price":1.50,"title":"Happy gardens","tags":["Sea view",null],"doc":{"a":[{"b":1.5}]}}'
    )
    document = DocumentBuilder(market.DEFINITION).document(row)
    assert document["row"] == row.decode()
    assert document["v"]["id"] == 9007199254740993
    assert document["v"]["price"] == 150
    assert document["v"]["doc"] == [f"a.b=n{sortable(Decimal('1.5'))}"]
    assert document["s"] == {"title": "happi garden", "tags": ["sea view"], "doc": []}
    assert set(document["w"]["title"].split()) == {"happy", "gardens"}
    assert "at" not in document


@settings(max_examples=50)
@given(market.rows, market.queries)
def test_explanations_agree_with_the_evaluator(row: bytes, query: Query) -> None:
    decoded = decode_row(market.DEFINITION, row)
    explanation = explain(query, decoded, market.DEFINITION)
    assert explanation.matches == evaluate.compile(query, market.DEFINITION)(decoded)
    assert list(explanation.lines())
    for highlight in highlights(query, decoded, market.DEFINITION):
        assert highlight.marked("", "") == highlight.text
        assert highlight.spans


ROOMS = decode_row(
    market.DEFINITION,
    b'{"id":1,"doc":{"photos":[{"kind":"plan","caption":"the sea"},{"kind":"view","caption":"Sea and garden"}]}}',
)


def test_an_explanation_shows_the_nearest_element() -> None:
    def why(text: str) -> list[str]:
        return list(explain(parse(text, market.DEFINITION), ROOMS, market.DEFINITION).lines())

    assert why("doc.photos:(kind:view caption:garden)") == [
        "yes doc.photos:(kind:view caption:garden)   (element 2 of 2)",
        "  yes kind:view caption:garden",
        "    yes kind:view   (view)",
        "    yes caption:garden   (Sea and garden)",
    ]
    assert why("doc.photos:(kind:plan caption:garden)")[:2] == [
        "no  doc.photos:(kind:plan caption:garden)   (element 1 of 2)",
        "  no  kind:plan caption:garden",
    ]
    assert why("doc.rooms:(kind:plan)") == ["no  doc.rooms:(kind:plan)   (nothing)"]


def test_only_elements_that_match_are_highlighted() -> None:
    query = parse("doc.photos:(kind:view caption:sea)", market.DEFINITION)
    assert [(each.field, each.marked()) for each in highlights(query, ROOMS, market.DEFINITION)] == [
        ("doc.photos.kind", "<em>view</em>"),
        ("doc.photos.caption", "<em>Sea</em> and garden"),
    ]


def test_a_json_column_has_another_layout_and_the_others_keep_theirs() -> None:
    without = define(ViewShape("s", "v", (Field("id", sqltypes.BIGINT),), ("id",)))
    assert without.meta()["headwater"]["layout"] == 1
    assert "e" not in without.mapping()["properties"]
    assert market.DEFINITION.meta()["headwater"]["layout"] == 2
    elements = market.DEFINITION.mapping()["properties"]["e"]["properties"]["doc"]
    assert elements["type"] == elements["properties"]["e"]["type"] == "nested"
    assert "e" not in elements["properties"]["e"]["properties"]


def test_a_highlight_of_a_long_text_is_around_what_was_found() -> None:
    text = "word " * 200 + "Gärten am Meer" + " word" * 200
    row = {"title": text}
    [found] = highlights(parse("garten", market.DEFINITION), row, market.DEFINITION)
    assert "<em>Gärten</em> am Meer" in found.marked()
    assert len(found.text) <= 160


def test_what_must_not_be_there_is_not_highlighted() -> None:
    query = parse("house (sea OR -happy)", market.DEFINITION)
    [found] = highlights(query, {"title": "House of the happy"}, market.DEFINITION)
    assert found.marked() == "<em>House</em> of the happy"

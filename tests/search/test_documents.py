"""The fast way to a document gives what the plain one gives, and refuses what it refuses."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
import snowballstemmer
from hypothesis import given, settings
from hypothesis import strategies as st

from search import analysis
from search.analysis import stemmer, stems_of, words
from search.documents import DocumentBuilder
from search.encoding import scaled, scaled_digits
from search.index import IndexDefinition, define
from search.kinds import decimal_of
from tests.search import documents_plain, market
from views import sqltypes
from views.plan import Field
from views.sinks.sink import ViewShape

REFUSED = (ValueError, TypeError, ArithmeticError, msgspec.MsgspecError)
"""What the sink takes for a row that is no document."""
FRENCH = define(market.shape(language="french", text="title", geo="price, total"))
ODD = define(
    ViewShape(
        "s",
        "v",
        (
            Field("a b", sqltypes.TEXT),
            Field("a%20;b", sqltypes.named("numeric(12,2)")),
            Field("whole", sqltypes.numeric(9, 0)),
            Field("prices", sqltypes.array_of(sqltypes.named("numeric(12,2)"))),
            Field("spot", sqltypes.named("point")),
        ),
        ("a b",),
    )
)


def fast(definition: IndexDefinition, row: bytes) -> dict[str, Any]:
    """As it is sent, without what means nothing to the index: nulls, and how often and in which order words stand."""
    made: dict[str, Any] = msgspec.json.decode(DocumentBuilder(definition).encoded(row))
    made["v"] = {name: value for name, value in made["v"].items() if value is not None}
    made["w"] = {name: set(found.split()) for name, found in made["w"].items() if found}
    for element in (each for found in made.get("e", {}).values() for each in found):
        for each in (element, *element.get("e", ())):
            each["w"] = set(each["w"].split())
    return made


def plain(definition: IndexDefinition, row: bytes) -> dict[str, Any]:
    made = documents_plain.document(definition, row)
    made["w"] = {name: found for name, found in made["w"].items() if found}
    return made


def same(definition: IndexDefinition, row: bytes) -> None:
    assert fast(definition, row) == plain(definition, row)


@settings(max_examples=400)
@given(market.rows)
def test_drawn_rows(row: bytes) -> None:
    same(market.DEFINITION, row)
    same(FRENCH, row)


@pytest.mark.parametrize(
    "row",
    [
        *market.SPECIAL_ROWS,
        b"{}",
        b'{"id":null,"price":null,"lat":1,"lon":2,"ratio":-0}',
        b'{"price":"Infinity","loose":1E+5,"total":0.00,"ratio":1e300}',
        '{"title":"Sea\\u00a0view\\u2003gardens,gardens South-facing\\tGärten — \\u1680 x","city":"'.encode()
        + "İstanbul ﬁne ½ straße ".encode() * 5
        + b'"}',
        b'{"title":"' + b"gardens-" * 80 + b'","doc":{"a":"' + b"x" * 300 + b'","b":[1,1,1.0,true]}}',
        b'{"tags":[],"scores":[null],"doc":[]}',
    ],
)
def test_rare_rows(row: bytes) -> None:
    same(market.DEFINITION, row)


@pytest.mark.parametrize(
    "row",
    [
        b'{"a b":"sea views","a%20;b":1.50,"whole":12,"prices":[1.50,null,2],"spot":"(2.35,48.85)"}',
        b'{"a b":null,"a%20;b":-0.01,"whole":"NaN","prices":null,"spot":null}',
        b'{"a%20;b":5,"spot":"(200,0)"}',
    ],
)
def test_odd_names_and_a_column_for_the_map_alone(row: bytes) -> None:
    same(ODD, row)


@pytest.mark.parametrize(
    "row",
    [
        b"{", b'{"price":1.234}', b'{"price":"x"}', b'{"price":[1]}', b'{"price":12345678901234567890.00}',
        b'{"title":5}', b'{"tags":[5]}', b'{"ratio":"x"}', b'{"day":"x"}', b'{"seen":5}', b'{"title":"\xff"}', b"[]",
    ],
)  # fmt: skip
def test_rows_that_do_not_fit(row: bytes) -> None:
    with pytest.raises(REFUSED):
        DocumentBuilder(market.DEFINITION).encoded(row)


@pytest.mark.parametrize(("inner", "most"), [(b"{}", 10_000), (b'{"x":[{}]}', 3_333)])
def test_too_many_elements_are_refused(inner: bytes, most: int) -> None:
    """An element in another one counts twice, so one with one in it three times."""
    builder = DocumentBuilder(market.DEFINITION)
    found = builder.document(b'{"doc":[%b]}' % b",".join([inner] * most))["e"]["doc"]
    assert len([each for each in found if each["path"] == ""]) == most
    with pytest.raises(ValueError, match="more than 10000 objects"):
        builder.document(b'{"doc":[%b]}' % b",".join([inner] * (most + 1)))


@given(st.decimals(-(10**12), 10**12, places=3), st.sampled_from([0, 1, 2, 3, 5]))
def test_digits_are_scaled_as_numbers_are(number: object, scale: int) -> None:
    for text in (str(number), f"{number:.2f}", f"{number:.0f}"):
        try:
            wanted = scaled(decimal_of(text), scale)
        except ValueError:
            with pytest.raises(ValueError, match="does not fit"):
                scaled_digits(text.encode(), scale)
        else:
            assert scaled_digits(text.encode(), scale) == wanted


@pytest.mark.parametrize("language", sorted(analysis.LANGUAGES))
@given(st.from_regex(r"\A[0-9]{1,20}\Z"))
def test_a_number_is_its_own_stem(language: str, number: str) -> None:
    assert snowballstemmer.stemmer(language).stemWord(number) == number == stems_of(language)[number]


@given(st.text(max_size=60))
def test_a_text_is_what_its_pieces_are(text: str) -> None:
    stems, found = stems_of("english"), words(text)
    made = stemmer("english")(text)
    assert made.stems.split(" ") == ([stems[word] for word in found] or [""])
    assert set(made.others.split()) == {word for word in found if stems[word] != word}


def test_pieces_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(analysis, "PIECES_CHARACTERS_CACHED_MAX", 15)
    stemmed = stemmer("danish")
    text = "gardens seas views houses rivers " * 3
    assert (
        stemmed(text).stems
        == stemmer("danish")(text).stems
        == " ".join(map(stems_of("danish").__getitem__, words(text)))
    )

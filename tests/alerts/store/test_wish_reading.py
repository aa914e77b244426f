"""What a person wrote becomes a wish, or is refused with what to write."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from alerts.saved_search import FIELDS
from alerts.wish_reading import read_wish, reread_wish
from cdc.errors import ConfigurationError, HeadwaterError
from search.errors import QueryRefused
from search.index import IndexDefinition, define
from tests.alerts.store.wishes import FIELDS as COLUMNS
from tests.alerts.store.wishes import definition, wish
from views.sinks.sink import ViewShape


def test_defaults() -> None:
    made = wish()
    assert (made.view, made.events, made.channel, made.frequency) == ("listing", ("entered",), "feed", "instant")
    assert made == wish(query="city:paris", events=["entered"])


def test_text_and_json_are_one_query() -> None:
    by_text = wish(query="price:..500 city:paris")
    assert wish(query=by_text.query) == by_text


def test_a_wish_is_read_again_from_its_own_fields() -> None:
    made = wish(
        events=["dropped", "changed"],
        columns=["price"],
        watched_column="price",
        threshold=2.5,
        threshold_unit="percent",
        channel="email",
        target="ada@example.com",
        quiet_from="22:00",
        quiet_to="07:00",
        expires_at="2030-01-01T00:00:00Z",
    )
    assert made.threshold == Decimal("2.5")
    assert read_wish(made.fields(), definition()) == made
    assert set(made.fields()) == set(FIELDS)


@pytest.mark.parametrize(
    ("given", "word"),
    [
        ({"querry": "x"}, "query"),
        ({"query": "prise:1"}, "price"),
        ({"query": {"equals": {"field": "city"}}}, "value"),
        ({"query": "city:\x00"}, "NUL"),
        ({"query": 5}, "one member"),
        ({"events": []}, "at least one"),
        ({"events": ["entered", "entered"]}, "each once"),
        ({"events": ["moved"]}, "events"),
        ({"events": ["dropped"]}, "watched"),
        ({"watched_column": "price"}, "watched"),
        ({"events": ["dropped"], "watched_column": "title"}, "not a number"),
        ({"events": ["dropped"], "watched_column": "prise"}, "did you mean price"),
        ({"events": ["dropped"], "watched_column": "price", "threshold": -1}, "threshold"),
        ({"events": ["dropped"], "watched_column": "price", "threshold": "NaN"}, "threshold"),
        ({"events": ["dropped"], "watched_column": "price", "threshold": 101, "threshold_unit": "percent"}, "100"),
        ({"threshold": 5}, "threshold"),
        ({"columns": ["price"]}, "changed"),
        ({"events": ["changed"], "columns": ["nope"]}, "no column nope"),
        ({"time_zone": "Mars/Olympus"}, "time zone"),
        ({"time_zone": "../etc/passwd"}, "time zone"),
        ({"time_zone": "localtime"}, "time zone"),
        ({"time_zone": "posixrules"}, "time zone"),
        ({"time_zone": "right/Europe/Paris"}, "time zone"),
        ({"digest_hour": 24}, "digest_hour"),
        ({"quiet_from": "22:00"}, "quiet"),
        ({"quiet_from": "7:00", "quiet_to": "08:00"}, "quiet_from"),
        ({"quiet_from": "07:00", "quiet_to": "07:00"}, "quiet"),
        ({"cap_per_day": 0}, "cap_per_day"),
        ({"channel": "pigeon"}, "channel"),
        ({"channel": "email"}, "ada@example.com"),
        ({"channel": "webhook", "target": "ftp://x"}, "https"),
        ({"target": "somewhere"}, "no target"),
        ({"label": "x" * 201}, "label"),
        ({"expires_at": "2030-01-01T00:00:00"}, "timezone"),
        ({"paused": "yes"}, "paused"),
    ],
)
def test_what_is_wrong_is_told(given: dict[str, Any], word: str) -> None:
    with pytest.raises(HeadwaterError) as caught:
        read_wish({"query": "city:paris", **given}, definition())
    assert isinstance(caught.value, ConfigurationError | QueryRefused)
    assert word in str(caught.value)


def test_a_mail_address_is_spelled_one_way() -> None:
    assert wish(channel="email", target="Ada@Example.COM").target == "ada@example.com"
    assert wish(channel="webhook", target="https://example.com/Hook").target == "https://example.com/Hook"


def without_price() -> IndexDefinition:
    return define(ViewShape("market", "listing", tuple(each for each in COLUMNS if each.name != "price"), ("id",)))


def gone() -> IndexDefinition:
    raise ConfigurationError("no view listing")


def test_what_is_not_changed_is_not_read_again() -> None:
    """A view that lost a column, or is gone, is asked about what is given alone."""
    broken = wish(query="price:..500", events=["dropped"], watched_column="price", threshold=5)
    for given in (
        {"paused": True},
        {"label": "Paris"},
        {"expires_at": None},
        {"query": broken.query},
        {"events": ["rose"]},
    ):
        changed = reread_wish(broken, given, gone)
        assert changed == wish(**{**broken.fields(), **given})
    mended = reread_wish(broken, {"query": "city:paris"}, without_price)
    assert mended.query == wish(query="city:paris").query
    none = {"events": ["entered"], "watched_column": None, "threshold": None}
    assert reread_wish(mended, none, without_price) == wish(query="city:paris")
    for given, word in (({"query": "price:..400"}, "price"), ({"querry": "x"}, "querry"), ({"label": 5}, "label")):
        with pytest.raises(HeadwaterError, match=word):
            reread_wish(broken, given, without_price)
    with pytest.raises(ConfigurationError, match="no column price"):
        reread_wish(wish(), {"events": ["rose"], "watched_column": "price"}, without_price)

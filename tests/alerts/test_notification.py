"""Renderings: what strangers wrote into rows stays text."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.notification import Event, Item, MatchedSearch, Notification
from alerts.notification_html import as_html
from alerts.notification_json import payload, restored, stored
from alerts.notification_text import as_text
from alerts.notification_words import COLUMNS_SHOWN_MAX, ITEMS_SHOWN_MAX, SUBJECT_CHARACTERS_MAX, subject, told
from cdc.errors import ConfigurationError, DecodeError
from tests.alerts.samples import BEGAN_AT, item, notification

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.decimals(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
rows = st.dictionaries(st.text(), values, max_size=5)
items = st.builds(
    Item,
    st.text(),
    rows,
    st.sampled_from(Event),
    st.none() | rows,
    st.none() | rows,
    st.lists(st.builds(MatchedSearch, st.text(), st.text(), st.text()), max_size=2).map(tuple),
)
notifications = st.builds(
    lambda each: Notification("msg_1", "ada", 1, BEGAN_AT, tuple(each), "https://headwater.example/u/1"),
    st.lists(items, max_size=4),
)


@given(notifications)
def test_stored_and_restored(made: Notification) -> None:
    assert restored(stored(made)) == made


@given(notifications)
def test_the_payload_is_the_same_every_time(made: Notification) -> None:
    assert payload(made) == payload(restored(stored(made)))
    assert json.loads(payload(made))["data"]["id"] == "msg_1"


def test_exact_numbers_stay_exact() -> None:
    exact = Item("v", {"id": 1}, Event.ENTERED, {"price": Decimal("0.10")})
    assert b'"price":0.10' in payload(notification("m", 1, exact))


@pytest.mark.parametrize("number", ["12345678901234567.89", "0.10", "1E+400", "-7.5"])
def test_a_stored_number_is_told_digit_by_digit(number: str) -> None:
    row = {"price": Decimal(number), "parts": [Decimal(number)]}
    found = restored(stored(notification("m", 1, Item("v", {"id": 1}, Event.DROPPED, row, {"price": 2}))))
    assert f'"after":{{"price":{number},"parts":[{number}]}}'.encode() in payload(found)
    assert f"price: 2 → {number}\n  parts: – → [{number}]\n" in as_text(found)
    assert f"<td>2 → {number}</td></tr><tr><td>parts</td><td>– → [{number}]</td>" in as_html(found)


@pytest.mark.parametrize(
    "body", ["", "[]", '{"id": "a b"}', stored(notification()).decode().replace("450000", "1e" + "9" * 30)]
)
def test_what_is_no_notification_is_said_so(body: str) -> None:
    with pytest.raises(DecodeError, match="cannot be read"):
        restored(body.encode())


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, list[tuple[str, str | None]]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, attrs))


ALLOWED = {"html", "head", "meta", "title", "body", "h3", "small", "table", "tr", "td", "p", "a"}


@given(notifications)
def test_no_row_makes_a_tag(made: Notification) -> None:
    tags = _Tags()
    tags.feed(as_html(made))
    assert {tag for tag, _ in tags.seen} <= ALLOWED
    links = [attributes for tag, attributes in tags.seen if tag == "a"]
    assert links == [[("href", "https://headwater.example/u/1")]]


def test_markup_in_a_row_is_shown_as_text() -> None:
    bad = Item("v", {"id": 1}, Event.ENTERED, {"title": "<script>alert(1)</script>", "x": '"><img src=y>'})
    page = as_html(notification("m", 1, bad))
    assert "<script" not in page
    assert "<img" not in page
    assert "&lt;script&gt;" in page


@given(notifications)
def test_a_subject_is_one_short_line(made: Notification) -> None:
    line = subject(made)
    assert len(line) <= SUBJECT_CHARACTERS_MAX
    assert line.splitlines() in ([line], [])


@given(notifications)
def test_a_text_has_the_link_last(made: Notification) -> None:
    assert as_text(made).endswith("-- \nStop these messages: https://headwater.example/u/1\n")


def test_many_items() -> None:
    many = notification("m", 1, *(item(number) for number in range(ITEMS_SHOWN_MAX + 7)))
    assert "… and 7 more" in as_text(many)
    assert "… and 7 more" in as_html(many)
    assert subject(many) == "Under half a million: 57 matches"


@pytest.mark.parametrize("items", [2, ITEMS_SHOWN_MAX + 7])
def test_items_that_were_left_out_are_told(items: int) -> None:
    cut = replace(notification("m", 1, *(item(number) for number in range(items))), items_left_out=480)
    found = restored(stored(cut))
    more = f"… and {items + 480 - min(items, ITEMS_SHOWN_MAX)} more"
    assert (more in as_text(found), more in as_html(found)) == (True, True)
    assert subject(found) == f"Under half a million: {items + 480} matches"
    assert json.loads(payload(found))["data"]["items_left_out"] == 480


def test_a_message_of_nothing_but_a_count() -> None:
    cut = replace(notification(), items=(), items_left_out=1)
    assert subject(cut) == "1 match"
    assert as_text(cut).startswith("… and 1 more\n")


def test_what_changed_comes_first_with_both_values() -> None:
    before = {"id": 7, **{f"c{number}": 0 for number in range(20)}, "price": 450_000}
    dropped = Item("v", {"id": 7}, Event.DROPPED, {**before, "price": 400_000}, before)
    words = told(dropped)
    assert words.facts[0] == ("price", "450000 → 400000")
    assert len(words.facts) == COLUMNS_SHOWN_MAX
    assert (words.title, words.event) == ("v 7", "dropped")


def test_a_row_that_is_gone_is_named_by_what_it_was() -> None:
    gone = Item("v", {"id": 7}, Event.LEFT, None, {"id": 7, "name": "Old mill"})
    assert subject(notification("m", 1, gone)) == "Old mill: no longer there"


@pytest.mark.parametrize("id_", ["", "a.b", "a\r\nb", "é", "x" * 101, "a b"])
def test_an_id_that_could_be_forged(id_: str) -> None:
    with pytest.raises(ConfigurationError):
        notification(id_)


def test_the_link_is_not_in_the_repr() -> None:
    assert "token" not in repr(notification())

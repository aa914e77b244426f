"""A sink beside its topic by numbers of rows: the same verdicts as with the rows themselves, and none of them held."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.views import row_numbers
from headwater.views.row_numbers import Newest, by_value, numbers_of
from headwater.views.row_values import row_values
from headwater.views.verify_sinks import SinkVerified, verify_sink
from tests.headwater.test_row_values import DIFFERENT, EQUAL
from tests.sinks.places import TOPIC, MemoryKind, MemoryPlace, MemorySink, gone, shape, upsert
from views.sinks.sink import Change, Mark
from views.store import ViewStore

KNOWN = shape("lab")
NUMBERS = st.sampled_from(["0", "-0.00", "1", "1.0", "10", "1e1", "1E+1", "-1", "-2", "0.1", "1e-1", "100e-3"])
JSON = st.recursive(
    NUMBERS | st.sampled_from(["true", "false", "null", '""', '"1"', '"1.0"']),
    lambda inner: (
        st.lists(inner, max_size=3).map(lambda each: f"[{','.join(each)}]")
        | st.dictionaries(st.sampled_from(["a", "b"]), inner).map(
            lambda each: "{" + ",".join(f'"{name}":{value}' for name, value in each.items()) + "}"
        )
    ),
    max_leaves=4,
)


@dataclass
class Said:
    """A view's topic in memory."""

    changes_made: list[Change] = field(default_factory=list)
    read: list[tuple[int, int]] = field(default_factory=list)

    def changes(self, start: int, end: int) -> Iterator[list[Change]]:
        self.read.append((start, end))
        yield from ([each] for each in self.changes_made if start <= each.version < end)

    def end(self) -> int:
        return max((each.version + 1 for each in self.changes_made), default=0)


def verified(sink: MemorySink, topic: Any, **given: Any) -> SinkVerified:
    return verify_sink("memory", sink, ViewStore("items", KNOWN.fields, KNOWN.key), topic, **given)


def made(changes: list[Change], next_offset: int) -> tuple[MemorySink, MemoryPlace, Said]:
    place = MemoryPlace()
    sink = MemoryKind(place).open(KNOWN, 1)
    sink.apply([each for each in changes if each.version < next_offset], Mark(TOPIC, next_offset))
    return sink, place, Said(changes)


@given(JSON, JSON)
def test_rows_have_the_same_number_just_when_their_values_are_equal(one: str, other: str) -> None:
    left, right = f'{{"n":{one}}}'.encode(), f'{{"n":{other}}}'.encode()
    assert (by_value(left) == by_value(right)) == (row_values(left) == row_values(right))


@pytest.mark.parametrize(("one", "other"), [*EQUAL, *DIFFERENT])
def test_of_long_numbers_too(one: bytes, other: bytes) -> None:
    assert (by_value(one) == by_value(other)) == (row_values(one) == row_values(other))


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), max_size=60))
def test_the_newest_row_of_a_key_counts(said: list[tuple[int, int]]) -> None:
    found = Newest()
    for key, row in said:
        found.add(numbers_of([b"%d" % key]), numbers_of([b"%d" % row]))
        if row % 7 == 0:
            found.settle()
    found.settle()
    newest = dict(said)
    wanted = [hash(b"%d" % newest[key]) if key in newest else row_numbers.NONE for key in range(10)]
    assert found.rows_of(numbers_of(b"%d" % key for key in range(10))).tolist() == wanted


@given(st.data())
def test_the_verdict_on_each_row(data: st.DataObject) -> None:
    """Beside the plain way: a dict of what may be there for each key."""
    ids, labels = st.integers(1, 4), st.sampled_from("ab")
    said = [
        upsert(data.draw(ids), version, data.draw(labels), "1.50")
        if data.draw(st.booleans())
        else gone(data.draw(ids), version)
        for version in range(data.draw(st.integers(0, 8)))
    ]
    row: dict[bytes, bytes | None] = {}
    for number, each in enumerate(said):
        said[number] = each._replace(before=row.get(each.key))
        row[each.key] = each.after
    upto = data.draw(st.integers(0, len(said)))
    sink, place, topic = made([], 0)
    place.marks["items", 1] = Mark(TOPIC, upto)
    topic.changes_made = said
    held = {
        each.key: each.after
        for id_ in data.draw(st.sets(ids))
        for each in [upsert(id_, 0, data.draw(labels), data.draw(st.sampled_from(["1.5", "1.50", "2"])))]
    }
    place.rows["items", 1] = {key: (0, after) for key, after in held.items()}
    last = {each.key: each.after for each in said[:upto]}
    wrong = set()
    for key in {*last, *held}:
        here, there = held.get(key), last.get(key)
        may_be = [there, *(each.after for each in said[upto:] if each.key == key)]
        if values(here) not in map(values, may_be):
            wrong.add(("missing" if here is None else "extra" if there is None else "different", key.decode()))
    found = verified(sink, topic)
    assert set(found.wrong) == wrong
    assert len(found.wrong) == len(wrong) == found.missing + found.extra + found.different
    assert found.rows == len(held)


def values(row: bytes | None) -> object:
    return None if row is None else json.loads(row)


def test_the_topic_is_read_once_where_all_is_equal() -> None:
    sink, _, topic = made([upsert(1, 0), upsert(2, 1)], 2)
    assert verified(sink, topic).is_equal
    assert topic.read == [(0, 2)]


def test_a_row_that_a_letter_holds_is_counted_apart_and_another_is_shown() -> None:
    sink, place, topic = made([upsert(number, number) for number in range(4)], 4)
    for number in (1, 2):
        place.rows["items", 1][b'{"id":%d}' % number] = (9, upsert(number, 9, "wrong").after)
    found = verified(sink, topic, held=lambda: [b'{"id":1}'])
    assert (found.held, found.different, found.wrong) == (1, 1, (("different", '{"id":2}'),))


def test_of_many_that_differ_all_are_counted_and_some_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.views.verify_sinks.WRONG_MAX", 3)
    sink, place, topic = made([upsert(number, number) for number in range(9)], 9)
    place.rows["items", 1].clear()
    found = verified(sink, topic, examples=2)
    assert (found.missing, found.rows, len(found.examples), len(found.wrong)) == (9, 0, 2, 3)
    assert verified(sink, topic, allowed=["missing"]).is_equal


def test_long_rows_need_no_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """20 MB in the topic, and none of it read the same in the sink."""
    number, size = 200, 100_000

    class Long(MemorySink):
        def rows(self) -> Iterator[bytes]:
            for each in range(number):
                yield upsert(each, each, "x" * size, "1.5").after or b""

    class LongTopic(Said):
        def changes(self, start: int, end: int) -> Iterator[list[Change]]:
            for each in range(start, end):
                yield [upsert(each, each, "x" * size, "1.50")]

        def end(self) -> int:
            return number

    place = MemoryPlace(marks={("items", 1): Mark(TOPIC, number)})
    monkeypatch.setattr("headwater.views.verify_sinks.CHUNK_ROWS", 5)
    tracemalloc.start()
    try:
        assert verified(Long(place, ("items", 1)), LongTopic()).is_equal
        assert tracemalloc.get_traced_memory()[1] < number * size / 4
    finally:
        tracemalloc.stop()

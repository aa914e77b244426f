"""A sink that is not what its view's topic says is found out, row by row; one that moves meanwhile is not blamed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc.errors import ViewError
from headwater.views.verify_sinks import SinkVerified, verify_sink
from tests.sinks.places import MemoryKind, MemoryPlace, MemorySink, Publisher, gone, shape, upsert
from views.sinks.following import ViewTopic
from views.sinks.sink import Mark
from views.store import ViewStore

pytestmark = pytest.mark.stack

ID = {"missing": 1, "extra": 3, "different": 2}


@pytest.fixture
def place() -> MemoryPlace:
    return MemoryPlace()


@pytest.fixture
def sink(place: MemoryPlace, published: Publisher) -> MemorySink:
    """Filled, and equal."""
    sink = MemoryKind(place).open(shape("lab"), 1)
    delivery = published.epoch(upsert(1, 0, "a"), upsert(2, 0, "b"), upsert(3, 0, "c"), gone(3, 0))
    sink.apply(delivery.changes or [], delivery.mark)
    return sink


def verified(sink: MemorySink, published: Publisher) -> SinkVerified:
    known = shape("lab")
    return verify_sink(
        "memory", sink, ViewStore("items", known.fields, known.key), ViewTopic(published.kafka, published.topic)
    )


def test_equal(sink: MemorySink, published: Publisher) -> None:
    found = verified(sink, published)
    assert found.is_equal
    assert found.rows == 2


def test_numbers_may_be_printed_with_other_zeros(sink: MemorySink, place: MemoryPlace, published: Publisher) -> None:
    place.rows["items", 1][b'{"id":1}'] = (0, b'{"id":1,"label":"a","price":1.5}')
    assert verified(sink, published).is_equal


@pytest.mark.parametrize("wrong", ["missing", "extra", "different"])
def test_what_is_wrong_is_named(sink: MemorySink, place: MemoryPlace, published: Publisher, wrong: str) -> None:
    rows = place.rows["items", 1]
    if wrong == "missing":
        del rows[b'{"id":1}']
    elif wrong == "extra":
        rows[b'{"id":3}'] = (9, upsert(3, 9, "back").after)
    else:
        rows[b'{"id":2}'] = (9, upsert(2, 9, "wrong").after)
    found = verified(sink, published)
    assert (getattr(found, wrong), found.is_equal) == (1, False)
    assert found.examples == (f'{wrong} {{"id":{ID[wrong]}}}',)


def test_a_row_that_changes_meanwhile_may_be_old_or_new(
    sink: MemorySink,
    place: MemoryPlace,
    published: Publisher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = sink.rows

    def rows() -> Iterator[bytes]:
        yield from list(real())
        delivery = published.epoch(upsert(1, 0, "newer"), gone(2, 0))
        sink.apply(delivery.changes or [], delivery.mark)

    monkeypatch.setattr(sink, "rows", rows)
    assert verified(sink, published).is_equal


def test_rows_are_there_a_moment_before_the_mark_says_so(
    sink: MemorySink, place: MemoryPlace, published: Publisher
) -> None:
    delivery = published.epoch(upsert(1, 0, "newer"), gone(2, 0))
    sink.apply(delivery.changes or [], place.marks["items", 1])
    assert verified(sink, published).is_equal


def test_a_sink_that_is_not_filled(published: Publisher) -> None:
    with pytest.raises(ViewError, match="is not filled"):
        verified(MemoryKind(MemoryPlace()).open(shape("lab"), 1), published)


def test_a_sink_that_is_filled_anew_meanwhile(
    sink: MemorySink,
    place: MemoryPlace,
    published: Publisher,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def rows() -> Iterator[bytes]:
        place.marks["items", 1] = Mark(published.topic_id, 1)
        yield from ()

    monkeypatch.setattr(sink, "rows", rows)
    with pytest.raises(ViewError, match="filled anew"):
        verified(sink, published)

"""Versions of rows from a real warehouse, on disk: those since an instant, each with what was there before."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from headwater.view_history import read_history
from tests.alerts.store.wishes import FIELDS
from views.sinks.sink import Change, Mark, ViewShape
from views.sinks.warehouse import WarehouseKind

SHAPE = ViewShape("market", "listing", FIELDS, ("id",))
START = datetime(2026, 6, 1, tzinfo=UTC)


def full(id_: int, price: str | None) -> bytes:
    return (
        f'{{"id":{id_},"title":"Flat","city":"paris","price":{price or "null"},"bedrooms":null,"tags":["a"]}}'.encode()
    )


def filled(folder: Path, built_at: datetime | None = None) -> None:
    """A snapshot, whose commits nobody knows unless others came with it, then a change an hour."""
    kind = WarehouseKind(str(folder), 0.0)
    sink = kind.open(SHAPE, 1)
    sink.prepare()
    first = [Change(b'{"id":1}', full(1, "100.00"), 0), Change(b'{"id":2}', full(2, "7.50"), 1)]
    built_at_us = None if built_at is None else int(built_at.timestamp() * 1e6)
    published_at_us = time.time_ns() // 1000
    built = Mark("t", 2, era=1, committed_at_us=built_at_us, published_at_us=published_at_us if built_at_us else 0)
    refused = sink.apply(first, built)
    hours: list[tuple[int, bytes | None]] = [
        (1, full(1, "90.00")),
        (1, full(1, "80.00")),
        (3, full(3, None)),
        (2, None),
    ]
    for hour, (id_, after) in enumerate(hours):
        at_us = int((START + timedelta(hours=hour)).timestamp() * 1e6)
        mark = Mark("t", hour + 3, 0, 1, hour + 10, f"0/{hour + 1}", at_us, published_at_us)
        refused += sink.apply([Change(json.dumps({"id": id_}).encode(), after, hour + 2)], mark)
    assert refused == []
    kind.switch("market", "listing", 1)


def found(folder: Path, since: datetime, most: int = 100) -> list[tuple[int, float | None, bool]]:
    past = read_history(folder, SHAPE, since, most)
    assert past is not None
    return [
        (each.key[0], None if each.row is None else json.loads(each.row)["price"], each.is_news)
        for each in past.versions
    ]


def test_what_changed_since_with_what_was_there_before(tmp_path: Path) -> None:
    filled(tmp_path)
    assert found(tmp_path, START) == [
        (1, 100, False), (1, 90, True), (1, 80, True), (2, 7.5, False), (2, None, True), (3, None, True),
    ]  # fmt: skip
    assert found(tmp_path, START + timedelta(hours=1)) == [
        (1, 90, False), (1, 80, True), (2, 7.5, False), (2, None, True), (3, None, True),
    ]  # fmt: skip
    assert found(tmp_path, START + timedelta(hours=9)) == []


def test_what_a_view_was_built_with_is_no_news(tmp_path: Path) -> None:
    filled(tmp_path, START - timedelta(minutes=1))
    assert found(tmp_path, START - timedelta(days=7)) == [
        (1, 100, False), (1, 90, True), (1, 80, True), (2, 7.5, False), (2, None, True), (3, None, True),
    ]  # fmt: skip


def test_what_was_made_of_rows_without_a_change_is_no_news(tmp_path: Path) -> None:
    """Of a view that was defined anew, say. Each row is compared with what it was made to be, afterwards."""
    filled(tmp_path)
    sink = WarehouseKind(str(tmp_path), 0.0).open(SHAPE, 1)
    at_us = int((START + timedelta(hours=5)).timestamp() * 1e6)
    made = [
        Change(b'{"id":4}', full(4, "1.00"), 6, is_silent=True),
        Change(b'{"id":5}', full(5, "1.00"), 8, is_silent=True),
    ]
    news = Change(b'{"id":4}', full(4, "2.00"), 10)
    mark = Mark("t", 11, 0, 1, 20, "0/9", at_us, time.time_ns() // 1000)
    assert sink.apply([*made, news], mark) == []
    since = START + timedelta(hours=5)
    assert found(tmp_path, since) == [(4, 1, False), (4, 2, True), (5, 1, False)]
    sink.apply(
        [Change(b'{"id":5}', full(5, "3.00"), 11)], Mark("t", 12, 0, 1, 21, "0/A", at_us, time.time_ns() // 1000)
    )
    assert found(tmp_path, since)[-1] == (5, 3, True)


def test_rows_are_as_the_topic_has_them(tmp_path: Path) -> None:
    filled(tmp_path)
    past = read_history(tmp_path, SHAPE, START + timedelta(hours=3), 10)
    assert past is not None
    [before, _] = past.versions
    assert before.row == full(2, "7.50")


def test_too_many_versions_shorten_the_time(tmp_path: Path) -> None:
    filled(tmp_path)
    past = read_history(tmp_path, SHAPE, START, 2)
    assert past is not None
    assert START + timedelta(hours=1) < past.since <= START + timedelta(hours=2)
    assert sum(each.is_news for each in past.versions) == 2


def test_a_view_that_is_not_there(tmp_path: Path) -> None:
    assert read_history(tmp_path, SHAPE, START, 10) is None


def test_versions_say_when_they_were_committed(tmp_path: Path) -> None:
    filled(tmp_path)
    past = read_history(tmp_path, SHAPE, START, 100)
    assert past is not None
    assert [each.committed_at for each in past.versions if each.key == (1,) and each.is_news] == [
        START, START + timedelta(hours=1)
    ]  # fmt: skip

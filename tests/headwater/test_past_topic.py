"""Where a point of the past lies in a view's topic, over every point there is: the same as looking at each record."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import msgspec
import pytest

from cdc.errors import ViewError
from cdc.position import Lsn, Position
from cdc.reader import Raw
from headwater.views import past_topic
from headwater.views.past import _net
from headwater.views.past_topic import bound_of, of_key, position_before, told
from views.maintain.publisher import Frontier
from views.sinks.following import ViewTopic

HOUR_US = 3_600 * 1_000_000


@dataclass(frozen=True)
class MemoryTopic:
    """A topic with the holes that transactions leave."""

    raws: tuple[Raw, ...]

    def records(self, start: int, end: int) -> Iterator[list[Raw]]:
        yield [raw for raw in self.raws if start <= raw.offset < end]

    def end(self) -> int:
        return self.raws[-1].offset + 1


def topic(epochs: int, at_us: int) -> ViewTopic:
    """Two records an epoch, a marker after them; the third epoch deletes, with a tombstone."""
    raws: list[Raw] = []
    for epoch in range(epochs):
        for key in (1, 2):
            gone = epoch % 3 == 2 and key == 2
            value = {
                "before": {"id": key, "n": epoch - 1} if epoch else None,
                "after": None if gone else {"id": key, "n": epoch},
                "position": str(Position(7, 100 + 10 * epoch)),
                "lsn": str(Lsn(1000 + 10 * epoch)),
                "committed_at_us": at_us + epoch * 1_000_000,
                "published_at_us": at_us + epoch * 1_000_000 + 500,
            }
            offset = raws[-1].offset + 1 if raws else 0
            offset += 1 if key == 1 and epoch else 0
            raws.append(Raw(offset, 0, b'{"id":%d}' % key, msgspec.json.encode(value)))
            if gone:
                raws.append(Raw(offset + 1, 0, b'{"id":2}', None))
    return cast("ViewTopic", MemoryTopic(tuple(raws)))


def frontier(of: ViewTopic, epochs: int) -> Frontier:
    last = epochs - 1
    return Frontier("v", 7, 100 + 10 * last, str(Lsn(1000 + 10 * last)), 0, 0, "g", of.end())


@pytest.mark.parametrize("near", [1, 5, 2_000])
def test_a_point_is_found_wherever_it_lies(monkeypatch: pytest.MonkeyPatch, near: int) -> None:
    monkeypatch.setattr(past_topic, "_NEAR_RECORDS", near)
    now_us = int(time.time() * 1e6)
    found = topic(20, now_us)
    raws = [raw for [*piece] in found.records(0, found.end()) for raw in piece]
    for epoch in range(20):
        after = [raw.offset for raw in raws if (each := told(raw)) and each.position > Position(7, 100 + 10 * epoch)]
        points = (
            Position(7, 100 + 10 * epoch),
            Position(7, 109 + 10 * epoch),
            Lsn(1000 + 10 * epoch),
            datetime.fromtimestamp(now_us / 1e6 + epoch + 0.5, UTC),
        )
        for point in points if epoch < 19 else points[::2]:
            bound = bound_of(found, frontier(found, 20), point)
            assert bound.is_whole
            later = [raw.offset for raw in raws if told(raw) and raw.offset >= bound.offset]
            assert later == after, (epoch, point)


def test_what_is_older_than_a_day_may_not_be_whole() -> None:
    old = topic(6, int(time.time() * 1e6) - 30 * HOUR_US)
    assert not bound_of(old, frontier(old, 6), Lsn(1020)).is_whole
    assert bound_of(old, frontier(old, 6), Lsn(1050)).is_whole, "nothing came after it"
    with pytest.raises(ViewError, match="does not reach back"):
        bound_of(old, frontier(old, 6), Lsn(999))
    with pytest.raises(ViewError, match="does not include"):
        bound_of(old, frontier(old, 6), Lsn(1051))
    assert bound_of(old, frontier(old, 6), None).offset == old.end()


def test_a_key_and_the_epoch_before() -> None:
    found = topic(4, 0)
    mine = list(of_key(found, 0, found.end(), b'{"id":2}'))
    assert [each.change.after is None for each in mine] == [False, False, True, False], "tombstones say nothing more"
    assert position_before(found, mine[2], 0) == Position(7, 110)
    many = cast("ViewTopic", MemoryTopic(tuple(Raw(n, 0, b"", _at(9 if n < 4 else 10)) for n in range(3_000))))
    last = told(Raw(2_999, 0, b"", _at(10)))
    assert last is not None
    assert position_before(many, last, 0) == Position(7, 9), "however many an epoch has"
    assert position_before(found, mine[0], 0) is None


def _at(offset: int) -> bytes:
    return msgspec.json.encode(
        {"position": str(Position(7, offset)), "lsn": "0/1", "committed_at_us": 0, "published_at_us": 0}
    )


def test_what_changed_over_all() -> None:
    found = topic(4, 0)
    pairs = list(_net(found, 2, found.end()))
    assert pairs == [(b'{"id":1,"n":0}', b'{"id":1,"n":3}'), (b'{"id":2,"n":0}', b'{"id":2,"n":3}')]

"""Whatever compaction took away before a topic was read, from `whole_from` on the view is what it was."""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from views.sinks import wholeness
from views.sinks.wholeness import WHOLE_MS, Read, lost, read_on, records_between

HOUR_US = 3_600_000_000
WHOLE_H = WHOLE_MS // 3_600_000


@pytest.mark.parametrize(
    ("start", "end", "rows", "all_from", "records"),
    [
        (0, 100, 7, 0, 100),  # nothing was compacted yet
        (0, 518_000_000, 1_000_000, 484_000_000, 35_000_000),  # 30 days of changes, of two of which all are there
        (0, 518_000_000, 1_000_000, 518_000_000, 1_000_000),
        (90, 100, 7, 50, 10),
        (0, 100, 7, 200, 7),
        (100, 100, 7, 50, 0),
    ],
)
def test_a_compacted_topic_has_fewer_records_than_offsets(
    start: int, end: int, rows: int, all_from: int, records: int
) -> None:
    assert records_between(start, end, rows, all_from) == records


class Version(NamedTuple):
    offset: int
    key: int
    is_there: bool
    at_h: int


@st.composite
def topics(draw: st.DrawFn) -> list[Version]:
    """Epochs of some versions, a mark of Kafka's after each, hours apart."""
    made: list[Version] = []
    offset, at_h = 0, 0
    for _ in range(draw(st.integers(1, 8))):
        at_h += draw(st.integers(0, 30))
        for _ in range(draw(st.integers(1, 3))):
            made.append(Version(offset, draw(st.integers(0, 2)), draw(st.booleans()), at_h))
            offset += 1
        offset += 1
    return made


def compacted(topic: list[Version], now_h: int, *, with_deletions: bool) -> list[Version]:
    """As much as Kafka may take: what a newer version replaced, once it is old enough. Deletions go later; who has read
    some, and comes after that, has rows that nobody takes back, which is not what this is about."""
    old = [each for each in topic if each.at_h <= now_h - WHOLE_H]
    newest = {each.key: each for each in old}
    return [
        each
        for each in topic
        if each not in old or (newest[each.key] == each and (each.is_there or not with_deletions))
    ]


def view(topic: list[Version], before: int) -> dict[int, int]:
    newest = {each.key: each for each in topic if each.offset < before}
    return {key: each.offset for key, each in newest.items() if each.is_there}


@given(topics(), st.lists(st.integers(0, 40), min_size=1, max_size=4), st.data())
def test_a_history_is_right_from_where_it_says(topic: list[Version], pauses: list[int], data: st.DataObject) -> None:
    """Read in some goes, hours apart, each up to anywhere; who is not at the end is asked nothing."""
    known, held = Read(0, 0, 0), list[Version]()
    now_h = 0
    for pause in pauses:
        now_h += pause
        there = [each for each in compacted(topic, now_h, with_deletions=not held) if each.at_h <= now_h]
        all_of_it = max([each.offset + 1 for each in topic if each.at_h <= now_h], default=0)
        end = data.draw(st.sampled_from([all_of_it, data.draw(st.integers(known.next_offset, all_of_it))]))
        told = [each for each in there if known.next_offset <= each.offset < end]
        known = read_on(known, [(each.offset, each.at_h * HOUR_US) for each in told], end, now_h * HOUR_US + 1)
        held += told
        for before in range(known.whole_from, end + 1) if end == all_of_it else ():
            assert view(held, before) == view(topic, before)


@given(topics(), st.lists(st.integers(0, 60), min_size=1, max_size=4), st.data())
def test_what_was_lost_is_said_and_nothing_else(topic: list[Version], pauses: list[int], data: st.DataObject) -> None:
    """By who must see each version: read in some goes, with the time in which what is missing was published."""
    gaps = [each.offset - before.offset > 1 for before, each in pairwise(topic)]
    at_us = {each.offset: each.at_h * HOUR_US + sum(gaps[:n]) for n, each in enumerate(topic)}
    known, now_h = (0, 0), 0
    for pause in pauses:
        now_h += pause
        now_us = now_h * HOUR_US + 1_000
        all_of_it = max([each.offset + 1 for each in topic if each.at_h <= now_h], default=0)
        left = [each.offset for each in compacted(topic, now_h, with_deletions=True) if each.offset >= known[0]]
        end = data.draw(st.sampled_from([*(offset + 1 for offset in left if offset < all_of_it), all_of_it]))
        there = [offset for offset in left if offset < end]
        found = lost(known, [(offset, at_us[offset]) for offset in there], (end, now_us), now_us)
        missed = [each.offset for each in topic if known[0] <= each.offset < end and each.offset not in there]
        assert (found is not None) == bool(missed)
        for offset in missed if found is not None else ():
            assert found.from_us <= at_us[offset] <= found.until_us
        known = end, max([known[1], *(at_us[offset] for offset in there)])


def test_what_is_read_in_time_is_whole_however_long_nothing_came() -> None:
    known = read_on(Read(0, 0, 0), [(0, HOUR_US), (1, HOUR_US)], 2, 2 * HOUR_US)
    assert known.whole_from == 0
    later = read_on(known, [(3, 100 * HOUR_US)], 4, 101 * HOUR_US)
    assert later.whole_from == 0
    assert read_on(known, [(5, 100 * HOUR_US)], 6, 101 * HOUR_US).whole_from == 5, "something may have come and gone"
    assert read_on(later, [(9, 102 * HOUR_US)], 10, 103 * HOUR_US).whole_from == 0, "nothing so young is gone"
    assert read_on(Read(0, 0, 0), [(0, HOUR_US)], 1, 101 * HOUR_US).whole_from == 1


@pytest.mark.parametrize(
    ("first", "may"),
    [
        ((50, 0), False),
        ((51, 0), False),
        ((52, 0), True),
        ((50, -wholeness.DELETIONS_MS - 1), True),
        (None, True),
    ],
    ids=["the next", "behind a commit", "one is gone", "old", "nothing is left"],
)
def test_who_stood_still_may_lack_deletions(first: tuple[int, int] | None, may: bool) -> None:
    now_ms = 1_800_000_000_000
    met = None if first is None else (first[0], now_ms + first[1])
    assert wholeness.may_lack_deletions(50, met, now_ms) is may

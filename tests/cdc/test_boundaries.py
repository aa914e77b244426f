"""Epochs end at transaction boundaries, for any log, limit and timing: over a log in memory, with many examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc import boundaries
from cdc.boundaries import EpochEnd, Mark, epoch_end, is_whole_start, whole_start


@dataclass
class MemoryLog:
    """Records by offset; offsets without one are Kafka's markers and aborted records."""

    records: list[tuple[int, Mark]] = field(default_factory=list)
    groups: list[list[int]] = field(default_factory=list)
    """The offsets of each complete transaction (or row outside one)."""
    high: int = 0
    scanned: list[int] = field(default_factory=list)

    def scan(self, start: int, end: int) -> Iterator[tuple[int, Mark]]:
        for offset, mark in self.records:
            if start <= offset < end:
                self.scanned.append(offset)
                yield offset, mark

    def put(self, *marks: Mark) -> list[int]:
        offsets = list(range(self.high, self.high + len(marks)))
        self.records += zip(offsets, marks, strict=True)
        self.high += len(marks)
        return offsets

    def transaction(self, rows: int, gaps: int = 0, closes: Mark = Mark.CLOSES) -> None:
        """Kafka's own transactions may end anywhere, so markers occur inside too."""
        opened = self.put(Mark.OPENS, *[Mark.INSIDE] * (rows // 2))
        self.high += gaps
        self.groups.append([*opened, *self.put(*[Mark.INSIDE] * (rows - rows // 2), closes)])

    def closing(self, mark: Mark) -> list[list[int]]:
        """The transactions that end so."""
        ends = {offset for offset, found in self.records if found is mark}
        return [group for group in self.groups if group[-1] in ends]

    def snapshot_row(self) -> None:
        self.groups.append(self.put(Mark.ALONE))


@st.composite
def logs(draw: st.DrawFn) -> MemoryLog:
    log = MemoryLog()
    for kind in draw(st.lists(st.sampled_from(["transaction", "snapshot", "gap"]), max_size=12)):
        if kind == "transaction":
            closes = draw(st.sampled_from([Mark.CLOSES, Mark.CLOSES, Mark.CUTS, Mark.PARTS]))
            log.transaction(draw(st.integers(0, 12)), draw(st.integers(0, 3)), closes)
        elif kind == "snapshot":
            log.snapshot_row()
        else:
            log.high += draw(st.integers(1, 5))
    if draw(st.booleans()):
        log.put(Mark.OPENS, *[Mark.INSIDE] * draw(st.integers(0, 8)))
    return log


@st.composite
def epochs_of(draw: st.DrawFn, log: MemoryLog, cut_min: int | None) -> list[tuple[int, int]]:
    """All of a log, epoch by epoch, while it grows."""
    start, high, clear_to, found = 0, 0, 0, list[tuple[int, int]]()
    rows_max = draw(st.one_of(st.none(), st.integers(1, 20)))
    while True:
        end = epoch_end(log, start, high, rows_max, clear_to=clear_to, cut_min=cut_min)
        assert start <= end.end <= high
        if end.end > start:
            found.append((start, end.end))
            groups = [group for group in log.groups if start <= group[0] < end.end]
            assert rows_max is None or len(groups) == 1 or sum(map(len, groups)) <= rows_max
        elif high == log.high:
            return found
        else:  # nothing complete yet: wait until the log has grown
            high = draw(st.integers(high + 1, log.high))
        start, clear_to = end.end, end.clear_to


@given(logs(), st.one_of(st.none(), st.integers(1, 20)), st.sampled_from([1, 2, 3, 1024]), st.data())
def test_every_epoch_is_whole_transactions_in_order_and_nothing_is_lost_or_seen_twice(
    log: MemoryLog, cut_min: int | None, window: int, data: st.DataObject
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boundaries, "FIRST_WINDOW", window)
        epochs = data.draw(epochs_of(log, cut_min))
    seen = []
    for start, end in epochs:
        epoch = [offset for offset, _ in log.records if start <= offset < end]
        groups = [group for group in log.groups if group[0] in epoch]
        assert epoch == [offset for group in groups for offset in group]
        seen += epoch
    assert seen == [offset for group in log.groups for offset in group]


@given(logs(), st.integers(1, 30), st.data())
def test_no_epoch_lies_on_both_sides_of_what_cuts_or_parts(log: MemoryLog, cut_min: int, data: st.DataObject) -> None:
    epochs = data.draw(epochs_of(log, cut_min))
    for group in log.closing(Mark.PARTS):
        [(start, end)] = [(start, end) for start, end in epochs if start <= group[0] < end]
        assert [each for each in log.groups if start <= each[0] < end] == [group]
    for group in log.closing(Mark.CUTS):
        [(start, end)] = [(start, end) for start, end in epochs if start <= group[0] < end]
        is_last = not any(group[-1] < each[0] < end for each in log.groups)
        assert is_last or group[-1] + 1 - start < cut_min


@given(logs(), st.integers(1, 5))
def test_an_unfinished_transaction_is_read_once_however_often_it_is_looked_at(log: MemoryLog, step: int) -> None:
    first = log.high
    log.put(Mark.OPENS, *[Mark.INSIDE] * 50)
    log.scanned.clear()
    clear_to = first
    for high in range(first, log.high, step):
        found = epoch_end(log, first, high, 10, clear_to=clear_to)
        assert found.end == first
        clear_to = found.clear_to
    assert len(log.scanned) == len(set(log.scanned))


def test_a_large_epoch_is_not_read_to_find_its_end() -> None:
    log = MemoryLog()
    for _ in range(10_000):
        log.transaction(8)
    found = epoch_end(log, 0, log.high, 50_000)
    assert found.end == 50_000
    assert len(log.scanned) <= boundaries.FIRST_WINDOW


def test_an_epoch_takes_along_the_markers_that_follow_its_last_transaction() -> None:
    log = MemoryLog()
    log.transaction(2)
    log.high += 1
    assert epoch_end(log, 0, log.high, None).end == log.high


@given(logs(), st.data())
def test_a_stream_may_start_exactly_where_nothing_is_cut_through(log: MemoryLog, data: st.DataObject) -> None:
    offset = data.draw(st.integers(1, max(1, log.high)))
    cut_through = any(group[0] < offset <= group[-1] for group in log.groups)
    complete = {offset for group in log.groups for offset in group}
    remains = [o for o, _ in log.records if o not in complete]
    cut_through |= bool(remains) and remains[0] < offset
    before = any(o < offset for o, _ in log.records)
    if before:
        assert is_whole_start(log, 0, offset, log.high) == (not cut_through)


@given(logs(), st.data())
def test_a_log_that_was_cut_off_is_read_from_its_first_whole_transaction(log: MemoryLog, data: st.DataObject) -> None:
    low = data.draw(st.integers(0, log.high))
    start = whole_start(log, low, log.high)
    left = [group for group in log.groups if group[0] >= low]
    if left:
        assert start is not None
        following = [offset for offset, _ in log.records if offset >= start]
        assert following[0] == left[0][0]


def test_where_nothing_is_left_before_only_a_beginning_is_a_whole_start() -> None:
    log = MemoryLog()
    log.transaction(3)
    assert is_whole_start(log, 0, 0, log.high)
    assert not is_whole_start(log, 2, 2, log.high)
    assert not is_whole_start(log, log.high, log.high, log.high)


def test_an_epoch_ends_with_the_first_transaction_that_cuts_however_long_it_is() -> None:
    log = MemoryLog()
    for _ in range(10_000):
        log.transaction(0)
    log.transaction(1, closes=Mark.CUTS)
    cut = log.high
    log.transaction(1)
    log.transaction(0, closes=Mark.CUTS)
    assert epoch_end(log, 0, log.high, None, cut_min=1) == EpochEnd(cut, cut, is_cut=True)
    assert len(log.scanned) == cut, "what lies behind is read by the next search"
    assert epoch_end(log, cut, log.high, None, cut_min=1).end == log.high
    assert epoch_end(log, 0, log.high, None, cut_min=cut).end == cut
    assert epoch_end(log, 0, log.high, None, cut_min=cut + 1).end == log.high, "short ones may share a cut"


def test_a_transaction_that_parts_is_an_epoch_by_itself() -> None:
    log = MemoryLog()
    log.transaction(2)
    before = log.high
    log.transaction(2, closes=Mark.PARTS)
    after = log.high
    log.transaction(2)
    ends = [epoch_end(log, start, log.high, None, cut_min=1000).end for start in (0, before, after)]
    assert ends == [before, after, log.high]

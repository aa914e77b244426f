"""The search by LSN finds what a walk through the whole log finds."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from cdc.position import Lsn
from cdc.seeking import Completed, seek


@dataclass(frozen=True)
class MemoryLog:
    completed: tuple[Completed, ...]

    def first_completed(self, start: int, end: int) -> Completed | None:
        return next((each for each in self.completed if start <= each.offset < end), None)


@st.composite
def logs(draw: st.DrawFn) -> MemoryLog:
    """Snapshot rows share an LSN, transactions grow; both stand at growing offsets with others between."""
    offset, lsn, completed = 0, draw(st.integers(1, 5)), []
    for _ in range(draw(st.integers(0, 5))):
        completed.append(Completed(offset, Lsn(lsn)))
        offset += draw(st.integers(1, 3))
    for _ in range(draw(st.integers(0, 12))):
        lsn += draw(st.integers(1, 4))
        offset += draw(st.integers(1, 9))
        completed.append(Completed(offset, Lsn(lsn)))
    return MemoryLog(tuple(completed))


@given(logs(), st.integers(0, 60), st.integers(0, 10), st.integers(0, 10))
def test_finds_the_first_transaction_at_or_after_the_lsn(log: MemoryLog, lsn: int, low: int, tail: int) -> None:
    high = max([low, *(each.offset + 1 for each in log.completed)]) + tail
    sought = seek(log, low, high, Lsn(lsn))
    there = [each for each in log.completed if each.offset >= low]
    assert sought.found == next((each for each in there if each.lsn >= Lsn(lsn)), None)
    before = [each.offset + 1 for each in there if each.lsn < Lsn(lsn)]
    assert sought.offset == max(before, default=low)

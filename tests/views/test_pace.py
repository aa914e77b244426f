"""Work in the background gives way to what readers see, and comes back when it may."""

from __future__ import annotations

import pytest

from views.maintain.pace import (
    IDLE_S,
    LAG_MS_MIN,
    LATER_THAN_USUAL,
    PIECE_RECORDS_MAX,
    PIECE_RECORDS_MIN,
    PIECE_S,
    RECORDS_PER_S_FIRST,
    REST_S_MAX,
    SHARE_FIRST,
    SHARE_MIN,
    Pace,
)


class Readers:
    """How far they are behind, and a clock that is moved by hand."""

    def __init__(self, lag_ms: float = 0.0) -> None:
        self.lag_ms, self.at = lag_ms, 0.0

    def pace(self, lag_ms_max: float = 1_000.0) -> Pace:
        return Pace(lambda: self.lag_ms, lag_ms_max, clock=lambda: self.at)


def test_it_goes_at_it_while_nobody_is_late() -> None:
    pace = Readers(700.0).pace()
    pace.piece()
    rests = [pace.rest(1.0, 100_000) for _ in range(10)]
    assert rests == sorted(rests, reverse=True)
    assert (rests[-1], pace.piece()) == (0.0, PIECE_RECORDS_MAX)


def test_a_piece_takes_so_long_however_fast_the_place_is() -> None:
    pace = Readers().pace()
    pace.piece()
    for _ in range(10):
        pace.rest(4.0, 20_000)
    assert pace.piece() == 5_000 * PIECE_S
    pace.rest(0.001, 1)
    assert pace.piece() == 5_000 * PIECE_S, "a remainder says nothing"
    pace.rest(1.0)
    assert pace.piece() == 5_000 * PIECE_S


def test_it_rests_longer_and_works_shorter_while_somebody_is() -> None:
    readers = Readers()
    pace = readers.pace()
    pace.piece()
    pace.share, readers.lag_ms = 1.0, 1_001.0
    pieces, rests = [], []
    for _ in range(8):
        rests.append(pace.rest(0.2))
        pieces.append(pace.piece())
    assert rests[:3] == pytest.approx([0.2, 0.6, 1.4])
    assert (pieces[0], pieces[-1], pace.share) == (RECORDS_PER_S_FIRST * PIECE_S / 8, PIECE_RECORDS_MIN, SHARE_MIN)
    assert pace.rest(60) == REST_S_MAX, "never for good"
    readers.lag_ms = 0.0
    for _ in range(20):
        pace.rest(0.2)
    assert pace.share == 1.0


@pytest.mark.parametrize(
    ("usual_ms", "bound_ms"), [(0.0, LAG_MS_MIN), (600.0, 600.0 * LATER_THAN_USUAL), (1_800.0, 2_000.0)]
)
def test_late_is_what_is_later_than_usual_and_never_beyond_the_bound(usual_ms: float, bound_ms: float) -> None:
    readers = Readers(usual_ms)
    pace = readers.pace(2_000.0)
    pace.piece()
    readers.lag_ms = bound_ms
    pace.rest(1.0)
    assert pace.share > SHARE_FIRST
    readers.lag_ms = bound_ms + 1
    pace.rest(1.0)
    assert pace.share < SHARE_FIRST


def test_work_begins_anew_after_a_while_without_any() -> None:
    readers = Readers()
    pace = readers.pace()
    pace.piece()
    for _ in range(10):
        pace.rest(1.0, 100_000)
    readers.at = PIECE_S + IDLE_S
    assert pace.piece() == PIECE_RECORDS_MAX, "it goes on"
    readers.at += PIECE_S + IDLE_S + 1
    assert pace.piece() == RECORDS_PER_S_FIRST * PIECE_S * SHARE_FIRST**3

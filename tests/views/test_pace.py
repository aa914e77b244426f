"""Work in the background gives way to what readers see, and comes back when it may."""

from __future__ import annotations

import pytest

from views.maintain.pace import PIECE_RECORDS_MAX, PIECE_RECORDS_MIN, REST_S_MAX, SHARE_MIN, Pace


def test_it_goes_at_it_while_nobody_is_late() -> None:
    pace = Pace(lambda: 900.0, 1_000.0)
    rests = [pace.rest(1.0) for _ in range(10)]
    assert rests == sorted(rests, reverse=True)
    assert (rests[-1], pace.piece()) == (0.0, PIECE_RECORDS_MAX)


def test_it_rests_longer_and_works_shorter_while_somebody_is() -> None:
    lag_ms = 1_001.0
    pace = Pace(lambda: lag_ms, 1_000.0, share=1.0)
    pieces, rests = [], []
    for _ in range(8):
        rests.append(pace.rest(0.2))
        pieces.append(pace.piece())
    assert rests[:3] == pytest.approx([0.2, 0.6, 1.4])
    assert (pieces[0], pieces[-1], pace.share) == (PIECE_RECORDS_MAX / 8, PIECE_RECORDS_MIN, SHARE_MIN)
    assert pace.rest(60) == REST_S_MAX, "never for good"
    lag_ms = 0.0
    for _ in range(20):
        pace.rest(0.2)
    assert pace.share == 1.0

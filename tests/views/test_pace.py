"""Work in the background gives way to what readers see, comes back when it may, and always ends."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from views.maintain import catch_up
from views.maintain.catch_up import CatchUp
from views.maintain.maintainer import Maintainer
from views.maintain.meters import Meters
from views.maintain.pace import (
    ANYWAY_S,
    BEFORE_S,
    GROWTH,
    IDLE_S,
    LAG_MS_MIN,
    LATER_THAN_USUAL,
    PIECE_RECORDS_MAX,
    PIECE_RECORDS_MIN,
    PIECE_S,
    PIECE_S_MIN,
    RECORDS_PER_S_FIRST,
    REST_S_MAX,
    SHARE_FIRST,
    SHARE_MIN,
    SHRINKING,
    Pace,
)
from views.maintain.runner import GroupRunner, Measured

LAG_MS_MAX = 2_000.0
FIXED_S = 0.5
"""To begin and end a piece."""
LOAD_S = 10.0
RATE = 14_000.0
"""Records a second, of a place that nobody else uses."""


class Readers:
    """How far they are behind, and a clock that is moved by hand."""

    def __init__(self, lag_ms: float = 0.0) -> None:
        self.lag_ms, self.at = lag_ms, 0.0
        self.asked: list[float] = []

    def pace(self, lag_ms_max: float = LAG_MS_MAX) -> Pace:
        def lag_ms(lately_s: float) -> float:
            self.asked.append(lately_s)
            return self.lag_ms

        return Pace(lag_ms, lag_ms_max, clock=lambda: self.at)

    def goes(self, pace: Pace, lag_ms: float, worked_s: float = 2.0) -> float:
        """A piece, for which they are so late, and the rest from it."""
        pace.begin()
        self.at, self.lag_ms, before = self.at + worked_s, lag_ms, self.lag_ms
        rest_s = pace.rest(worked_s)
        self.at, self.lag_ms = self.at + rest_s, before
        return rest_s


class Runner:
    """Of a group, as far as it matters here."""

    def __init__(self, offset: int = 0, *, is_live: bool = False, is_idle: bool = False) -> None:
        self.offset, self.is_idle = offset, is_idle
        self.progress = SimpleNamespace(is_live=is_live, is_snapshot_whole=True)
        self.group = SimpleNamespace(spec=SimpleNamespace(id="mine"))


class Filling:
    """Filling that is simulated: each piece takes its records at the place's rate, and the fixed costs."""

    def __init__(self, lag_ms: Callable[[float, float], float], lag_ms_max: float = LAG_MS_MAX) -> None:
        """`lag_ms` of a moment, and of the share of the ten seconds up to it that was worked."""
        self.at = self.records = self.worked_s = 0.0
        self._lag_ms, self._works = lag_ms, list[tuple[float, float]]()
        self.lags: list[float] = []
        self.pace = Pace(self._lately, lag_ms_max, clock=lambda: self.at)

    def _lately(self, lately_s: float) -> float:
        since = self.at - LOAD_S
        worked_s = sum(max(0.0, min(end, self.at) - max(begin, since)) for begin, end in self._works[-20:])
        return self._lag_ms(self.at, worked_s / LOAD_S)

    def run(self, seconds: float) -> float:
        """Records a second."""
        until, begun, records = self.at + seconds, self.at, self.records
        while self.at < until:
            piece = self.pace.piece()
            worked_s = FIXED_S + piece / RATE
            self._works.append((self.at, self.at + worked_s))
            self.at += worked_s
            self.lags.append(self._lately(worked_s))
            self.at += self.pace.rest(worked_s, piece)
            self.records, self.worked_s = self.records + piece, self.worked_s + worked_s
        return (self.records - records) / (self.at - begun)


def test_it_goes_at_it_while_nobody_is_late() -> None:
    filling = Filling(lambda at, load: 700.0)
    assert filling.run(300) > 0.9 * RATE
    assert (filling.pace.share, filling.pace.held_back()) == (1.0, "")


@pytest.mark.parametrize("late", [0.21, 0.5, 1.0])
def test_it_does_not_starve_when_readers_are_late_for_other_reasons(late: float) -> None:
    """A fifth of all pieces late brought it down to a twentieth of the time, in pieces that were nothing but costs."""
    chance = random.Random(7)
    filling = Filling(lambda at, load: chance.uniform(2_500, 4_000) if chance.random() < late else 700.0)
    assert filling.run(600) > 0.1 * RATE
    assert filling.run(600) > 0.1 * RATE, "nor later"
    assert filling.pace.share >= SHARE_MIN


def test_it_goes_half_of_the_time_when_they_are_late_anyway() -> None:
    filling = Filling(lambda at, load: 4_000.0)
    assert filling.run(600) > 0.2 * RATE
    assert filling.worked_s / filling.at < SHARE_FIRST + 0.05, "and no more than that"


def test_it_backs_off_when_it_makes_them_late() -> None:
    some = Filling(lambda at, load: 600.0 + 4_000.0 * max(0.0, load - 0.3))
    assert some.run(1_200) > 0.2 * RATE
    assert some.pace.bound_ms == 1_200, "what it does itself is not usual"
    assert sum(lag <= 2_000 for lag in some.lags) > 0.95 * len(some.lags)
    much = Filling(lambda at, load: 600.0 + 10_000.0 * load)
    assert much.run(1_200) > 0.1 * RATE, "it ends all the same"
    assert much.worked_s / much.at < SHARE_MIN + 0.05


def test_it_backs_off_from_those_who_recover_slowly() -> None:
    """What readers are late for piece after piece is its doing, if a long rest mends it."""
    readers = Readers(600.0)
    pace = readers.pace()
    readers.goes(pace, 600.0)
    readers.lag_ms = 3_000.0  # and stays so over short rests
    for _ in range(4):
        readers.goes(pace, 3_000.0)
    assert pace.share == SHARE_MIN
    readers.lag_ms = 600.0
    for _ in range(20):
        readers.goes(pace, 3_000.0)
    assert pace.share == SHARE_MIN


def test_who_is_late_anyway_is_not_made_later() -> None:
    readers = Readers(3_000.0)
    pace = readers.pace()
    for _ in range(8):
        readers.goes(pace, 3_000.0)
    assert pace.share > SHARE_MIN * GROWTH
    share = pace.share
    readers.goes(pace, 6_000.0)
    assert pace.share == pytest.approx(max(SHARE_MIN, share * SHRINKING))
    readers.at += ANYWAY_S
    pace.share = SHARE_FIRST
    pace.rest(1.0)
    assert pace.share < SHARE_FIRST, "it is not believed for ever"


def test_what_is_seen_while_another_one_works_says_nothing_of_readers_alone() -> None:
    readers = Readers(3_000.0)
    pace = readers.pace()
    for _ in range(10):
        readers.goes(pace, 3_000.0)
        other = threading.Thread(target=pace.begin)
        other.start()
        other.join()
    assert pace.share == SHARE_MIN


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
    pace.rest(0.0, 1_000_000)
    assert pace.piece() == 5_000 * PIECE_S, "nor do records in no time"


def test_pieces_are_never_mere_costs() -> None:
    readers = Readers(0.0)
    pace = readers.pace()
    for _ in range(20):
        assert pace.piece() >= PIECE_S_MIN * pace.records_per_s
        readers.lag_ms = 5_000.0
        assert pace.rest(2.0, 20_000) <= REST_S_MAX
        readers.lag_ms = 0.0
    assert pace.share == SHARE_MIN
    pace.records_per_s = 1.0
    assert pace.piece() == PIECE_RECORDS_MIN
    pace.share, pace.records_per_s = 1.0, 1e9
    assert pace.piece() == PIECE_RECORDS_MAX
    assert pace.rest(60.0) <= REST_S_MAX, "never for good"


@pytest.mark.parametrize(
    ("usual_ms", "lag_ms_max", "bound_ms"),
    [
        (0.0, 2_000.0, LAG_MS_MIN),
        (600.0, 2_000.0, 600.0 * LATER_THAN_USUAL),
        (1_800.0, 2_000.0, 2_000.0),
        (9.0, 50.0, 50.0),
    ],
)
def test_late_is_what_is_twice_as_late_as_usual_and_never_beyond_the_bound(
    usual_ms: float, lag_ms_max: float, bound_ms: float
) -> None:
    readers = Readers(usual_ms)
    pace = readers.pace(lag_ms_max)
    assert pace.bound_ms == lag_ms_max
    pace.piece()
    assert readers.asked[0] == BEFORE_S, "before the work, and over a while"
    assert pace.bound_ms == bound_ms
    readers.lag_ms = bound_ms
    pace.rest(1.0)
    assert pace.share > SHARE_FIRST
    readers.lag_ms = bound_ms + 1
    pace.rest(1.0)
    assert pace.share < SHARE_FIRST


def test_what_is_usual_changes_slowly_and_is_seen_in_rests_only() -> None:
    readers = Readers(500.0)
    pace = readers.pace()
    readers.goes(pace, 900.0)
    assert pace.bound_ms == 1_000
    pace.share = 1.0
    for _ in range(30):
        readers.goes(pace, 900.0)
    assert pace.bound_ms == 1_000, "who does not rest does not see it"
    readers.lag_ms = 900.0
    for _ in range(3):
        pace.share = SHARE_MIN
        readers.goes(pace, 900.0)
    assert pace.bound_ms < 1_800, "not at once"
    for _ in range(30):
        pace.share = SHARE_MIN
        readers.goes(pace, 900.0)
    assert pace.bound_ms == 1_800


def test_it_says_why_it_is_slow() -> None:
    readers = Readers(500.0)
    pace = readers.pace()
    assert pace.held_back() == ""
    readers.goes(pace, 1_900.0)
    assert pace.held_back() == "gives way to readers: 1.9 s behind, at most 1.0 s"
    readers.goes(pace, 500.0)
    assert pace.held_back() == ""
    readers.goes(pace, 1_900.0)
    readers.at += IDLE_S + PIECE_S
    assert pace.held_back() == "", "it does not work any more"


def test_work_begins_anew_after_a_while_without_any() -> None:
    readers = Readers()
    pace = readers.pace()
    pace.piece()
    for _ in range(10):
        pace.rest(1.0, 100_000)
    readers.at = PIECE_S + IDLE_S
    assert pace.piece() == PIECE_RECORDS_MAX, "it goes on"
    readers.at += PIECE_S + IDLE_S + 1
    assert pace.piece() == RECORDS_PER_S_FIRST * PIECE_S * SHARE_FIRST**2


def test_who_rests_has_not_ended() -> None:
    """A long rest is no while without work: what was learnt, and what is usual, stay."""
    readers = Readers(LAG_MS_MIN + 1)
    pace = readers.pace(LAG_MS_MIN)
    pace.share = SHARE_MIN
    assert pace.rest(60.0) == REST_S_MAX
    readers.at = REST_S_MAX + IDLE_S
    pace.piece()
    assert pace.share == SHARE_MIN, "it goes on"
    readers.at += PIECE_S + IDLE_S + 1
    pace.piece()
    assert pace.share == SHARE_FIRST, "it has begun anew"


def test_several_who_work_share_one_pace() -> None:
    """Each of them being late slows all of them down."""
    pace = Readers(3_000.0).pace()
    alone, together = pace.rest(1.0), pace.rest(1.0)
    assert together > alone
    assert pace.share == pytest.approx(SHARE_FIRST * SHRINKING**2)


def test_who_gets_to_nothing_is_behind_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    meters, at = Meters(), 100.0
    monkeypatch.setattr("views.maintain.meters.time.monotonic", lambda: at)
    assert meters.waiting_ms([]) == meters.waiting_ms([5]) == 0.0, "nothing is known to wait"
    meters.came(10)
    meters.add(Measured(10, 1, 1.0, 1.0, 400.0))
    at = 104.0
    meters.came(10)
    meters.came(30)
    at = 105.0
    assert meters.waiting_ms([30, 30]) == 0.0, "nothing was committed since"
    assert meters.waiting_ms([30, 10]) == 1_000.0
    assert meters.waiting_ms([30, 9]) == 5_000.0
    assert meters.waiting_ms([]) == 0.0, "no view is live"
    assert (meters.lately_behind_ms(10.0), meters.lately_behind_ms(1.0)) == (400.0, 0.0)
    meters.came(3)
    assert meters.waiting_ms([9]) == 0.0, "a topic that was made anew"


@pytest.mark.parametrize("others_are_live", [True, False])
def test_who_is_computed_anew_begins_pieces_and_rests_beside_those_who_are_read(others_are_live: bool) -> None:
    """Also while these have fallen behind and ride no more."""
    readers = Readers(500.0)
    pace, mine, other = readers.pace(), Runner(), Runner(is_live=others_are_live)
    alone = SimpleNamespace(run_alone=lambda runner, end: setattr(readers, "lag_ms", 5_000.0), groups=[])
    over = SimpleNamespace(wait=lambda rest_s: None)
    beside = SimpleNamespace(runners={"mine": mine, "other": other}, riding=alone, over=over)
    CatchUp._run_beside(cast(CatchUp, beside), cast(GroupRunner, mine), 5, pace)
    assert readers.asked == ([BEFORE_S, 1.0, 1.0] if others_are_live else [])
    assert (pace.share < SHARE_FIRST) == others_are_live


def test_who_is_kept_fed_for_good_slows_down_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    """A definition that stands by has always just worked: what it learns is not of those that are computed anew."""
    close, paces = iter([False, True, False]), list[str]()
    monkeypatch.setattr(catch_up, "EpochPlanner", lambda *given, **named: None)
    runner = Runner()

    def run_beside(runner: Runner, end: int, pace: str) -> None:
        paces.append(pace)
        runner.is_idle = len(paces) == 2

    kept = SimpleNamespace(
        **dict.fromkeys(("kafka", "source", "archive")),
        pace="computing",
        keep_pace="keeping",
        runners={"mine": runner},
        showing=SimpleNamespace(may_show=lambda runner: False),
        over=SimpleNamespace(wait=lambda rest_s: None),
        is_held=lambda runner: False,
        _is_over=False,
        _seed=lambda runner: None,
        _end=lambda runner, planner: 1,
        _rests=lambda runner, planner: next(close),
        _waits=lambda runner: False,
        _run_beside=run_beside,
    )
    CatchUp._catch_up(cast(CatchUp, kept), cast(GroupRunner, runner))
    assert paces == ["computing", "keeping"]


def test_how_late_readers_are_is_of_whoever_feeds_them() -> None:
    asked: list[list[int]] = []
    meters = SimpleNamespace(
        lately_behind_ms=lambda lately_s: 100.0 * lately_s,
        waiting_ms=lambda offsets: asked.append(list(offsets)) or 700.0,
    )
    runners = {"left": Runner(1, is_live=True), "new": Runner(2), "paused": Runner(3, is_live=True, is_idle=True)}
    kept = SimpleNamespace(
        _runners=runners,
        _catch_up=SimpleNamespace(threads=dict.fromkeys(runners)),
        _riding=SimpleNamespace(groups=[Runner(4, is_live=True)]),
        _meters=meters,
        _sinking=SimpleNamespace(behind_ms=lambda: 30.0),
    )
    assert Maintainer._behind_ms(cast(Maintainer, kept), 1.0) == 730.0
    assert Maintainer._behind_ms(cast(Maintainer, kept), 10.0) == 1_030.0
    assert asked[0] == [4, 1], "who is not read, or paused, waits for nothing"

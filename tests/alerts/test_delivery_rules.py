"""The pure parts of delivery: schedule, breaker, verdict."""

from __future__ import annotations

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.channels.channel import Delivered, Gone, Refused, Retry
from alerts.delivery.breaker import Breaker, BreakerRule, State
from alerts.delivery.schedule import ATTEMPTS_MAX, DELAYS_S, SPAN_S_MAX, STRETCH, delay_s
from alerts.delivery.verdict import Again, Dead, Disabled, Sent, decide
from tests.alerts.samples import BEGAN_AT

draws = st.floats(0, 1, exclude_max=True)
rules = st.builds(BreakerRule, st.integers(1, 6), st.floats(0.1, 100), st.floats(100, 1_000))


class TestSchedule:
    def test_is_the_specifications_own(self) -> None:
        """Time since start of each attempt, without jitter."""
        at_s, times = 0.0, ["00:00:00"]
        for attempts in range(1, ATTEMPTS_MAX):
            at_s += delay_s(attempts, 0.0) or 0.0
            times.append(f"{int(at_s // 3600):02}:{int(at_s // 60 % 60):02}:{int(at_s % 60):02}")
        expected = "00:00:00 00:00:05 00:05:05 00:35:05 02:35:05 07:35:05 17:35:05 31:35:05 51:35:05 75:35:05"
        assert " ".join(times) == expected

    @given(st.integers(1, ATTEMPTS_MAX - 1), draws)
    def test_a_delay_is_stretched_never_shortened(self, attempts: int, draw: float) -> None:
        delay = delay_s(attempts, draw)
        assert delay is not None
        assert DELAYS_S[attempts - 1] <= delay <= DELAYS_S[attempts - 1] * (1 + STRETCH)

    @given(st.integers(), draws)
    def test_it_ends(self, attempts: int, draw: float) -> None:
        assert (delay_s(attempts, draw) is None) == (not 1 <= attempts < ATTEMPTS_MAX)

    @given(st.lists(draws, min_size=ATTEMPTS_MAX, max_size=ATTEMPTS_MAX))
    def test_delays_grow_whatever_is_drawn(self, drawn: list[float]) -> None:
        delays = [delay_s(attempts, drawn[attempts]) or 0.0 for attempts in range(1, ATTEMPTS_MAX)]
        assert delays == sorted(delays)
        assert sum(delays) <= SPAN_S_MAX


class TestBreaker:
    @given(rules, st.lists(st.tuples(st.floats(0, 2_000), st.booleans()), max_size=60))
    def test_against_its_words(self, rule: BreakerRule, steps: list[tuple[float, bool]]) -> None:
        """Only allowed attempts are made; open exactly after failures_max in a row, then after each one, longer."""
        breaker, now, in_row, opened = Breaker(), BEGAN_AT, 0, 0
        for wait_s, succeeds in steps:
            now += timedelta(seconds=wait_s)
            state = breaker.state(now)
            if state is State.OPEN:
                assert breaker.failed(now, rule) == breaker, "a late failure changes nothing"
                continue
            before = breaker
            breaker = breaker.succeeded() if succeeds else breaker.failed(now, rule)
            if succeeds:
                in_row, opened = 0, 0
                assert breaker == Breaker()
                continue
            in_row += 1
            should_open = state is State.HALF_OPEN or in_row >= rule.failures_max
            assert (breaker.state(now) is State.OPEN) == should_open
            if should_open:
                assert breaker.until is not None
                expected_s = min(rule.open_s * 2**opened, rule.open_s_max)
                assert (breaker.until - now).total_seconds() == pytest.approx(expected_s, abs=1e-5)
                opened += 1
            assert before.until is None or breaker.opened >= before.opened

    def test_it_stays_within_its_longest_time(self) -> None:
        breaker, now, rule = Breaker(), BEGAN_AT, BreakerRule(1, 30.0, 900.0)
        for _ in range(2_000):
            breaker = breaker.failed(now, rule)
            assert breaker.until is not None
            assert breaker.until - now <= timedelta(seconds=900)
            now = breaker.until
            assert breaker.state(now) is State.HALF_OPEN


class TestVerdict:
    def test_each_outcome(self) -> None:
        assert decide(Delivered(), 1, BEGAN_AT, 0.5) == Sent()
        assert decide(Gone("left"), 1, BEGAN_AT, 0.5) == Disabled("left")
        assert decide(Refused("no"), 1, BEGAN_AT, 0.5) == Dead("no")
        assert decide(Retry("busy"), 1, BEGAN_AT, 0.0) == Again(BEGAN_AT + timedelta(seconds=5), "busy")

    def test_the_last_attempt(self) -> None:
        assert decide(Retry("busy"), ATTEMPTS_MAX, BEGAN_AT, 0.0) == Dead("busy, at the last of 10 attempts")

    @given(st.integers(1, ATTEMPTS_MAX - 1), st.floats(0, 86_400), draws)
    def test_never_before_what_the_target_asked_for(self, attempts: int, after_s: float, draw: float) -> None:
        verdict = decide(Retry("busy", after_s), attempts, BEGAN_AT, draw)
        assert isinstance(verdict, Again)
        wait_s = (verdict.at - BEGAN_AT).total_seconds()
        assert wait_s >= after_s - 1e-6
        assert wait_s >= DELAYS_S[attempts - 1] - 1e-6

    def test_a_reason_has_a_limit(self) -> None:
        verdict = decide(Refused("x" * 10_000), 1, BEGAN_AT, 0.0)
        assert isinstance(verdict, Dead)
        assert len(verdict.reason) == 500

"""The engine with the store in memory: over channels that do as they are told, and over real webhooks on loopback."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alerts.channels.channel import Delivered, Gone, Outcome, Refused, Retry, Target
from alerts.channels.public_addresses import AddressPolicy, Opening
from alerts.channels.webhook import Webhook
from alerts.delivery.breaker import BreakerRule
from alerts.delivery.endpoint import Endpoint, Standing
from alerts.delivery.endpoints import DeliveryLimits, Endpoints
from alerts.delivery.engine import Engine
from alerts.delivery.memory import MemoryStore
from alerts.delivery.schedule import ATTEMPTS_MAX
from alerts.delivery.store import Claim, Delivery
from alerts.delivery.verdict import Again, Dead, Sent
from alerts.notification import Notification
from headwater.channels import delivery_limits
from headwater.demo.webhook_catcher import CaughtWebhook, WebhookCatcher, accept
from headwater.settings import Settings
from headwater.settings.delivery import DeliverySettings
from tests.alerts.samples import BEGAN_AT, SECRET, ManualClock, hook, notification, until

Does = Callable[[Notification, Target], Outcome]
SWITCHING_OFF = DeliveryLimits(claim_interval_s=0.0, failing_s_max={"scripted": 5 * 86_400.0})


@dataclass
class Scripted:
    """A channel that does as it is told; endpoints named `hang…` never answer."""

    does: Does = lambda notification, target: Delivered()
    tried: list[tuple[str, str]] = field(default_factory=list)
    """(endpoint, notification), in the order of the attempts."""
    running: Counter[str] = field(default_factory=Counter)
    most: Counter[str] = field(default_factory=Counter)

    @property
    def name(self) -> str:
        return "scripted"

    def check(self, target: Target) -> None:
        pass

    async def close(self) -> None:
        pass

    async def deliver(self, notification: Notification, target: Target) -> Outcome:
        self.tried.append((target.id, notification.id))
        for name in (target.id, "all"):
            self.running[name] += 1
            self.most[name] = max(self.most[name], self.running[name])
        try:
            if target.id.startswith("hang"):
                await asyncio.Event().wait()
            await asyncio.sleep(0)
            return self.does(notification, target)
        finally:
            for name in (target.id, "all"):
                self.running[name] -= 1


@dataclass
class Narrow(Scripted):
    """Takes its time."""

    pause_s: float = 0.05

    @property
    def name(self) -> str:
        return "narrow"

    async def deliver(self, notification: Notification, target: Target) -> Outcome:
        outcome = Scripted.deliver(self, notification, target)
        self.running["all"] += 1
        self.most["all"] = max(self.most["all"], self.running["all"])
        try:
            await asyncio.sleep(self.pause_s)
        finally:
            self.running["all"] -= 1
        return await outcome


@dataclass
class Lab:
    channel: Scripted = field(default_factory=Scripted)
    limits: DeliveryLimits = field(default_factory=lambda: DeliveryLimits(poll_s=0.01, claim_interval_s=0.0))
    clock: ManualClock = field(default_factory=ManualClock)
    store: MemoryStore = field(default_factory=MemoryStore)

    def add(self, endpoint: str, count: int = 1, **more: object) -> None:
        for number in range(count):
            id_ = f"{endpoint}-{number}"
            delivery = Delivery(id_, Target(endpoint, "scripted", ""), notification(id_), **more)  # type: ignore[arg-type]
            self.store.add(delivery, self.clock())

    def engine(self, rule: BreakerRule | None = None) -> Engine:
        channels = {"scripted": self.channel}
        return Engine(self.store, channels, self.limits, rule or BreakerRule(), self.clock, lambda: 0.0)

    def state(self, id_: str) -> object:
        return self.store.kept[id_].verdict


class TestOutcomes:
    def test_delivered(self) -> None:
        lab = Lab()
        lab.add("a", 3)
        asyncio.run(lab.engine().run_until_idle())
        assert [lab.state(f"a-{number}") for number in range(3)] == [Sent()] * 3
        assert sorted(lab.channel.tried) == [("a", "a-0"), ("a", "a-1"), ("a", "a-2")]

    def test_an_endpoint_that_failed_for_days_is_switched_off(self) -> None:
        lab = Lab(Scripted(lambda *_: Retry("busy")), SWITCHING_OFF)
        lab.add("a", 2)
        lab.add("b", attempts=3)
        lab.store.failing["b"] = lab.clock() - timedelta(days=4)

        async def run() -> None:
            engine = lab.engine()
            for _ in range(4):
                await engine.run_until_idle()
                lab.clock.advance(86_400)
            assert list(lab.store.disabled) == ["b"], "a began to fail three days ago"
            for _ in range(3):
                await engine.run_until_idle()
                lab.clock.advance(86_400)

        asyncio.run(run())
        assert lab.store.disabled["b"] == "it has failed for 6.0 days, at last: busy"
        assert sorted(lab.store.disabled) == ["a", "b"]
        assert {type(lab.state(id_)) for id_ in ("a-0", "a-1", "b-0")} == {Dead}

    def test_one_failure_long_ago_and_one_now_are_not_days_of_failing(self) -> None:
        """The message that failed then was withdrawn; nothing was sent there since."""
        lab = Lab(Scripted(lambda *_: Retry("busy")), SWITCHING_OFF)
        lab.store.failing["a"] = lab.clock() - timedelta(days=30)
        lab.add("a")

        async def run() -> None:
            engine = lab.engine()
            for _ in range(2):
                await engine.run_until_idle()
                lab.clock.advance(3_600)
            lab.channel.does = lambda *_: Delivered()
            await engine.run_until_idle()

        asyncio.run(run())
        assert (lab.store.disabled, lab.state("a-0")) == ({}, Sent())
        assert len(lab.channel.tried) == 3

    def test_where_more_comes_than_is_tried_those_that_waited_for_as_long_switch_it_off(self) -> None:
        lab = Lab(Scripted(lambda *_: Retry("busy")), SWITCHING_OFF)
        lab.add("a", 1_000)
        lab.store.failing["a"] = lab.clock()
        lab.clock.advance(5 * 86_400)
        asyncio.run(lab.engine().run_until_idle())
        assert lab.channel.tried == [("a", "a-0")]
        assert lab.store.disabled["a"] == "it has failed for 5.0 days, at last: busy"

    def test_refused_is_a_dead_letter_that_can_be_replayed(self) -> None:
        lab = Lab(Scripted(lambda *_: Refused("no")))
        lab.add("a")

        async def run() -> None:
            engine = lab.engine()
            await engine.run_until_idle()
            [letter] = lab.store.dead()
            assert (letter.delivery.id, letter.verdict) == ("a-0", Dead("no"))
            lab.channel.does = lambda *_: Delivered()
            assert lab.store.replay("a-0", lab.clock())
            await engine.run_until_idle()
            assert not lab.store.replay("a-0", lab.clock()), "it was sent"

        asyncio.run(run())
        assert lab.state("a-0") == Sent()
        assert lab.channel.tried == [("a", "a-0")] * 2

    def test_gone_disables_the_endpoint_and_nothing_more_is_tried(self) -> None:
        lab = Lab(Scripted(lambda *_: Gone("410")))
        lab.add("a", 10)
        asyncio.run(lab.engine().run_until_idle())
        assert lab.channel.tried == [("a", "a-0")]
        assert lab.store.disabled == {"a": "410"}
        assert {lab.state(f"a-{number}") for number in range(10)} == {Dead("410")}

    def test_all_attempts_of_the_schedule_then_a_dead_letter(self) -> None:
        lab = Lab(Scripted(lambda *_: Retry("busy")))
        lab.add("a")
        asyncio.run(_run_for_days(lab, 5))
        assert lab.channel.tried == [("a", "a-0")] * ATTEMPTS_MAX
        assert lab.state("a-0") == Dead("busy, at the last of 10 attempts")

    def test_nobody_wants_it_any_more(self) -> None:
        lab = Lab()
        lab.add("a", expires_at=BEGAN_AT + timedelta(hours=1))
        lab.clock.advance(3_600)
        asyncio.run(lab.engine().run_until_idle())
        assert lab.channel.tried == []
        assert isinstance(lab.state("a-0"), Dead)

    def test_an_unknown_channel(self) -> None:
        lab = Lab()
        lab.store.add(Delivery("x", Target("a", "pigeon", ""), notification()), lab.clock())
        asyncio.run(lab.engine().run_until_idle())
        assert lab.state("x") == Dead("there is no channel pigeon")

    def test_a_fault_of_ours_is_an_attempt_that_failed(self) -> None:
        def fault(told: Notification, target: Target) -> Outcome:
            if target.id == "a":
                raise KeyError("oops")
            return Delivered()

        lab = Lab(Scripted(fault))
        lab.add("a")
        lab.add("b")
        asyncio.run(lab.engine().run_until_idle())
        assert isinstance(lab.store.verdicts[0][1], Again)
        assert "KeyError" in lab.store.verdicts[0][1].reason
        assert lab.state("b-0") == Sent()


def test_what_was_withdrawn_while_it_waited_is_not_sent() -> None:
    """One attempt at a time to an endpoint that was never tried: the second waits here meanwhile."""
    lab = Lab()
    lab.add("a", 2)

    def slow(_told: Notification, _to: Target) -> Outcome:
        lab.clock.advance(5)
        asyncio.get_running_loop().create_task(lab.store.settle("a-1", Dead("withdrawn"), lab.clock()))
        return Retry("busy")

    lab.channel.does = slow
    rule = BreakerRule(failures_max=100)
    asyncio.run(lab.engine(rule).run_until_idle())
    assert [id_ for _, id_ in lab.channel.tried] == ["a-0"]


@pytest.mark.parametrize("attempt_s", [1, 30, 300])
def test_whatever_is_set_a_lease_is_longer_than_attempts(attempt_s: int) -> None:
    limits = delivery_limits(Settings(delivery=DeliverySettings(attempt_timeout_s=attempt_s)))
    assert limits.lease_s >= 5 * limits.attempt_s


class TestPatience:
    def test_retry_after_holds_the_whole_endpoint(self) -> None:
        answers: list[Outcome] = [Retry("429", 600.0)]
        lab = Lab(Scripted(lambda *_: answers.pop() if answers else Delivered()))
        lab.add("a", 5)
        lab.add("b")

        async def run() -> None:
            engine = lab.engine()
            await engine.run_until_idle()
            assert [endpoint for endpoint, _ in lab.channel.tried].count("a") == 1
            assert lab.state("b-0") == Sent()
            lab.clock.advance(599)
            await engine.run_until_idle()
            assert len(lab.channel.tried) == 2
            lab.clock.advance(1)
            await engine.run_until_idle()

        asyncio.run(run())
        assert {lab.state(f"a-{number}") for number in range(5)} == {Sent()}

    def test_a_failing_endpoint_is_left_alone_after_three(self) -> None:
        lab = Lab(Scripted(lambda _, target: Retry("500") if target.id == "a" else Delivered()))
        lab.add("a", 100)
        lab.add("b", 100)
        rule = BreakerRule(3, 30.0, 120.0)

        async def run() -> None:
            engine = lab.engine(rule)
            tried: list[int] = []
            for wait_s in (0, 29, 1, 59, 1, 119, 1):
                lab.clock.advance(wait_s)
                await engine.run_until_idle()
                tried.append([endpoint for endpoint, _ in lab.channel.tried].count("a"))
            assert tried == [3, 3, 4, 4, 5, 5, 6], "one probe each time it half opens"
            assert {lab.state(f"b-{number}") for number in range(100)} == {Sent()}
            lab.channel.does = lambda *_: Delivered()
            lab.clock.advance(86_400)
            await engine.run_until_idle()

        asyncio.run(run())
        assert {lab.state(f"a-{number}") for number in range(100)} == {Sent()}


class TestNobodyWaits:
    def test_hanging_endpoints_delay_nobody(self) -> None:
        """Each with a backlog older than everything else."""
        lab = Lab(limits=DeliveryLimits(80, 60, 5, 2, 300, attempt_s=30.0, poll_s=0.01, claim_interval_s=0.0))
        for number in range(50):
            lab.add(f"hang{number}", 20)
        lab.clock.advance(1)
        for number in range(10):
            lab.add(f"good{number}", 30)
        asyncio.run(_healthy_first(lab, 300))
        assert lab.channel.most["all"] <= 80
        assert max(lab.channel.most[f"hang{number}"] for number in range(50)) == 1

    def test_the_proven_go_on_however_many_hang(self) -> None:
        """Ten times as many as attempts may run, with more due than may be claimed."""
        limits = DeliveryLimits(20, 10, 5, 2, 60, attempt_s=30.0, poll_s=0.01, claim_interval_s=0.0)
        lab = Lab(limits=limits)

        async def run() -> None:
            engine = lab.engine()
            for number in range(5):
                lab.add(f"good{number}")
            await engine.run_until_idle()
            for number in range(200):
                lab.add(f"hang{number}", 3)
            lab.clock.advance(1)
            for number in range(5):
                lab.add(f"good{number}", 30)
            await _healthy_first(lab, 150, engine)

        asyncio.run(run())
        assert lab.channel.most["all"] <= 20
        leased = [kept for kept in lab.store.kept.values() if kept.leased_until and kept.verdict is None]
        assert len(leased) <= 60

    def test_a_channel_with_few_ways_out_holds_up_nobody_else(self) -> None:
        """Who waits for a way out makes no attempt, so its deadline does not run; others are claimed meanwhile."""
        limits = DeliveryLimits(20, 10, 5, 2, 40, attempt_s=0.5, poll_s=0.01, claim_interval_s=0.0)
        lab = Lab(limits=replace(limits, channel_attempts_max={"narrow": 2}))
        narrow = Narrow()
        for number in range(200):
            to = Target(f"mail{number}", "narrow", "")
            lab.store.add(Delivery(f"mail{number}", to, notification(f"mail{number}")), lab.clock())
        lab.clock.advance(1)
        for number in range(5):
            lab.add(f"good{number}", 3)
        engine = lab.engine()
        engine.channels = {**engine.channels, "narrow": narrow}

        async def run() -> None:
            stopping = asyncio.Event()
            running = asyncio.create_task(engine.run(stopping))
            await until(lambda: len(lab.channel.tried) == 15)
            assert len(narrow.tried) < 150, "the others did not wait for all of these"
            narrow.pause_s = 0.0
            await until(lambda: not lab.store.open)
            stopping.set()
            await running

        asyncio.run(run())
        assert narrow.most["all"] == 2
        assert Counter(id_ for _, id_ in narrow.tried) == {f"mail{number}": 1 for number in range(200)}
        assert {lab.state(f"mail{number}") for number in range(200)} == {Sent()}

    def test_failing_endpoints_get_few_attempts(self) -> None:
        """Those that hang again after their first deadline leave the untried ones their slots."""
        limits = DeliveryLimits(20, 10, 1, 2, 60, attempt_s=0.02, poll_s=0.01, claim_interval_s=0.0)
        lab = Lab(limits=limits)
        for number in range(10):
            lab.add(f"hang{number}", 3)

        async def run() -> None:
            engine = lab.engine(BreakerRule(100))
            await engine.run_until_idle()
            lab.channel.most.clear()
            lab.clock.advance(5)
            await engine.run_until_idle()

        asyncio.run(run())
        assert lab.channel.most["all"] == 1

    def test_limits_are_kept(self) -> None:
        lab = Lab(limits=DeliveryLimits(7, 5, 3, 3, 40, claim_interval_s=0.0))
        for number in range(20):
            lab.add(f"e{number}", 15)
        asyncio.run(lab.engine().run_until_idle())
        assert len(lab.channel.tried) == 300
        assert lab.channel.most["all"] <= 7
        assert max(lab.channel.most[f"e{number}"] for number in range(20)) <= 3

    def test_an_attempt_that_hangs_ends_at_its_deadline(self) -> None:
        lab = Lab(limits=DeliveryLimits(attempt_s=0.05))
        lab.add("hang")
        asyncio.run(lab.engine().run_until_idle())
        assert lab.store.verdicts == [("hang-0", Again(BEGAN_AT + timedelta(seconds=5), "no answer within 0.05 s"))]

    def test_work_is_noticed_when_woken(self) -> None:
        lab = Lab(limits=DeliveryLimits(poll_s=3_600.0, claim_interval_s=0.0))

        async def run() -> None:
            engine, stopping = lab.engine(), asyncio.Event()
            running = asyncio.create_task(engine.run(stopping))
            await asyncio.sleep(0)
            lab.add("a")
            engine.wake()
            await until(lambda: lab.state("a-0") == Sent())
            stopping.set()
            engine.wake()
            await running

        asyncio.run(run())


class TestProvenOnesThatHang:
    """They answered until now, and hang together: as when the host of many of them does."""

    def test_leave_room_for_first_attempts(self) -> None:
        known = proven(DeliveryLimits(), *(f"hang{number}" for number in range(100)))
        wait_for(known, 4, *(f"hang{number}" for number in range(100)))
        assert len(list(known.startable(BEGAN_AT))) == 200
        wait_for(known, 4, *(f"good{number}" for number in range(200)))
        started = Counter(each.endpoint.id for each in known.startable(BEGAN_AT))
        assert started == {f"good{number}": 1 for number in range(200)}

    def test_get_nothing_beside_an_attempt_that_takes_long(self) -> None:
        known = proven(DeliveryLimits(), "a")
        wait_for(known, 1, "a")
        [first] = known.startable(BEGAN_AT)
        wait_for(known, 4, "a")
        late = BEGAN_AT + timedelta(seconds=1)
        assert list(known.startable(late)) == []
        known.ended(first)
        assert len(list(known.startable(late))) == 4

    def test_do_not_fill_what_may_be_claimed(self) -> None:
        limits = DeliveryLimits(10, 5, 5, 4, claimed_max=20)
        known = proven(limits, *(f"hang{number}" for number in range(5)))
        wait_for(known, 4, *(f"hang{number}" for number in range(5)))
        hanging = list(known.startable(BEGAN_AT))
        assert (len(hanging), known.room) == (5, 0)
        assert known.park(BEGAN_AT) == [], "they may end soon"
        assert len(known.park(BEGAN_AT + timedelta(seconds=1))) == known.room == 15
        assert known.busy == {f"hang{number}" for number in range(5)}
        known.ended(hanging[0])
        assert known.busy == {f"hang{number}" for number in range(1, 5)}


def proven(limits: DeliveryLimits, *names: str) -> Endpoints:
    known = Endpoints(limits)
    for name in names:
        known.known[name] = Endpoint(name, "scripted", standing=Standing.PROVEN)
    return known


def wait_for(known: Endpoints, count: int, *names: str) -> None:
    waiting = [Delivery("", Target(name, "scripted", ""), notification()) for name in names for _ in range(count)]
    known.add(waiting, BEGAN_AT, BEGAN_AT + timedelta(hours=1))


class TestCrash:
    def test_the_same_id_again_after_a_crash(self) -> None:
        """The receiver has it, and we die before we write it down: it comes again, with the same id."""

        async def run() -> list[CaughtWebhook]:
            clock, store = ManualClock(), MemoryStore()

            async def hang_once(caught: CaughtWebhook, writer: asyncio.StreamWriter) -> None:
                if len(catcher.caught) == 1:
                    await asyncio.Event().wait()
                await accept(caught, writer)

            async with WebhookCatcher(SECRET, hang_once) as catcher:
                policy = AddressPolicy(openings=(Opening.parse(f"127.0.0.1:{catcher.port}"),))
                channels = {"webhook": Webhook(policy)}
                store.add(Delivery("d1", hook(catcher.url), notification("msg_1")), clock())
                dying = asyncio.create_task(Engine(store, channels, clock=clock).run_until_idle())
                await until(lambda: len(catcher.caught) == 1)
                await _kill(dying)

                after = Engine(store, channels, clock=clock)
                await after.run_until_idle()
                assert len(catcher.caught) == 1, "the lease of the dead one still holds"
                clock.advance(after.limits.lease_s)
                await after.run_until_idle()
                assert store.kept["d1"].verdict == Sent()
                return list(catcher.caught)

        first, second = asyncio.run(run())
        assert first.id == second.id == "msg_1"
        assert first.body == second.body
        assert first.genuine
        assert second.genuine

    def test_a_store_that_fails_ends_the_run_and_nothing_is_lost(self) -> None:
        lab = Lab()
        lab.add("a", 5)

        async def run() -> None:
            settle = lab.store.settle
            broken = _Broken(lab.store)
            engine = Engine(broken, {"scripted": lab.channel}, lab.limits, clock=lab.clock)
            with pytest.raises(ConnectionError):
                await engine.run(asyncio.Event())
            assert settle is not None
            lab.clock.advance(lab.limits.lease_s)
            await lab.engine().run_until_idle()

        asyncio.run(run())
        assert {lab.state(f"a-{number}") for number in range(5)} == {Sent()}

    def test_a_stop_gives_back_what_waits(self) -> None:
        lab = Lab(limits=DeliveryLimits(poll_s=0.01, drain_s=0.01))
        lab.add("hang", 4)

        async def run() -> None:
            stopping = asyncio.Event()
            running = asyncio.create_task(lab.engine().run(stopping))
            await until(lambda: len(lab.channel.tried) == 1)
            stopping.set()
            await running

        asyncio.run(run())
        leased = [kept.delivery.id for kept in lab.store.kept.values() if kept.leased_until is not None]
        assert leased == ["hang-0"], "of that one nobody knows what became of it"

    def test_what_waited_here_for_too_long_is_left_to_the_next(self) -> None:
        lab = Lab(limits=DeliveryLimits(attempt_s=30.0, lease_s=60.0, claim_interval_s=0.0))
        lab.add("a", 2)

        async def run() -> None:
            engine = lab.engine()
            lab.channel.does = lambda *_: (lab.clock.advance(31), Delivered())[1]
            await engine.run_until_idle()
            assert [lab.state("a-0"), lab.state("a-1")] == [Sent(), None]
            lab.clock.advance(60)
            await engine.run_until_idle()

        asyncio.run(run())
        assert lab.state("a-1") == Sent()
        assert lab.channel.tried == [("a", "a-0"), ("a", "a-1")]


outcomes = st.sampled_from([Delivered(), Retry("busy"), Retry("busy", 900.0), Refused("no")])


class TestProperties:
    @settings(max_examples=40)
    @given(st.data(), st.integers(1, 5), st.integers(1, 6))
    def test_everything_is_settled_and_counted(self, data: st.DataObject, endpoints: int, count: int) -> None:
        """Whatever the endpoints answer: each delivery ends, as its own outcomes say, within its attempts."""
        said: dict[str, list[Outcome]] = {}

        def does(told: Notification, target: Target) -> Outcome:
            outcome = data.draw(outcomes)
            said.setdefault(told.id, []).append(outcome)
            return outcome

        lab = Lab(Scripted(does))
        for number in range(endpoints):
            lab.add(f"e{number}", count)
        asyncio.run(_run_for_days(lab, 12))
        for kept in lab.store.kept.values():
            mine = said[kept.delivery.id]
            assert 1 <= len(mine) == kept.delivery.attempts <= ATTEMPTS_MAX
            assert all(isinstance(outcome, Retry) for outcome in mine[:-1])
            assert (kept.verdict == Sent()) == (mine[-1] == Delivered())
            assert kept.verdict is not None

    def test_two_engines_on_one_store_never_have_the_same(self) -> None:
        lab = Lab()
        for number in range(10):
            lab.add(f"e{number}", 20)

        async def run() -> None:
            await asyncio.gather(lab.engine().run_until_idle(), lab.engine().run_until_idle())

        asyncio.run(run())
        assert len(lab.channel.tried) == len(set(lab.channel.tried)) == 200


async def _run_for_days(lab: Lab, days: int) -> None:
    engine = lab.engine(BreakerRule(3, 30.0, 300.0))
    for _ in range(days * 24 * 2):
        await engine.run_until_idle()
        if all(kept.verdict is not None for kept in lab.store.kept.values()):
            return
        lab.clock.advance(1_800)


async def _healthy_first(lab: Lab, healthy: int, engine: Engine | None = None) -> None:
    """All of the healthy ones, while not one of the hanging ones has come to its deadline."""
    running = asyncio.create_task((engine or lab.engine()).run(asyncio.Event()))
    await until(lambda: sum(kept.verdict == Sent() for kept in lab.store.kept.values()) == healthy)
    assert all(isinstance(verdict, Sent) for _, verdict in lab.store.verdicts)
    await _kill(running)


async def _kill(engine: asyncio.Task[None]) -> None:
    """As a crash would: nothing is drained, nothing is written."""
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        if task is engine or "_attempt" in repr(task.get_coro()):
            task.cancel()
    await asyncio.gather(engine, return_exceptions=True)


@dataclass
class _Broken:
    """A store whose verdicts cannot be written."""

    store: MemoryStore

    async def claim(self, claim: Claim) -> object:
        return await self.store.claim(claim)

    async def settle(self, *_: object) -> None:
        raise ConnectionError("the store is away")

    async def release(self, *_: object) -> None:
        raise ConnectionError("the store is away")

    async def hold(self, *_: object) -> None:
        raise ConnectionError("the store is away")

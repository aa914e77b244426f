"""One suite over both stores of deliveries: the one in Postgres and its twin in memory mean the same."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Protocol

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from alerts.channels.channel import Delivered, Outcome, Refused, Retry, Target
from alerts.delivery.breaker import BreakerRule
from alerts.delivery.endpoints import DeliveryLimits
from alerts.delivery.engine import Engine
from alerts.delivery.listing import listed, replay
from alerts.delivery.memory import MemoryStore
from alerts.delivery.postgres_store import PostgresStore, endpoint_of
from alerts.delivery.store import Claim, Delivery, DeliveryStore
from alerts.delivery.verdict import Again, Dead, Disabled, Sent, Verdict
from alerts.notification import Notification
from alerts.notification_json import stored
from alerts.posting import due
from alerts.store import create
from alerts.store import listed as saved
from cdc.addresses import PostgresAddress
from tests.alerts.samples import BEGAN_AT, ManualClock, notification
from tests.alerts.store.conftest import Connect, empty
from tests.alerts.store.wishes import wish
from tests.alerts.test_delivery import Scripted

pytestmark = pytest.mark.stack
LATER = BEGAN_AT + timedelta(seconds=300)
CHANNEL = "scripted"
WAITS = "select pid from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'"


Store = DeliveryStore
Letter = tuple[str, str, datetime | None]
"""A dead delivery, why, and since when."""


class Place(Protocol):
    def store(self) -> Store:
        """Another one over the same deliveries, as another process would have it."""

    def add(self, owner: str, target: str = "there", due_s: float = 0.0) -> str:
        """The delivery's id."""

    def end(self, owner: str) -> None:
        """Their searches, while what waits was just being written down: nobody withdraws it."""

    def attempts(self, delivery: str) -> int: ...

    def dead(self) -> list[Letter]: ...

    def replay(self, delivery: str, now: datetime) -> bool: ...


class InMemory:
    def __init__(self) -> None:
        self._store, self._numbers = MemoryStore(), count(1)

    def store(self) -> Store:
        return self._store

    def add(self, owner: str, target: str = "there", due_s: float = 0.0) -> str:
        id_ = str(next(self._numbers))
        to = Target(endpoint_of(owner, CHANNEL, target), CHANNEL, target)
        told = notification(f"msg_{id_}", int(id_), owner=owner)
        self._store.add(Delivery(id_, to, told), BEGAN_AT + timedelta(seconds=due_s))
        return id_

    def end(self, owner: str) -> None:
        kept = self._store.kept.values()
        self._store.unwanted |= {each.delivery.id for each in kept if each.delivery.notification.owner == owner}

    def attempts(self, delivery: str) -> int:
        return self._store.kept[delivery].delivery.attempts

    def dead(self) -> list[Letter]:
        return [(each.delivery.id, each.verdict.reason, each.settled_at) for each in self._store.dead()]  # type: ignore[union-attr]

    def replay(self, delivery: str, now: datetime) -> bool:
        return self._store.replay(delivery, now)


@dataclass
class InPostgres:
    address: PostgresAddress
    conn: psycopg.Connection

    def __post_init__(self) -> None:
        self._numbers = count(1)

    def store(self) -> Store:
        return PostgresStore(self.address)

    def add(self, owner: str, target: str = "there", due_s: float = 0.0) -> str:
        number = next(self._numbers)
        told = notification(f"msg_{number}", number, owner=owner)
        search = next((each.id for each in saved(self.conn, owner)), None) or create(self.conn, owner, wish()).id
        self.conn.execute(
            "insert into headwater.notifications (id, owner, sequence, channel, target, subscription_ids,"
            " first_sequence, last_sequence, events, body, unsubscribe_token)"
            " values (%s, %s, %s, %s, %s, %s, 1, 1, 1, %s, %s)",
            [told.id, owner, number, CHANNEL, target, [search], stored(told).decode(), told.id],
        )
        return str(due(self.conn, told.id, owner, CHANNEL, target, BEGAN_AT + timedelta(seconds=due_s)))

    def end(self, owner: str) -> None:
        self.conn.execute("update headwater.subscriptions set paused = true where owner = %s", [owner])

    def attempts(self, delivery: str) -> int:
        row = self.conn.execute("select attempts from headwater.deliveries where id = %s", [int(delivery)]).fetchone()
        assert row is not None
        return int(row[0])

    def dead(self) -> list[Letter]:
        letters = [(str(each.id), each.last_error, each.settled_at) for each in listed(self.conn, "dead")]
        return sorted(letters, key=lambda letter: letter[2] or BEGAN_AT, reverse=True)

    def replay(self, delivery: str, now: datetime) -> bool:
        return replay(self.conn, [int(delivery)], lambda: now).ids != []


@pytest.fixture(params=["memory", "postgres"])
def place(request: pytest.FixtureRequest) -> Place:
    if request.param == "memory":
        return InMemory()
    connect: Connect = request.getfixturevalue("connect")
    return InPostgres(request.getfixturevalue("alerts_address"), connect())


def on(place: Place, do: Callable[[Store], Awaitable[None]]) -> None:
    async def run() -> None:
        store = place.store()
        try:
            await do(store)
        finally:
            if isinstance(store, PostgresStore):
                await store.close()

    asyncio.run(run())


async def claimed(
    store: Store, at_s: float = 0.0, most: int = 100, each: int = 100, skipping: object = ()
) -> list[str]:
    now = BEGAN_AT + timedelta(seconds=at_s)
    found = await store.claim(Claim(now, now + timedelta(seconds=300), most, each, skipping))  # type: ignore[arg-type]
    return [delivery.id for delivery in found]


class TestClaims:
    def test_the_longest_due_first_and_nothing_before_its_time(self, place: Place) -> None:
        late, early = place.add("ada", due_s=-1), place.add("bob", due_s=-5)
        place.add("eve", due_s=1)

        async def do(store: Store) -> None:
            assert await claimed(store) == [early, late]

        on(place, do)

    def test_what_is_claimed_is_what_was_told(self, place: Place) -> None:
        id_ = place.add("ada", "https://hooks.example/")

        async def do(store: Store) -> None:
            (found,) = await store.claim(Claim(BEGAN_AT, LATER, 10, 10))
            assert (found.id, found.target.address, found.attempts) == (id_, "https://hooks.example/", 0)
            assert found.target.id == endpoint_of("ada", CHANNEL, "https://hooks.example/")
            assert found.notification == notification(found.notification.id, 1, owner="ada")

        on(place, do)

    def test_nobodys_backlog_hides_the_others(self, place: Place) -> None:
        backlog = [place.add("ada", due_s=-100 + number) for number in range(20)]
        other = place.add("bob")

        async def do(store: Store) -> None:
            assert await claimed(store, most=4, each=3) == [*backlog[:3], other]

        on(place, do)

    def test_as_many_as_asked_for(self, place: Place) -> None:
        ids = [place.add(f"owner{number}", due_s=number - 10) for number in range(5)]

        async def do(store: Store) -> None:
            assert await claimed(store, most=2) == ids[:2]
            assert await claimed(store, most=2) == ids[2:4]

        on(place, do)

    def test_an_endpoint_is_an_owners_and_a_target(self, place: Place) -> None:
        place.add("ada", "here")
        there, bobs = place.add("ada", "there"), place.add("bob", "here")

        async def do(store: Store) -> None:
            assert await claimed(store, skipping={endpoint_of("ada", CHANNEL, "here")}) == [there, bobs]

        on(place, do)

    def test_a_lease_runs_out(self, place: Place) -> None:
        id_ = place.add("ada")

        async def do(store: Store) -> None:
            assert await claimed(store) == [id_]
            assert await claimed(store, 299) == []
            assert await claimed(store, 300) == [id_]

        on(place, do)

    def test_what_nobody_wants_any_more_is_withdrawn(self, place: Place) -> None:
        adas, bobs, second = place.add("ada"), place.add("bob"), place.add("ada", "elsewhere", due_s=9)

        async def do(store: Store) -> None:
            assert sorted(await claimed(store)) == [adas, bobs]
            place.end("ada")
            assert not await store.is_open(adas), "it was claimed, and is not tried any more"
            assert await store.is_open(bobs)
            await store.release([adas, bobs])
            assert await claimed(store, 9) == [bobs]
            assert [await store.is_open(each) for each in (adas, second)] == [False, False]
            assert (place.dead(), place.attempts(adas)) == ([], 0)

        on(place, do)

    def test_two_never_have_the_same(self, place: Place) -> None:
        ids = {place.add(f"owner{number % 7}") for number in range(60)}

        async def do(store: Store) -> None:
            stores = [store, place.store(), place.store()]
            found = await asyncio.gather(*(claimed(each, most=15) for each in stores * 3))
            flat = [id_ for each in found for id_ in each]
            rest = await claimed(store)
            assert len(flat) == len(set(flat))
            assert {*flat, *rest} == ids
            for each in stores[1:]:
                if isinstance(each, PostgresStore):
                    await each.close()

        on(place, do)


class TestVerdicts:
    def test_sent_is_final(self, place: Place) -> None:
        id_ = place.add("ada")

        async def do(store: Store) -> None:
            await claimed(store)
            await store.settle(id_, Sent(), BEGAN_AT)
            for late in (Again(BEGAN_AT, "late"), Dead("late"), Disabled("late")):
                await store.settle(id_, late, BEGAN_AT)
            assert await claimed(store, 10_000) == []
            assert place.dead() == []
            assert not place.replay(id_, BEGAN_AT)
            assert place.attempts(id_) == 1
            place.add("ada")
            assert len(await claimed(store)) == 1, "the endpoint was not switched off by a late verdict"

        on(place, do)

    def test_many_at_once(self, place: Place) -> None:
        ids = [place.add(f"owner{number % 3}") for number in range(40)]

        async def do(store: Store) -> None:
            await claimed(store)
            await asyncio.gather(*(store.settle(id_, Sent(), BEGAN_AT) for id_ in ids))
            assert await claimed(store, 10_000) == []
            assert {place.attempts(id_) for id_ in ids} == {1}

        on(place, do)

    def test_again_at_its_time_with_its_attempts_counted(self, place: Place) -> None:
        id_ = place.add("ada")

        async def do(store: Store) -> None:
            await claimed(store)
            await store.settle(id_, Again(BEGAN_AT + timedelta(seconds=5), "busy"), BEGAN_AT)
            assert await claimed(store, 4.9) == []
            (found,) = await store.claim(Claim(BEGAN_AT + timedelta(seconds=5), LATER, 10, 10))
            assert (found.id, found.attempts) == (id_, 1)

        on(place, do)

    def test_a_dead_letter_and_its_replay(self, place: Place) -> None:
        ids = [place.add("ada") for _ in range(3)]

        async def do(store: Store) -> None:
            await claimed(store)
            for number, id_ in enumerate(ids):
                await store.settle(id_, Dead(f"reason {number}"), BEGAN_AT + timedelta(seconds=number))
            dead_at = [BEGAN_AT + timedelta(seconds=number) for number in range(3)]
            assert place.dead()[:2] == [(ids[2], "reason 2", dead_at[2]), (ids[1], "reason 1", dead_at[1])]
            assert await claimed(store, 10_000) == []
            assert place.replay(ids[1], BEGAN_AT + timedelta(seconds=9))
            assert not place.replay("999999", BEGAN_AT)
            assert await claimed(store, 8) == []
            assert await claimed(store, 9) == [ids[1]]
            assert place.attempts(ids[1]) == 0, "it has all its attempts before it"

        on(place, do)

    def test_disabled_disposes_of_all_that_waits_there(self, place: Place) -> None:
        first, second = place.add("ada", "here", -1), place.add("ada", "here")
        bobs = place.add("bob", "here", 1)

        async def do(store: Store) -> None:
            await claimed(store)
            await store.settle(first, Disabled("410"), BEGAN_AT)
            assert {id_: reason for id_, reason, _ in place.dead()} == {first: "410", second: "410"}
            assert await claimed(store, 1) == [bobs], "its URL is bob's own affair"
            assert (place.attempts(first), place.attempts(second)) == (1, 0)
            third = place.add("ada", "here", 2)
            assert (third, "410", BEGAN_AT + timedelta(seconds=2)) in place.dead(), "it waits for nothing"
            assert await claimed(store, 2) == []
            assert place.replay(second, BEGAN_AT)
            fourth = place.add("ada", "here", 2)
            assert sorted(await claimed(store, 2)) == sorted([second, fourth]), "a replay switches it on"

        on(place, do)


class TestHolds:
    def test_given_back_is_due_as_before(self, place: Place) -> None:
        one, two = place.add("ada", due_s=-1), place.add("ada")

        async def do(store: Store) -> None:
            assert await claimed(store) == [one, two]
            await store.settle(two, Sent(), BEGAN_AT)
            await store.release([one, two])
            await store.release([])
            assert await claimed(store) == [one]
            assert place.attempts(one) == 0

        on(place, do)

    def test_held_until_and_the_longer_hold_stays(self, place: Place) -> None:
        id_, bobs = place.add("ada"), place.add("bob")
        endpoint = endpoint_of("ada", CHANNEL, "there")

        async def do(store: Store) -> None:
            await store.hold(endpoint, BEGAN_AT + timedelta(seconds=60), "busy")
            await store.hold(endpoint, BEGAN_AT + timedelta(seconds=30), "busy")
            assert await claimed(store) == [bobs]
            assert await claimed(store, 59) == []
            assert await claimed(store, 60) == [id_]

        on(place, do)


class TestEndpoints:
    def test_since_when_one_fails(self, place: Place) -> None:
        first, second = place.add("ada"), place.add("ada", due_s=1)

        async def failing(store: Store, at_s: float) -> datetime | None:
            now = BEGAN_AT + timedelta(seconds=at_s)
            [found] = await store.claim(Claim(now, now, 1, 1))
            return found.failing_since

        async def do(store: Store) -> None:
            assert await failing(store, 0) is None
            await store.settle(first, Again(LATER, "busy"), BEGAN_AT)
            assert await failing(store, 1) == BEGAN_AT
            await store.settle(second, Again(LATER, "busy"), BEGAN_AT + timedelta(seconds=1))
            assert await failing(store, 300) == BEGAN_AT, "the first failure counts"
            await store.settle(first, Sent(), LATER)
            assert await failing(store, 300) is None

        on(place, do)


def test_a_message_expires_with_the_last_of_its_searches(connect: Connect, alerts_address: PostgresAddress) -> None:
    place = InPostgres(alerts_address, connect())
    ids = [create(place.conn, "ada", wish(expires_at=LATER + timedelta(days=n))).id for n in range(2)]
    lasting = create(place.conn, "ada", wish()).id
    paused = create(place.conn, "ada", wish(paused=True)).id
    for number, named in enumerate(([*ids, paused], ids[:1], [*ids, lasting])):
        place.add(f"owner{number}", due_s=-9 + number)
        place.conn.execute(
            "update headwater.notifications set subscription_ids = %s where sequence = %s", [named, number + 1]
        )

    async def do(store: Store) -> None:
        found = await store.claim(Claim(BEGAN_AT, LATER, 10, 10))
        assert [each.expires_at for each in found] == [LATER + timedelta(days=1), LATER, None]

    on(place, do)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("update headwater.subscriptions set paused = true, unsubscribed_at = now()", "its searches have ended"),
        ("delete from headwater.subscriptions", "its searches have ended"),
        (
            "insert into headwater.suppressions (channel, target, reason) select channel, target, 'complained'"
            " from headwater.deliveries on conflict do nothing",
            "its target wants nothing any more",
        ),
    ],
)
def test_a_claim_withdraws_what_was_written_down_while_it_was_given_up(
    connect: Connect, alerts_address: PostgresAddress, change: str, why: str
) -> None:
    """Who ends a search withdraws what waits, and sees nothing of a transaction that goes on beside it."""
    place = InPostgres(alerts_address, connect())
    for number in range(3):
        place.add("ada", due_s=-number)
    place.conn.execute(change.encode())

    async def do(store: Store) -> None:
        assert await claimed(store, each=2) == []
        assert await claimed(store, each=2) == []

    on(place, do)
    assert {(each.state, each.last_error) for each in listed(place.conn)} == {("suppressed", f"withdrawn: {why}")}


def test_a_bounce_withdraws_what_others_would_send_there(connect: Connect, alerts_address: PostgresAddress) -> None:
    place = InPostgres(alerts_address, connect())
    adas, bobs, elsewhere = place.add("ada", "a@b.c"), place.add("bob", "a@b.c"), place.add("bob", "b@b.c")
    place.conn.execute("update headwater.deliveries set channel = 'email'")
    place.conn.execute("update headwater.endpoints set channel = 'email'")

    async def do(store: Store) -> None:
        assert sorted(await claimed(store)) == [adas, bobs, elsewhere]
        await store.settle(adas, Disabled("550 no such user"), BEGAN_AT)
        assert [await store.is_open(each) for each in (adas, bobs, elsewhere)] == [False, False, True]

    on(place, do)
    states = {str(each.id): each.state for each in listed(place.conn)}
    assert states == {adas: "dead", bobs: "suppressed", elsewhere: "pending"}


def test_a_message_that_cannot_be_read_is_a_dead_letter_and_stops_nobody(
    connect: Connect, alerts_address: PostgresAddress
) -> None:
    place = InPostgres(alerts_address, connect())
    bad, bobs = place.add("ada", due_s=-1), place.add("bob")
    place.conn.execute("update headwater.notifications set body = '{}' where owner = 'ada'")

    async def do(store: Store) -> None:
        assert await claimed(store) == [bobs]
        [(dead, reason, _)] = place.dead()
        assert (dead, reason.startswith("a stored message cannot be read: ")) == (bad, True)
        assert await claimed(store, 10_000) == [bobs]

    on(place, do)


def test_what_comes_due_while_an_endpoint_is_switched_off_is_dead_too(
    connect: Connect, alerts_address: PostgresAddress
) -> None:
    place, other = InPostgres(alerts_address, connect()), connect()
    first = place.add("ada")

    async def do(store: Store) -> None:
        await claimed(store)
        with place.conn.transaction():
            place.add("ada")
            settling = asyncio.create_task(store.settle(first, Disabled("410"), BEGAN_AT))
            async with asyncio.timeout(10):
                while not other.execute(WAITS).fetchall():
                    await asyncio.sleep(0.01)
        await settling
        assert [reason for _, reason, _ in place.dead()] == ["410", "410"]

    on(place, do)


def test_what_comes_due_during_a_claim_is_not_overlooked(connect: Connect, alerts_address: PostgresAddress) -> None:
    """Posted and claimed at once, by several: every delivery is claimed by somebody, and soon."""
    place = InPostgres(alerts_address, connect())
    done, wanted, found = threading.Event(), 400, list[str]()

    def post() -> None:
        for number in range(wanted):
            place.add(f"o{number % 3}", due_s=-1)
        done.set()

    async def keep_on() -> None:
        store, idle = PostgresStore(alerts_address), 0
        while idle < 2:
            ids = await claimed(store, each=4)
            found.extend(ids)
            await asyncio.gather(*(store.settle(id_, Sent(), BEGAN_AT) for id_ in ids))
            idle = 0 if ids or not done.is_set() else idle + 1
        await store.close()

    async def run() -> None:
        await asyncio.gather(keep_on(), keep_on())

    posting = threading.Thread(target=post)
    posting.start()
    asyncio.run(run())
    posting.join()
    assert len(found) == len(set(found)) == wanted


STEPS = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 3), st.floats(-5, 20)),
    st.tuples(st.just("claim"), st.integers(1, 3), st.booleans()),
    st.tuples(st.just("settle"), st.integers(0, 5), st.sampled_from(["sent", "again", "dead", "disabled"])),
    st.tuples(st.just("release"), st.integers(0, 5), st.none()),
    st.tuples(st.just("hold"), st.integers(0, 3), st.floats(0, 30)),
    st.tuples(st.just("replay"), st.integers(0, 5), st.none()),
    st.tuples(st.just("pass"), st.floats(0, 40), st.none()),
)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(STEPS, max_size=40))
def test_both_stores_claim_the_same_whatever_happens(
    connect: Connect, alerts_address: PostgresAddress, steps: list[tuple[str, Any, Any]]
) -> None:
    """Of each endpoint the same deliveries: what is due is never overlooked, what is not is never claimed."""
    conn = connect()
    empty(conn)
    places: tuple[Place, Place] = (InMemory(), InPostgres(alerts_address, conn))

    async def run() -> None:
        stores = [place.store() for place in places]
        now, names, held = BEGAN_AT, list[tuple[str, str]](), list[tuple[str, str]]()
        for what, one, other in [*steps, ("pass", 1_000.0, None), ("claim", 100, False)]:
            if what == "pass":
                now += timedelta(seconds=one)
            elif what == "add":
                due_s = (now - BEGAN_AT).total_seconds() + other
                names.append((places[0].add(f"o{one}", due_s=due_s), places[1].add(f"o{one}", due_s=due_s)))
            elif what == "hold":
                for store in stores:
                    await store.hold(endpoint_of(f"o{one}", CHANNEL, "there"), now + timedelta(seconds=other), "busy")
            elif what == "claim":
                skipping = {endpoint_of("o0", CHANNEL, "there")} if other else set[str]()
                claim = Claim(now, now + timedelta(seconds=15), 1_000, one, skipping)
                mine, theirs = [{each.id for each in await store.claim(claim)} for store in stores]
                assert {name for name in names if name[0] in mine} == {name for name in names if name[1] in theirs}
                held += [name for name in names if name[0] in mine]
            elif what == "replay" and names:
                name = names[one % len(names)]
                assert places[0].replay(name[0], now) == places[1].replay(name[1], now)
            elif held:
                name = held.pop(one % len(held))
                for store, id_ in zip(stores, name, strict=True):
                    if what == "release":
                        await store.release([id_])
                    else:
                        await store.settle(id_, verdict(other, now), now)
        assert [places[0].attempts(one) for one, _ in names] == [places[1].attempts(other) for _, other in names]
        await stores[1].close()  # type: ignore[attr-defined]

    asyncio.run(run())


def verdict(what: str, now: datetime) -> Verdict:
    again = Again(now + timedelta(seconds=5), "busy")
    return {"sent": Sent(), "again": again, "dead": Dead("no"), "disabled": Disabled("410")}[what]


def test_the_engine_over_it(place: Place) -> None:
    """Everything is settled, whatever the endpoints answer, through holds, retries and dead letters."""
    clock = ManualClock()
    ids = [place.add(f"owner{number % 6}", due_s=-1) for number in range(30)]
    told: dict[str, list[Outcome]] = {}

    def does(given: Notification, target: Target) -> Outcome:
        tried = told.setdefault(given.id, [])
        bad = given.owner == "owner0"
        tried.append(Refused("no") if bad else Retry("busy", 90.0) if len(tried) < 2 else Delivered())
        return tried[-1]

    async def do(store: Store) -> None:
        limits = DeliveryLimits(10, 8, 4, 2, 20, claim_interval_s=0.0)
        engine = Engine(store, {CHANNEL: Scripted(does)}, limits, BreakerRule(3), clock, lambda: 0.5)
        for _ in range(60):
            await engine.run_until_idle()
            clock.advance(400)
        assert await claimed(store, 10**7) == []
        assert len(place.dead()) == 5

    on(place, do)
    assert len(told) == len(ids)
    assert all(len(outcomes) == (1 if Refused("no") in outcomes else 3) for outcomes in told.values())

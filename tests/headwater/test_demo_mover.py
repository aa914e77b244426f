"""The mover: data that stays consistent however it is moved, and a mover that outlives what it depends on."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest
from psycopg import Connection

from cdc.addresses import PostgresAddress
from cdc.errors import SourceError
from headwater import demo
from headwater.demo import mover as mover_module
from headwater.demo import shop_actions
from headwater.demo.draw import Draw
from headwater.demo.load import rows_cursor
from headwater.demo.mover import ACTIONS
from headwater.demo.rows import ROWS
from headwater.demo.turn import Turn
from tests.headwater.demo_checks import broken_invariants, contents

DEADLINE_S = 30.0
AT = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
SMALL = demo.Size(60)


def still() -> datetime:
    return AT


@pytest.fixture
def conn(postgres: PostgresAddress) -> Iterator[Connection[Any]]:
    with psycopg.connect(postgres.conninfo(), autocommit=True) as opened:
        yield opened


@pytest.fixture
def loaded(conn: Connection[Any]) -> Connection[Any]:
    demo.load(conn, SMALL)
    return conn


def test_every_action_does_something_and_breaks_nothing(
    loaded: Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shop_actions, "HITS_KEPT_MAX", 50)
    for action, _ in ACTIONS:
        rows = 0
        for attempt in range(20):
            with loaded.transaction(), rows_cursor(loaded) as cur:
                rows += action(Turn(cur, Draw(f"{action.__name__}/{attempt}"), AT))
        assert rows > 0, action.__name__
        assert broken_invariants(loaded) == {}, action.__name__


def test_an_action_reports_the_rows_that_the_log_will_carry(loaded: Connection[Any], postgres: PostgresAddress) -> None:
    """Counted by triggers, which see what logical decoding sees, cascades included."""
    loaded.execute("CREATE TABLE public.seen (n int)")
    loaded.execute(
        "CREATE FUNCTION public.see() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN INSERT INTO public.seen VALUES (1); RETURN NULL; END $$"
    )
    for table in ROWS:
        loaded.execute(
            f"CREATE TRIGGER see AFTER INSERT OR UPDATE OR DELETE ON public.{table}"
            " FOR EACH ROW EXECUTE FUNCTION public.see()"
        )
    with demo.Mover(postgres, seed=11, clock=still) as mover:
        for _ in range(150):
            loaded.execute("TRUNCATE public.seen")
            step = mover.step()
            found = loaded.execute("SELECT count(*) FROM public.seen").fetchone()
            # A savepoint rolled back leaves nothing, so a viewing given up is not counted on either side.
            assert found == (step.rows if step.committed else 0,), step


@pytest.mark.parametrize("seed", range(3))
def test_many_steps_keep_the_data_consistent(loaded: Connection[Any], postgres: PostgresAddress, seed: int) -> None:
    taken: Counter[str] = Counter()
    with demo.Mover(postgres, seed=seed, clock=still) as mover:
        for number in range(400):
            taken[mover.step().name] += 1
            if number % 20 == 0:
                assert broken_invariants(loaded) == {}
    assert broken_invariants(loaded) == {}
    assert len(taken) > 15
    listings = (demo.read_status(loaded).rows or {})["listings"]
    assert 30 <= listings <= 120  # as many come as go


def test_the_same_seed_moves_the_same_data_the_same_way(loaded: Connection[Any], postgres: PostgresAddress) -> None:
    def moved(seed: int) -> dict[str, list[Any]]:
        demo.load(loaded, SMALL, reset=True)
        with demo.Mover(postgres, seed=seed, clock=still) as mover:
            for _ in range(150):
                mover.step()
        return contents(loaded)

    assert moved(1) == moved(1)
    assert moved(1) != moved(2)


def test_a_mover_started_again_goes_on_and_does_not_repeat(loaded: Connection[Any], postgres: PostgresAddress) -> None:
    """A repeated draw would make an order with the identity of an earlier one."""
    steps = []
    for _ in range(4):
        with demo.Mover(postgres, clock=still) as mover:
            steps.append([mover.step() for _ in range(60)])
    assert all(steps[0] != later for later in steps[1:])


def test_a_rolled_back_step_leaves_nothing(
    loaded: Connection[Any], postgres: PostgresAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mover_module, "ROLLED_BACK_SHARE", 1.0)
    before = contents(loaded)
    with demo.Mover(postgres) as mover:
        steps = [mover.step() for _ in range(60)]
    assert not any(step.committed for step in steps)
    assert contents(loaded) == before


def test_some_steps_are_rolled_back_and_some_change_keys(loaded: Connection[Any], postgres: PostgresAddress) -> None:
    with demo.Mover(postgres, seed=2, clock=still) as mover:
        steps = [mover.step() for _ in range(300)]
    assert 0 < sum(not step.committed for step in steps) < 40
    assert {"reorder_photos", "rename_product"} <= {step.name for step in steps}
    assert loaded.execute("SELECT count(*) > 0 FROM public.stock WHERE sku LIKE '%-R%'").fetchone() == (True,)


def test_movers_beside_each_other_keep_the_data_consistent(loaded: Connection[Any], postgres: PostgresAddress) -> None:
    def move(seed: int) -> int:
        with demo.Mover(postgres, rate_per_s=10_000, seed=seed) as mover:
            return mover.run(threading.Event(), transactions_max=200)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(move, (1, 1, 2))) == [200, 200, 200]
    assert broken_invariants(loaded) == {}


def test_moving_what_is_not_loaded_is_refused(conn: Connection[Any], postgres: PostgresAddress) -> None:
    with demo.Mover(postgres) as mover:
        with pytest.raises(demo.NotLoaded):
            mover.run(threading.Event())
        demo.load(conn, SMALL)
        assert mover.run(threading.Event(), transactions_max=1) == 1


def test_nothing_moves_while_a_load_is_under_way(conn: Connection[Any], postgres: PostgresAddress) -> None:
    with demo.Mover(postgres) as mover:

        def move_too(rows: int) -> None:
            with pytest.raises(demo.NotLoaded):
                mover.step()

        demo.load(conn, SMALL, progress=move_too)
        assert mover.step().rows > 0


def test_an_address_where_nothing_answers_is_said_at_once() -> None:
    nowhere = PostgresAddress("127.0.0.1", 1, "none", "none", "secret")
    with demo.Mover(nowhere) as mover, pytest.raises(SourceError, match="cannot reach") as refusal:
        mover.run(threading.Event())
    assert "secret" not in str(refusal.value)


class Running:
    """A mover at work in its own thread, and what it told."""

    def __init__(self, address: PostgresAddress, **options: Any) -> None:
        self.stop = threading.Event()
        self.outages = 0
        self._steps = 0
        self._told = threading.Condition()
        self._mover = demo.Mover(address, 500, on_step=self._step, on_outage=self._outage, **options)
        self._pool = ThreadPoolExecutor(1)
        self.result = self._pool.submit(self._mover.run, self.stop)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self._pool.shutdown()
        self._mover.close()

    def _step(self, step: demo.Step) -> None:
        with self._told:
            self._steps += 1
            self._told.notify_all()

    def _outage(self, error: Exception) -> None:
        with self._told:
            self.outages += 1
            self._told.notify_all()

    def await_steps(self, more: int = 10) -> None:
        with self._told:
            target = self._steps + more
            assert self._told.wait_for(lambda: self._steps >= target, DEADLINE_S)

    def await_outage(self) -> None:
        with self._told:
            assert self._told.wait_for(lambda: self.outages > 0, DEADLINE_S)


def cut_connections(conn: Connection[Any]) -> None:
    conn.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )


def test_a_mover_outlives_its_connection(loaded: Connection[Any], postgres: PostgresAddress) -> None:
    with Running(postgres) as running:
        for _ in range(5):
            running.await_steps()
            cut_connections(loaded)
            running.await_steps()
        assert running.outages >= 1
        running.stop.set()
        assert running.result.result(DEADLINE_S) > 50
    assert broken_invariants(loaded) == {}


def test_a_mover_waits_while_the_data_is_loaded_anew(loaded: Connection[Any], postgres: PostgresAddress) -> None:
    with Running(postgres) as running:
        running.await_steps()
        demo.reset(loaded)
        running.await_outage()
        assert set((demo.read_status(loaded).rows or {}).values()) == {0}
        demo.load(loaded, SMALL)
        running.await_steps()
    assert broken_invariants(loaded) == {}


def test_a_mover_gives_up_after_the_limit_of_an_outage(loaded: Connection[Any], postgres: PostgresAddress) -> None:
    with Running(postgres, outage_s_max=0.2) as running:
        running.await_steps()
        demo.reset(loaded)
        with pytest.raises(SourceError, match="did not come back"):
            running.result.result(DEADLINE_S)


def test_stop_ends_a_mover_that_waits(loaded: Connection[Any], postgres: PostgresAddress) -> None:
    with Running(postgres) as running:
        running.await_steps()
        demo.reset(loaded)
        running.await_outage()
        running.stop.set()
        assert running.result.result(DEADLINE_S) >= 10

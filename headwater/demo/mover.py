"""Keeps the demo's data moving: one action after the other, one transaction each, at a given rate.

Guarantees: every transaction leaves the data consistent; from the same data the same seed takes the same actions; a
lost connection, a restart of Postgres or a reload of the data is waited out, up to a limit.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final

import psycopg
from psycopg import Connection

from cdc.addresses import PostgresAddress
from cdc.errors import SourceError
from headwater.demo import market_actions as market
from headwater.demo import shop_actions as shop
from headwater.demo.dataset import SEED
from headwater.demo.draw import Draw, Weighted
from headwater.demo.load import NotLoaded, next_move, rows_cursor
from headwater.demo.turn import Action, Turn

RATE_PER_S: Final = 5.0
ROLLED_BACK_SHARE: Final = 0.04
ATTEMPTS_MAX: Final = 100
"""Actions tried in one step before giving up: each may find nothing to do."""
CONNECT_S_MAX: Final = 5
BACKOFF_S_MIN: Final = 0.1
BACKOFF_S_MAX: Final = 5.0
OUTAGE_S_MAX: Final = 600.0
BEHIND_S_MAX: Final = 1.0
"""A mover that is further behind its rate than this does not try to catch up."""

ACTIONS: Final[tuple[tuple[Action, int], ...]] = (
    (shop.visit_pages, 28),
    (market.change_price, 14),
    (shop.place_order, 12),
    (market.book_viewing, 9),
    (market.list_property, 7),
    (market.withdraw, 7),
    (shop.return_order, 4),
    (shop.restock, 4),
    (market.accept_offer, 3),
    (market.sell, 3),
    (market.cancel_viewing, 3),
    (market.rewrite_description, 3),
    (shop.settle_orders, 3),
    (market.lose_offer, 2),
    (market.reorder_photos, 2),
    (shop.expire_hits, 2),
    (market.rename_agent, 1),
    (market.change_employer, 1),
    (market.hand_over, 1),
    (market.hire_agent, 1),
    (market.retire_agent, 1),
    (shop.rename_product, 1),
)
"""What happens, and how often relative to the rest. As many listings come as go, so the market keeps its size."""

_BY_WEIGHT: Final = Weighted([action for action, _ in ACTIONS], [weight for _, weight in ACTIONS])


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction of the mover."""

    name: str
    rows: int
    committed: bool


def utc_now() -> datetime:
    return datetime.now(UTC)


class Mover:
    """Not for several threads at once. `step` for one transaction, `run` for many; `close` when done."""

    def __init__(
        self,
        address: PostgresAddress,
        rate_per_s: float = RATE_PER_S,
        seed: int = SEED,
        *,
        clock: Callable[[], datetime] = utc_now,
        on_step: Callable[[Step], None] | None = None,
        on_outage: Callable[[Exception], None] | None = None,
        outage_s_max: float = OUTAGE_S_MAX,
    ) -> None:
        if rate_per_s <= 0:
            raise ValueError("rate_per_s must be above 0")
        self._address = address
        self._interval_s = 1.0 / rate_per_s
        self._seed = seed
        self._clock = clock
        self._on_step = on_step
        self._on_outage = on_outage
        self._outage_s_max = outage_s_max
        self._conn: Connection[Any] | None = None

    def __enter__(self) -> Mover:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        if self._conn is not None:
            self._conn.close()
            self._conn = None

    def step(self) -> Step:
        """One action, as one transaction: committed, or now and then rolled back on purpose.

        Raises NotLoaded, or psycopg.OperationalError if the connection fails; the next step then connects anew.
        """
        for _ in range(ATTEMPTS_MAX):
            step = self._attempt()
            if step.rows:
                return step
        raise SourceError(
            "the demo's data leaves nothing to do",
            detail=f"{ATTEMPTS_MAX} actions tried",
            hint="headwater demo load --reset",
        )

    def run(self, stop: threading.Event, transactions_max: int | None = None) -> int:
        """Steps at the given rate until `stop` is set or the limit is reached; returns the number of steps taken.

        What is wrong at the first step is raised; what goes wrong later is waited out, up to the limit of an outage.
        """
        steps = 0
        due_at = time.monotonic()
        while not stop.is_set() and (transactions_max is None or steps < transactions_max):
            step = self._first_step() if steps == 0 else self._step_through_outage(stop)
            if step is None:
                break
            steps += 1
            if self._on_step:
                self._on_step(step)
            due_at = max(due_at + self._interval_s, time.monotonic() - BEHIND_S_MAX)
            stop.wait(max(0.0, due_at - time.monotonic()))
        return steps

    def _first_step(self) -> Step:
        try:
            return self.step()
        except psycopg.OperationalError as error:
            raise SourceError("cannot reach the demo's Postgres", detail=str(error), hint="headwater status") from error

    def _step_through_outage(self, stop: threading.Event) -> Step | None:
        """None if stopped meanwhile."""
        backoff_s = BACKOFF_S_MIN
        given_up_at = time.monotonic() + self._outage_s_max
        while not stop.is_set():
            try:
                return self.step()
            except (psycopg.OperationalError, NotLoaded) as error:
                self.close()
                if time.monotonic() >= given_up_at:
                    raise SourceError(
                        "the demo's Postgres did not come back",
                        detail=f"{error}; waited {self._outage_s_max:.0f} s",
                        hint="headwater status",
                    ) from error
                if self._on_outage:
                    self._on_outage(error)
                stop.wait(backoff_s)
                backoff_s = min(2 * backoff_s, BACKOFF_S_MAX)
        return None

    def _attempt(self) -> Step:
        """An action that finds nothing to do leaves an empty transaction, which is no step."""
        conn = self._connection()
        with conn.transaction() as transaction, rows_cursor(conn) as cur:
            draw = Draw(f"{self._seed}/move/{next_move(cur)}")
            action = _BY_WEIGHT.draw(draw)
            step = Step(action.__name__, action(Turn(cur, draw, self._clock())), not draw.chance(ROLLED_BACK_SHARE))
            if not step.committed:
                raise psycopg.Rollback(transaction)
        return step

    def _connection(self) -> Connection[Any]:
        if self._conn is None or self._conn.closed:
            self._conn = psycopg.connect(
                self._address.conninfo(),
                autocommit=True,
                connect_timeout=CONNECT_S_MAX,
                application_name="headwater demo",
            )
        return self._conn

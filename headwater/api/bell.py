"""That an owner has news, from the process that delivers to those that serve feeds: Postgres' LISTEN and NOTIFY.

A ring that is lost costs a listener the time until it looks by itself (alerts/channels/feed.py), never news: so both
ends go on after an error, and neither is waited for.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import psycopg

from alerts.channels.feed import FeedHub
from cdc.addresses import PostgresAddress
from cdc.errors import HeadwaterError
from cdc.postgres import connect
from headwater.events_log import get_log

CHANNEL: Final = "headwater_feed"
OWNERS_MAX: Final = 10_000
"""Who is rung for at once; beyond that they look by themselves."""
LISTEN_S: Final = 0.5
AGAIN_S: Final = 2.0
STOP_S_MAX: Final = 5.0


class Bell:
    """Rings on a thread of its own: who delivers does not wait for the database."""

    def __init__(self, postgres: PostgresAddress) -> None:
        self._postgres = postgres
        self._owners: set[str] = set()
        self._changed = threading.Condition()
        self._is_over = False

    def wake_from_thread(self, owner: str) -> None:
        with self._changed:
            if len(self._owners) < OWNERS_MAX:
                self._owners.add(owner)
            self._changed.notify_all()

    @contextmanager
    def ringing(self) -> Iterator[Bell]:
        thread = threading.Thread(target=self._run, name="bell", daemon=True)
        thread.start()
        try:
            yield self
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()
            thread.join(STOP_S_MAX)

    def _run(self) -> None:
        conn: psycopg.Connection | None = None
        while owners := self._next():
            try:
                conn = conn or connect(self._postgres)
                conn.execute("select pg_notify(%s, owner) from unnest(%s::text[]) owner", [CHANNEL, owners])
            except (HeadwaterError, psycopg.Error) as error:
                get_log("alerts").info("feeds were not woken", reason=str(error).strip(), owners=len(owners))
                conn = None
        if conn is not None:
            conn.close()

    def _next(self) -> list[str]:
        """Waits for owners; none when it is over."""
        with self._changed:
            self._changed.wait_for(lambda: self._owners or self._is_over)
            owners, self._owners = list(self._owners), set()
            return owners


class Listening:
    """Wakes the hub of this process when a bell rings."""

    def __init__(self, postgres: PostgresAddress, hub: FeedHub) -> None:
        self._postgres, self._hub = postgres, hub
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="bell", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()

    def _run(self) -> None:
        is_told = False
        while not self._stopping.is_set():
            try:
                with connect(self._postgres) as conn:
                    conn.execute(f"listen {CHANNEL}")
                    is_told = False
                    self._hear(conn)
            except (HeadwaterError, psycopg.Error) as error:
                if not is_told:
                    get_log("api").warning("feeds are not woken, and look by themselves", reason=str(error).strip())
                is_told = True
                self._stopping.wait(AGAIN_S)

    def _hear(self, conn: psycopg.Connection) -> None:
        while not self._stopping.is_set():
            for rung in conn.notifies(timeout=LISTEN_S):
                self._hub.wake_from_thread(rung.payload)

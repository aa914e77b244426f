"""The connection that verdicts share, without a Postgres: made once, and not taken from others by who lost another."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from alerts.delivery import postgres_store
from alerts.delivery.postgres_store import PostgresStore
from alerts.delivery.verdict import Again
from cdc.addresses import PostgresAddress
from cdc.errors import SourceError
from tests.alerts.samples import BEGAN_AT

AGAIN = Again(BEGAN_AT + timedelta(seconds=300), "busy")


@dataclass
class Connection:
    lost: dict[int, asyncio.Event] = field(default_factory=dict)
    """What is asked of these deliveries fails then."""
    closed: bool = False
    description: None = None

    async def execute(self, _statement: str, given: Any = None) -> Connection:
        await asyncio.sleep(0)
        if given and given["id"] in self.lost:
            await self.lost[given["id"]].wait()
            raise psycopg.OperationalError("server closed the connection unexpectedly")
        return self


@dataclass
class Postgres:
    left: list[Connection]
    made: int = 0

    async def connect(self, *_given: object, **_named: object) -> Connection:
        self.made += 1
        await asyncio.sleep(0)
        return self.left.pop(0)


@pytest.fixture
def store() -> PostgresStore:
    return PostgresStore(PostgresAddress("localhost", 5432, "shop", "ada", "secret"))


def test_verdicts_that_come_at_once_make_one_connection(store: PostgresStore, monkeypatch: pytest.MonkeyPatch) -> None:
    postgres = Postgres([Connection() for _ in range(200)])
    monkeypatch.setattr(postgres_store, "AsyncConnection", postgres)

    async def run() -> None:
        await asyncio.gather(*(store.settle(str(number), AGAIN, BEGAN_AT) for number in range(200)))

    asyncio.run(run())
    assert postgres.made == 1


def test_who_fails_late_does_not_take_the_next_connection_from_others(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        lost = {1: asyncio.Event(), 2: asyncio.Event()}
        postgres = Postgres([Connection(lost), Connection(), Connection()])
        monkeypatch.setattr(postgres_store, "AsyncConnection", postgres)
        failing = [asyncio.create_task(store.settle(str(number), AGAIN, BEGAN_AT)) for number in lost]
        for number, settling in zip(lost, failing, strict=True):
            lost[number].set()
            with pytest.raises(SourceError):
                await settling
            await store.settle("3", AGAIN, BEGAN_AT)
        assert postgres.made == 2

    asyncio.run(run())

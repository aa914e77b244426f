"""What waited, or was dead, before endpoints took turns is delivered after."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import psycopg
import pytest

from alerts.clock import system_clock
from alerts.delivery.listing import replay
from alerts.delivery.postgres_store import PostgresStore
from alerts.delivery.store import Claim
from alerts.notification_json import stored
from alerts.store import create
from cdc.addresses import PostgresAddress
from headwater.migrate import migrate
from tests.alerts.samples import notification
from tests.alerts.store.wishes import wish

pytestmark = pytest.mark.stack


def test_what_was_there_before_has_a_turn(postgres: PostgresAddress) -> None:
    migrate(postgres, "0010")
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        for number, state in enumerate(("pending", "dead", "delivered"), 1):
            told = notification(f"msg_{number}", number, owner=f"owner{number}")
            conn.execute(
                "insert into headwater.notifications (id, owner, sequence, channel, target, subscription_ids,"
                " first_sequence, last_sequence, events, body, unsubscribe_token)"
                " values (%s, %s, %s, 'webhook', 'there', '{}', 1, 1, 1, %s, %s)",
                [told.id, told.owner, number, stored(told).decode(), told.id],
            )
            conn.execute(
                "insert into headwater.deliveries (notification_id, channel, target, state)"
                " values (%s, 'webhook', 'there', %s)",
                [told.id, state],
            )
        migrate(postgres)
        conn.execute("update headwater.notifications set subscription_ids = %s", [[create(conn, "ada", wish()).id]])
        assert asyncio.run(claimed(postgres)) == ["owner1"]
        replay(conn, None)
        assert asyncio.run(claimed(postgres)) == ["owner2"]


async def claimed(postgres: PostgresAddress) -> list[str]:
    store, now = PostgresStore(postgres), system_clock() + timedelta(seconds=1)
    try:
        return [each.notification.owner for each in await store.claim(Claim(now, now + timedelta(hours=1), 10, 10))]
    finally:
        await store.close()

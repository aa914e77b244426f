"""Matches, tells and delivers in a process of its own, until it is killed: `python -m tests.alerts.crash.child '{…}'`.

The lane, the sink, the notifier, the store and the engine are the real ones; Spark is not there: the view's topic
is read here, and offered to the lane epoch by epoch as a maintainer in the same process would.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from typing import Any

import psycopg

from alerts.channels.public_addresses import AddressPolicy, Opening
from alerts.channels.webhook import Webhook
from alerts.delivery.endpoints import DeliveryLimits
from alerts.delivery.engine import Engine
from alerts.delivery.postgres_store import PostgresStore
from alerts.notifier import Pace, notify
from alerts.sink import AlertKind
from cdc.addresses import KafkaAddress, PostgresAddress, Source
from cdc.topics import topic_state
from tests.alerts.crash.items import VIEW, shape
from views.maintain.publisher import Frontier, read_frontiers, view_topic
from views.sinks.following import ViewTopic, change, step
from views.sinks.inbox import Delivery
from views.sinks.lane import Lane, LaneLimits
from views.sinks.sink import Mark

LIMITS = DeliveryLimits(lease_s=1.5, attempt_s=1.0, poll_s=0.05)
"""A lease that ends soon: what a killed engine had is somebody else's then."""
LOOK_S = 0.03


def main() -> None:
    given = json.loads(sys.argv[1])
    postgres = PostgresAddress(**given["postgres"])
    feeding = threading.Thread(target=feed, args=(postgres, given), daemon=True)
    feeding.start()
    asyncio.run(tell(postgres))


def feed(postgres: PostgresAddress, given: dict[str, Any]) -> None:
    kafka, source = KafkaAddress(given["bootstrap"]), Source(given["source"])
    topic = ViewTopic(kafka, view_topic(source, VIEW))
    topic_id = topic_state(kafka, topic.name).topic_id
    limits = LaneLimits(check_s=0.2, backoff_s=0.05, chunk_rows_max=5)
    lane, last = Lane(AlertKind(postgres, kafka), shape(source.name), topic, limits), None
    while True:
        frontier = read_frontiers(kafka, source)[VIEW]
        mark = as_mark(frontier, topic_id)
        if last is None or last.since != mark.since:
            lane.offer(Delivery(mark, mark.next_offset, None))  # it missed something: it reads the topic
        elif mark != last:
            for delivery in epochs(topic, last, mark):
                lane.offer(delivery)
        last = mark
        time.sleep(LOOK_S)


def as_mark(frontier: Frontier, topic_id: str) -> Mark:
    times = (frontier.committed_at_us, frontier.published_at_us)
    return Mark(topic_id, frontier.next_offset, frontier.since, frontier.era, frontier.offset, frontier.lsn, *times)


def epochs(topic: ViewTopic, last: Mark, to: Mark) -> list[Delivery]:
    """Each with its changes: to be taken as they are."""
    records = [raw for piece in topic.records(last.next_offset, to.next_offset) for raw in piece]
    found: list[Delivery] = []
    for raw in records:
        marks = [found[-1].mark] if found else []
        before = len(marks)
        step(marks, raw, to)
        if len(marks) > before:
            after = found[-1].mark.next_offset if found else last.next_offset
            found.append(Delivery(marks[-1], after, [change(raw)]))
        else:
            found[-1] = found[-1]._replace(mark=marks[-1], changes=[*(found[-1].changes or ()), change(raw)])
    return found


async def tell(postgres: PostgresAddress) -> None:
    channel = Webhook(AddressPolicy(openings=(Opening.parse("127.0.0.1:*"),)))
    engine = Engine(PostgresStore(postgres), {channel.name: channel}, LIMITS)
    async with asyncio.TaskGroup() as group:
        group.create_task(engine.run(asyncio.Event()))
        group.create_task(notifying(engine, postgres))


async def notifying(engine: Engine, postgres: PostgresAddress) -> None:
    with psycopg.connect(postgres.conninfo(), autocommit=True) as conn:
        while True:
            if (await asyncio.to_thread(notify, conn, Pace(burst_s=0.1))).notifications:
                engine.wake()
            await asyncio.sleep(LOOK_S)


if __name__ == "__main__":
    main()

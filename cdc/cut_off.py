"""Sets the offset of a connector that was cut off back to where it can go on (resuming.py), while no task of it runs.

Two ways lead to where the offset is kept: Connect's REST API for a connector that is stopped, and its topic of offsets
while Connect itself does not run, because it starts its tasks without asking. The log and the offset are written in one
transaction of Kafka's; both are read only when none is open any more, else the offset could be one behind the log.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any, Final

import msgspec
from confluent_kafka import Producer

from cdc.addresses import KafkaAddress, Source
from cdc.connect import ConnectClient
from cdc.envelope import parse
from cdc.errors import CaptureError
from cdc.events import Entry, Record
from cdc.kafka import REQUEST_S_MAX, client_settings, log_errors
from cdc.position import Position
from cdc.reader import read_range
from cdc.resuming import Offset, fits, set_back
from cdc.topics import find_state

WINDOW_FIRST: Final = 256
WINDOW_MAX: Final = 8_192
SETTLE_S_MAX: Final = 90.0
"""Longer than the broker keeps a transaction open whose producer is gone (transaction.timeout.ms, 60 s)."""
SETTLE_LITTLE_S: Final = 3.0
"""For who comes again and has others to look after meanwhile."""
SETTLE_STEP_S: Final = 0.1
TASK: Final = 0
"""Debezium's connector for Postgres has one task."""


def set_right(kafka: KafkaAddress, source: Source, client: ConnectClient, settle_s_max: float = SETTLE_S_MAX) -> bool:
    """For a stopped connector; True if its offset was set back. Waits for its last transaction to be over."""
    _settle(kafka, source, settle_s_max)
    offsets = client.offsets(source.connector)
    if not offsets:
        return False
    stored = offsets[0]["offset"]
    offset = set_back(stored)
    if offset is None:
        return False
    if not fits(stored, _backwards(kafka, source.changes_topic)):
        raise CaptureError(
            "the connector's offset does not fit the end of its log",
            detail=f"it says {stored}",
            hint="if this lasts: headwater capture reset begins a new era with a fresh snapshot",
        )
    client.alter_offset(source.connector, offsets[0]["partition"], offset)
    return True


def set_all_right(kafka: KafkaAddress, topic: str, group: str) -> list[str]:
    """For all connectors of a Connect that does not run, whose offsets are in that topic; those that were set back.

    What a killed task left open is ended first, under the task's own name, and the offset is written under it: a task
    that lives on somewhere is cut off by that.
    """
    return [
        connector
        for connector, name in _stored(kafka, topic)
        if _set_right_in(kafka, topic, f"{group}-{connector}-{TASK}", (connector, name))
    ]


def _set_right_in(kafka: KafkaAddress, topic: str, transactional_id: str, key: tuple[str, str]) -> bool:
    doing = f"setting the offset of {key[0]} right in {topic}"
    with log_errors(kafka, doing):
        settings = {**client_settings(kafka), "transactional.id": transactional_id, "acks": "all"}
        client = Producer(settings)
        client.init_transactions(REQUEST_S_MAX)
        written, stored = _stored(kafka, topic)[key]
        offset = set_back(stored)
        if offset is None or not fits(stored, _backwards(kafka, Source(key[1]).changes_topic)):
            return False
        client.begin_transaction()
        client.produce(topic, key=written, value=msgspec.json.encode(offset), partition=0)
        client.commit_transaction(REQUEST_S_MAX)
        return True


def _stored(kafka: KafkaAddress, topic: str) -> dict[tuple[str, str], tuple[bytes, Offset]]:
    """By connector and source the key as it is written, and the newest offset."""
    state = find_state(kafka, topic)
    chunks = read_range(kafka, topic, state.low, state.high) if state else ()
    newest = {raw.key: raw.value for chunk in chunks for raw in chunk}
    found: dict[tuple[str, str], tuple[bytes, Offset]] = {}
    for written, value in newest.items():
        if written and value:
            connector, partition = msgspec.json.decode(written, type=tuple[str, dict[str, Any]])
            stored = msgspec.json.decode(value, type=dict[str, Any])
            found[connector, str(partition.get("server", ""))] = written, stored
    return found


def _backwards(kafka: KafkaAddress, topic: str) -> Iterator[Entry]:
    """The log from its last entry on, read in growing windows."""
    state = find_state(kafka, topic)
    if state is None:
        return
    top, width = state.high, WINDOW_FIRST
    while top > state.low:
        bottom = max(state.low, top - width)
        window = [raw for chunk in read_range(kafka, topic, bottom, top) for raw in chunk]
        for raw in reversed(window):
            yield parse(Record(Position(0, raw.offset), raw.written_at_ms, raw.key, raw.value))
        top, width = bottom, min(2 * width, WINDOW_MAX)


def _settle(kafka: KafkaAddress, source: Source, settle_s_max: float) -> None:
    deadline = time.monotonic() + settle_s_max
    while find_state(kafka, source.changes_topic) != find_state(kafka, source.changes_topic, committed=False):
        if time.monotonic() > deadline:
            raise CaptureError(
                "the connector's last transaction is still open in Kafka",
                detail=f"{source.changes_topic} had records that were not committed for {settle_s_max:g} s",
                hint="headwater status; a second Headwater on the same source? one that hangs: docs/recovery.md",
            )
        time.sleep(SETTLE_STEP_S)

"""The topics of the change log: made as they must be, kept so, and recognised when they are made anew.

A topic's name says nothing about whether it is still the same topic; its id, given by Kafka at creation, does. Making a
topic is idempotent: what is there and right is left alone, what differs in its settings is altered, and what cannot be
altered into the right thing (a topic with several partitions has no order) is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # they are public, but not marked as exported
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from cdc.addresses import KafkaAddress
from cdc.errors import LogError
from cdc.kafka import REQUEST_S_MAX, admin, explain, log_errors

BROKER_DEFAULT: Final = -1
SETTLE_S_MAX: Final = 30.0
"""How long the cluster may take to make a topic known, or forgotten, everywhere."""
_SETTLE_STEP_S: Final = 0.02
_PASSING: Final = (
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_LEADER_FOR_PARTITION,
)
"""Answers that another moment cures."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TopicState:
    """One partition's extent: records have offsets in [low, high), though not every offset has a record."""

    topic_id: str
    low: int
    high: int


def ensure_topic(
    kafka: KafkaAddress,
    name: str,
    *,
    partitions: int = 1,
    retention_ms: int | None = None,
    cleanup_policy: str = "delete",
    replication: int = BROKER_DEFAULT,
    config: Mapping[str, str] | None = None,
) -> str:
    """Makes the topic, or alters its settings where they differ, and returns its id.

    `retention_ms` None leaves it to the broker; -1 keeps records for ever. Raises LogError if the topic is there with
    another number of partitions: the log's order would be gone.
    """
    wanted = {"cleanup.policy": cleanup_policy, **(config or {})}
    if retention_ms is not None:
        wanted["retention.ms"] = str(retention_ms)
    found = _describe(kafka, name)
    if found is None:
        _create(kafka, NewTopic(name, partitions, replication, config=wanted))
        found = _settled(lambda: _describe(kafka, name), f"topic {name} was created but is not known to the cluster")
    _require_partitions(name, found, partitions)
    _alter(kafka, name, wanted)
    return str(found.topic_id)


def find_topic(kafka: KafkaAddress, name: str) -> str | None:
    """The topic's id, or None if there is no such topic."""
    found = _describe(kafka, name)
    return None if found is None else str(found.topic_id)


def topic_state(kafka: KafkaAddress, name: str, *, committed: bool = True) -> TopicState:
    """The topic's id and extent. `committed`: high is where readers of committed records end; otherwise the very end,
    with the records of transactions still open at the broker. Raises LogError if there is no such topic, or if it has
    more than one partition."""
    found = find_state(kafka, name, committed=committed)
    if found is None:
        raise LogError(
            f"topic {name} does not exist",
            detail=f"asked at {kafka.bootstrap}",
            hint="headwater up starts capture and makes its topics",
        )
    return found


def find_state(kafka: KafkaAddress, name: str, *, committed: bool = True) -> TopicState | None:
    """Like topic_state, but None if there is no such topic."""
    found = _describe(kafka, name)
    if found is None:
        return None
    _require_partitions(name, found, 1)
    low, high = _extent(kafka, name, committed)
    return TopicState(str(found.topic_id), low, high)


def topic_settings(kafka: KafkaAddress, name: str) -> dict[str, str]:
    """What the broker goes by for the topic, its own defaults included."""
    resource = ConfigResource(ResourceType.TOPIC, name)
    with log_errors(kafka, f"reading the settings of topic {name}"):
        found = admin(kafka).describe_configs([resource], request_timeout=REQUEST_S_MAX)[resource].result()
    return {key: str(entry.value) for key, entry in found.items() if entry.value is not None}


def delete_topic(kafka: KafkaAddress, name: str) -> None:
    """Deletes the topic and waits until it is gone. A topic that is not there is as deleted as can be."""
    try:
        admin(kafka).delete_topics([name], request_timeout=REQUEST_S_MAX)[name].result()
    except KafkaException as error:
        if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
            raise explain(kafka, error.args[0], f"deleting topic {name}") from error
    _settled(lambda: _describe(kafka, name) is None or None, f"topic {name} was deleted but is still there")


def delete_before(kafka: KafkaAddress, name: str, offset: int) -> None:
    """Records before the offset are gone for every reader, at once and for good. Idempotent."""
    partition = TopicPartition(name, 0, offset)
    with log_errors(kafka, f"deleting records of topic {name} before {offset}"):
        admin(kafka).delete_records([partition], request_timeout=REQUEST_S_MAX)[partition].result()


def _describe(kafka: KafkaAddress, name: str) -> TopicDescription | None:
    try:
        described = admin(kafka).describe_topics(TopicCollection([name]), request_timeout=REQUEST_S_MAX)
        found: TopicDescription = described[name].result()
    except KafkaException as error:
        if error.args[0].code() == KafkaError.UNKNOWN_TOPIC_OR_PART:
            return None
        raise explain(kafka, error.args[0], f"describing topic {name}") from error
    return found


def _extent(kafka: KafkaAddress, name: str, committed: bool) -> tuple[int, int]:
    """Asked again while the cluster is still agreeing on who leads the partition, as just after a topic is made."""
    deadline = time.monotonic() + SETTLE_S_MAX
    while True:
        try:
            with log_errors(kafka, f"asking for the extent of topic {name}"):
                return _asked_extent(kafka, name, committed)
        except LogError as error:
            cause = error.__cause__
            passing = isinstance(cause, KafkaException) and cause.args[0].code() in _PASSING
            if not passing or time.monotonic() > deadline:
                raise
        time.sleep(_SETTLE_STEP_S)


def _asked_extent(kafka: KafkaAddress, name: str, committed: bool) -> tuple[int, int]:
    partition = TopicPartition(name, 0)
    level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    client = admin(kafka)
    asked = [
        client.list_offsets({partition: spec}, isolation_level=level, request_timeout=REQUEST_S_MAX)[partition]
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())  # type: ignore[no-untyped-call]
    ]
    low, high = (answer.result().offset for answer in asked)
    return low, high


def _require_partitions(name: str, found: TopicDescription, partitions: int) -> None:
    if len(found.partitions) != partitions:
        raise LogError(
            f"topic {name} has {len(found.partitions)} partitions instead of {partitions}",
            detail="the change log is one partition: with more there is no order between transactions",
            hint=f"kafka-topics.sh --delete --topic {name}, then headwater up",
        )


def _create(kafka: KafkaAddress, topic: NewTopic) -> None:
    try:
        admin(kafka).create_topics([topic], request_timeout=REQUEST_S_MAX)[topic.topic].result()
    except KafkaException as error:
        # Somebody else made it in the meantime: what matters is that it is there, and it is checked like any other.
        if error.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise explain(kafka, error.args[0], f"creating topic {topic.topic}") from error


def _alter(kafka: KafkaAddress, name: str, wanted: Mapping[str, str]) -> None:
    resource = ConfigResource(ResourceType.TOPIC, name)
    with log_errors(kafka, f"reading the settings of topic {name}"):
        found = admin(kafka).describe_configs([resource], request_timeout=REQUEST_S_MAX)[resource].result()
    differing = {key: value for key, value in wanted.items() if key not in found or found[key].value != value}
    if not differing:
        return
    changes = [ConfigEntry(key, value, incremental_operation=AlterConfigOpType.SET) for key, value in differing.items()]
    target = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
    with log_errors(kafka, f"altering the settings of topic {name}"):
        admin(kafka).incremental_alter_configs([target], request_timeout=REQUEST_S_MAX)[target].result()


def _settled(ask: Callable[[], T | None], fact: str) -> T:
    deadline = time.monotonic() + SETTLE_S_MAX
    while (answer := ask()) is None:
        if time.monotonic() > deadline:
            raise LogError(fact, detail=f"waited {SETTLE_S_MAX:.0f} s", hint="headwater logs kafka")
        time.sleep(_SETTLE_STEP_S)
    return answer

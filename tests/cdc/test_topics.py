"""Topics are made as they must be, once, and recognised when made anew: on the real broker."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import ConfigResource, NewTopic, ResourceType

from cdc.addresses import KafkaAddress, Source
from cdc.errors import LogError
from cdc.kafka import admin
from cdc.topics import delete_topic, ensure_topic, find_topic, topic_state
from tests.waiting import eventually

pytestmark = pytest.mark.stack


def setting(kafka: KafkaAddress, topic: str, name: str) -> str:
    resource = ConfigResource(ResourceType.TOPIC, topic)
    return admin(kafka).describe_configs([resource])[resource].result()[name].value


def test_is_made_once_with_its_settings(kafka: KafkaAddress, source: Source) -> None:
    first = ensure_topic(kafka, source.changes_topic, retention_ms=3_600_000, config={"max.message.bytes": "2000000"})
    assert ensure_topic(kafka, source.changes_topic, retention_ms=3_600_000) == first
    assert setting(kafka, source.changes_topic, "retention.ms") == "3600000"
    assert setting(kafka, source.changes_topic, "max.message.bytes") == "2000000"


def test_settings_that_differ_are_altered(kafka: KafkaAddress, source: Source) -> None:
    first = ensure_topic(kafka, source.changes_topic, retention_ms=3_600_000)
    assert ensure_topic(kafka, source.changes_topic, retention_ms=-1, cleanup_policy="compact") == first
    eventually(lambda: setting(kafka, source.changes_topic, "retention.ms") == "-1")
    assert setting(kafka, source.changes_topic, "cleanup.policy") == "compact"


def test_several_partitions_are_refused(kafka: KafkaAddress, source: Source) -> None:
    admin(kafka).create_topics([NewTopic(source.changes_topic, 2, 1)])[source.changes_topic].result()
    eventually(lambda: find_topic(kafka, source.changes_topic) is not None)
    with pytest.raises(LogError, match="has 2 partitions instead of 1"):
        ensure_topic(kafka, source.changes_topic)
    with pytest.raises(LogError, match="has 2 partitions instead of 1"):
        topic_state(kafka, source.changes_topic)


def test_a_topic_made_anew_has_another_id(kafka: KafkaAddress, source: Source) -> None:
    first = ensure_topic(kafka, source.changes_topic)
    delete_topic(kafka, source.changes_topic)
    assert find_topic(kafka, source.changes_topic) is None
    delete_topic(kafka, source.changes_topic)
    assert ensure_topic(kafka, source.changes_topic) != first


def test_the_extent_for_readers_ends_before_what_is_not_committed(kafka: KafkaAddress, source: Source) -> None:
    ensure_topic(kafka, source.changes_topic)
    producer = Producer({**kafka.client(), "transactional.id": source.name, "log_level": 0})
    producer.init_transactions()
    producer.begin_transaction()
    producer.produce(source.changes_topic, value=b"not committed yet")
    producer.flush()
    assert topic_state(kafka, source.changes_topic).high == 0
    assert topic_state(kafka, source.changes_topic, committed=False).high == 1
    producer.commit_transaction()
    eventually(lambda: topic_state(kafka, source.changes_topic).high == 2)


def test_a_topic_that_is_not_there_is_an_error_with_a_hint(kafka: KafkaAddress, source: Source) -> None:
    with pytest.raises(LogError, match="does not exist") as raised:
        topic_state(kafka, source.changes_topic)
    assert "headwater up" in raised.value.hint


def test_a_broker_that_is_not_there_is_an_error_with_a_hint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cdc.topics.REQUEST_S_MAX", 1.0)
    with pytest.raises(LogError, match="kafka does not answer") as raised:
        find_topic(KafkaAddress("127.0.0.1:1"), "any")
    assert raised.value.hint == "headwater status"


def test_a_login_that_is_refused_is_told_from_a_broker_that_is_not_there(
    kafka: KafkaAddress, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc.topics.REQUEST_S_MAX", 1.0)
    login = (("security.protocol", "SASL_PLAINTEXT"), ("sasl.mechanism", "PLAIN"), ("sasl.username", "somebody"))
    with pytest.raises(LogError, match="kafka refused the client") as raised:
        find_topic(KafkaAddress(kafka.bootstrap, (*login, ("sasl.password", "hunter2"))), "any")
    assert "SASL" in raised.value.detail
    assert "hunter2" not in str(raised.value)

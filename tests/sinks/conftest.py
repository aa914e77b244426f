"""A view's topic of its own for a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from cdc.addresses import KafkaAddress
from cdc.topics import delete_topic, ensure_topic
from tests.sinks.places import Publisher


@pytest.fixture
def published(kafka: KafkaAddress, unique: str) -> Iterator[Publisher]:
    topic = f"{unique}.view.items"
    yield Publisher(kafka, topic, ensure_topic(kafka, topic))
    delete_topic(kafka, topic)

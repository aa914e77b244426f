"""One keeper at a time: a second one on the same folder is refused, and a publisher that was replaced says no more."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from cdc.addresses import KafkaAddress, Source
from cdc.errors import StateFenced
from cdc.reader import read_range
from cdc.topics import topic_state
from tests.waiting import eventually
from views.maintain.maintainer import Maintainer
from views.maintain.publisher import Publisher, frontier, read_frontiers, view_topic
from views.maintain.registry import Registry
from views.store import SCHEMA

pytestmark = pytest.mark.stack


def test_a_second_maintainer_is_refused(tmp_path: Path) -> None:
    kafka, source = KafkaAddress("127.0.0.1:1"), Source("nowhere")
    first = Maintainer(None, kafka, source, Registry(tmp_path))  # type: ignore[arg-type]
    with pytest.raises(StateFenced, match="another writer owns the state") as refused:
        Maintainer(None, kafka, source, Registry(tmp_path))  # type: ignore[arg-type]
    assert refused.value.hint == "headwater status"
    assert "process" in refused.value.detail
    first._owner.release()
    Maintainer(None, kafka, source, Registry(tmp_path))._owner.release()  # type: ignore[arg-type]


def change(key: bytes, after: bytes) -> pa.Table:
    return pa.Table.from_pylist([{"key": key, "before": None, "after": after}], schema=SCHEMA)


def test_the_first_of_two_publishers_is_fenced(kafka: KafkaAddress) -> None:
    source, group = Source(f"t{uuid.uuid4().hex[:12]}"), "group"
    first = Publisher(kafka, source, group)
    [published] = first.publish({"v": [change(b"1", b'{"id":1}')]}, [frontier("v", group, 1, 10, 5, None)])
    assert published.changed == 1
    second = Publisher(kafka, source, group)
    assert second.frontiers["v"].offset == 10
    with pytest.raises(StateFenced, match="another process publishes the views"):
        first.publish({"v": [change(b"2", b'{"id":2}')]}, [frontier("v", group, 1, 20, 6, None)])
    second.publish({"v": [change(b"3", b'{"id":3}')]}, [frontier("v", group, 1, 30, 7, None)])
    # Readers see it a moment after it was committed.
    eventually(lambda: read_frontiers(kafka, source)["v"].offset == 30)
    topic = view_topic(source, "v")

    def keys() -> list[bytes | None]:
        state = topic_state(kafka, topic)
        return [raw.key for chunk in read_range(kafka, topic, state.low, state.high) for raw in chunk]

    eventually(lambda: keys() == [b"1", b"3"])

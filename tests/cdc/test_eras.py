"""Eras: the same identity keeps its era, another one gets a later one; positions are checked against them."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.addresses import KafkaAddress, Source
from cdc.eras import Era, Eras, Identity, current, decide, fold, load, register
from cdc.errors import LogError, PositionExpired, TopicRecreated
from cdc.position import Position
from cdc.topics import ensure_topic
from tests.cdc.log_writer import LogWriter

HERE = Identity("topic-a", "7000", 1, "slot")


def era(number: int, identity: Identity = HERE, first_offset: int = 0) -> Era:
    return Era(
        era=number,
        topic_id=identity.topic_id,
        system_identifier=identity.system_identifier,
        timeline=identity.timeline,
        slot=identity.slot,
        first_offset=first_offset,
        reason="test",
    )


def identities() -> st.SearchStrategy[Identity]:
    few = st.sampled_from
    return st.builds(Identity, few(["a", "b"]), few(["1", "2"]), st.integers(1, 2), few(["s", "t"]))


@given(st.lists(st.tuples(identities(), st.integers(90, 110), st.integers(0, 5))))
def test_eras_only_grow_and_an_identity_that_stays_keeps_its_era(steps: list[tuple[Identity, int, int]]) -> None:
    eras, end = Eras(), 0
    for identity, now_s, grown in steps:
        end += grown
        before = eras.current
        decided = decide(eras, identity, "test", now_s=now_s, topic_end=end)
        if before is not None and before.identity == identity:
            assert decided == before
        else:
            assert decided.identity == identity
            assert decided.era >= now_s
            assert before is None or decided.era > before.era
            known = any(each.topic_id == identity.topic_id for each in eras.eras)
            assert decided.first_offset == (end if known else 0)
        eras = fold([*eras.eras, decided])
        assert eras.current == decided


@given(st.lists(st.builds(era, st.integers(1, 5), identities(), st.integers(0, 9)), max_size=8))
def test_whatever_registrations_race_the_outcome_is_in_order(records: list[Era]) -> None:
    eras = fold(records).eras
    numbers = [each.era for each in eras]
    assert numbers == sorted(set(numbers))
    assert all(one.identity != other.identity for one, other in pairwise(eras))
    assert eras[:1] == tuple(records[:1])


def test_a_position_is_found_only_in_its_own_history() -> None:
    restored = replace(HERE, timeline=2)
    moved = replace(HERE, topic_id="topic-b")
    eras = Eras((era(10), era(20, restored, first_offset=50), era(30, moved)))

    assert eras.locate(Position(10, 50), "topic-a", 0, 80).era == 10
    assert eras.locate(Position(20, 50), "topic-a", 0, 80).era == 20
    assert eras.era_of("topic-a", 49) == era(10)
    assert eras.era_of("topic-a", 50) == era(20, restored, first_offset=50)
    with pytest.raises(TopicRecreated):
        eras.locate(Position(20, 60), "topic-b", 0, 80)
    with pytest.raises(PositionExpired):
        eras.locate(Position(10, 3), "topic-a", 4, 80)
    with pytest.raises(PositionExpired):
        eras.locate(Position(20, 49), "topic-a", 0, 80)
    with pytest.raises(LogError, match="is not in the log"):
        eras.locate(Position(10, 51), "topic-a", 0, 80)
    with pytest.raises(LogError, match="is not in the log"):
        eras.locate(Position(20, 81), "topic-a", 0, 80)
    with pytest.raises(LogError, match="there is no era 11"):
        eras.locate(Position(11, 0), "topic-a", 0, 80)


@pytest.mark.stack
def test_registering_again_changes_nothing(kafka: KafkaAddress) -> None:
    writer = LogWriter(kafka)
    assert register(kafka, writer.source, writer.identity(), "again") == writer.era
    assert current(kafka, writer.source) == writer.era


@pytest.mark.stack
def test_a_new_timeline_begins_where_the_log_ended(kafka: KafkaAddress) -> None:
    writer = LogWriter(kafka)
    writer.transaction(3)
    end = 6  # five records and the marker of Kafka's own transaction
    registered = register(kafka, writer.source, writer.identity(timeline=2), "failover")
    assert registered.first_offset == end
    assert registered.era > writer.era.era
    assert load(kafka, writer.source).eras == (writer.era, registered)


@pytest.mark.stack
def test_a_new_topic_begins_at_its_beginning(kafka: KafkaAddress) -> None:
    writer = LogWriter(kafka)
    writer.transaction(3)
    writer.recreate()
    registered = register(kafka, writer.source, writer.identity(), "topic was made anew")
    assert registered.first_offset == 0
    assert registered.era > writer.era.era


@pytest.mark.stack
def test_registrations_at_the_same_time_agree(kafka: KafkaAddress, source: Source) -> None:
    topic_id = ensure_topic(kafka, source.changes_topic)
    identity = Identity(topic_id, "7000", 1, "slot")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: register(kafka, source, identity, "race"), range(4)))
    assert len(set(answers)) == 1
    assert load(kafka, source).eras == (answers[0],)


@pytest.mark.stack
def test_without_a_registration_there_is_an_error_with_a_hint(kafka: KafkaAddress, source: Source) -> None:
    assert load(kafka, source) == Eras()
    with pytest.raises(LogError, match="has no era") as raised:
        current(kafka, source)
    assert "headwater up" in raised.value.hint

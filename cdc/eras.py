"""The eras of a source: which incarnation of the log, and of the database behind it, an offset belongs to.

An offset orders changes only as long as the topic and the source's history go on. When the topic is made anew, the
database is restored or fails over, or the slot is made anew, a new era is registered, before capture writes into it.
Its number is the second of its registration, and greater than any before, so positions of a later era are greater.

Eras are records of the compacted topic `<source>.eras`. Who registers the same identity gets the same era, however
often and from however many processes at once: the order of the records in that topic decides, the same for everyone.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import msgspec
from confluent_kafka import KafkaError, Message

from cdc.addresses import KafkaAddress, Source
from cdc.errors import EraEnded, LogError, PositionExpired, TopicRecreated
from cdc.kafka import REQUEST_S_MAX, explain, log_errors, producer
from cdc.position import Position
from cdc.reader import read_range
from cdc.topics import TopicState, ensure_topic, find_state, topic_state

REGISTRATIONS_MAX: Final = 10
"""How often one registration is tried against others that come first."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What makes a history: as long as all of it is the same, offsets go on counting the same changes."""

    topic_id: str
    system_identifier: str
    """Of the Postgres cluster, from pg_control_system()."""
    timeline: int
    """Changes with a failover or a point-in-time restore."""
    slot: str
    """The slot and its incarnation: a slot made anew has missed what was committed in between."""


@dataclass(frozen=True, slots=True)
class Era:
    era: int
    topic_id: str
    system_identifier: str
    timeline: int
    slot: str
    first_offset: int
    """Offsets of this topic from here on belong to this era (until another one begins)."""
    reason: str

    @property
    def identity(self) -> Identity:
        return Identity(self.topic_id, self.system_identifier, self.timeline, self.slot)


@dataclass(frozen=True, slots=True)
class Eras:
    """All eras of a source, oldest first."""

    eras: tuple[Era, ...] = ()

    @property
    def current(self) -> Era | None:
        return self.eras[-1] if self.eras else None

    def era_of(self, topic_id: str, offset: int) -> Era | None:
        """The era to which an offset of that topic belongs."""
        found = [era for era in self.eras if era.topic_id == topic_id and era.first_offset <= offset]
        return found[-1] if found else None

    def following(self, era: Era) -> Era | None:
        """The era that begins in the same topic where this one ends, if there is one."""
        later = (other for other in self.eras if other.era > era.era and other.topic_id == era.topic_id)
        return next(later, None)

    def locate(self, position: Position, topic_id: str, low: int, high: int) -> Era:
        """The era of a position, if it can be read in the topic that is there now; else raises what stands against it.

        The first offset of the next era is still good as the end of this one.
        """
        era = next((era for era in self.eras if era.era == position.era), None)
        if era is None:
            raise LogError(
                f"there is no era {position.era}",
                detail=f"known eras: {', '.join(str(era.era) for era in self.eras) or 'none'}",
                hint="headwater log seek latest",
            )
        if era.topic_id != topic_id:
            raise topic_recreated(position, era.topic_id, topic_id)
        following = self.following(era)
        last = high if following is None else min(following.first_offset, high)
        if position.offset < max(low, era.first_offset):
            raise PositionExpired(
                f"the log no longer holds {position}",
                detail=f"its oldest record of this era is at or after {max(low, era.first_offset)}",
                hint="headwater log tail --from earliest shows what is left",
            )
        if position.offset > last:
            raise LogError(
                f"{position} is not in the log", detail=f"its era ends at {last}", hint="headwater log seek latest"
            )
        return era


def era_ended(era: Era, following: Era) -> EraEnded:
    return EraEnded(
        f"era {era.era} ended at offset {following.first_offset}",
        detail=f"era {following.era} began: {following.reason}",
        hint="what was derived from the old era has to be built anew: headwater log seek latest",
    )


def topic_recreated(position: Position, expected: str, found: str) -> TopicRecreated:
    return TopicRecreated(
        "the change log's topic was deleted and made anew",
        detail=f"{position} speaks of topic {expected}, there is {found} now",
        hint="start from the new era: headwater log tail --from earliest",
    )


def fold(records: Iterable[Era]) -> Eras:
    """The eras that registrations, in the order of their topic, amount to: one that repeats the current identity, or is
    not later than the current era, came second in a race and does not count."""
    eras: list[Era] = []
    for era in records:
        if not eras or (era.era > eras[-1].era and era.identity != eras[-1].identity):
            eras.append(era)
    return Eras(tuple(eras))


def decide(eras: Eras, identity: Identity, reason: str, *, now_s: int, topic_end: int) -> Era:
    """The era of that identity: the current one if it is the same, else a new one."""
    current = eras.current
    if current is not None and current.identity == identity:
        return current
    known = any(era.topic_id == identity.topic_id for era in eras.eras)
    return Era(
        era=max(now_s, current.era + 1 if current else 0),
        topic_id=identity.topic_id,
        system_identifier=identity.system_identifier,
        timeline=identity.timeline,
        slot=identity.slot,
        first_offset=topic_end if known else 0,
        reason=reason,
    )


class EraBook:
    """Reads the eras again only when there is a new one: for those who ask with every epoch."""

    def __init__(self, kafka: KafkaAddress, source: Source) -> None:
        self._kafka, self._source = kafka, source
        self._seen: TopicState | None = None
        self._eras = Eras()

    def load(self) -> Eras:
        state = find_state(self._kafka, self._source.eras_topic)
        if state is not None and state != self._seen:
            chunks = read_range(self._kafka, self._source.eras_topic, state.low, state.high)
            self._eras = fold(_decode(self._source, raw.value) for chunk in chunks for raw in chunk)
            self._seen = state
        return Eras() if state is None else self._eras


def load(kafka: KafkaAddress, source: Source) -> Eras:
    """All registered eras; none at all if capture never ran."""
    return EraBook(kafka, source).load()


def current(kafka: KafkaAddress, source: Source) -> Era:
    """The era that is being written now. Raises LogError if none is registered."""
    found = load(kafka, source).current
    if found is None:
        raise LogError(
            f"source {source.name} has no era",
            detail=f"topic {source.eras_topic} at {kafka.bootstrap} holds no registration",
            hint="headwater up starts capture",
        )
    return found


def register(kafka: KafkaAddress, source: Source, identity: Identity, reason: str) -> Era:
    """The era of that identity, registered if it is new. To be called before capture writes under the new identity."""
    ensure_topic(kafka, source.eras_topic, cleanup_policy="compact")
    for _ in range(REGISTRATIONS_MAX):
        eras = load(kafka, source)
        end = topic_state(kafka, source.changes_topic, committed=False).high
        era = decide(eras, identity, reason, now_s=int(time.time()), topic_end=end)
        if era == eras.current:
            return era
        _write(kafka, source, era)
        # Not taken for granted: another process may have come first, and then the answer is its registration.
    raise LogError(
        f"the era of source {source.name} could not be registered",
        detail=f"{REGISTRATIONS_MAX} times another process registered a different identity",
        hint="headwater status: is a second Headwater capturing the same source?",
    )


def _write(kafka: KafkaAddress, source: Source, era: Era) -> None:
    failures: list[KafkaError] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failures.append(error)

    doing = f"registering era {era.era} in {source.eras_topic}"
    with log_errors(kafka, doing):
        client = producer(kafka)
        client.produce(source.eras_topic, key=_key(era), value=msgspec.json.encode(era), on_delivery=delivered)
        unsent = client.flush(REQUEST_S_MAX)
    if failures:
        raise explain(kafka, failures[0], doing)
    if unsent:
        raise LogError("kafka does not answer", detail=f"{doing}, at {kafka.bootstrap}", hint="headwater status")


def _key(era: Era) -> bytes:
    """One per registration: compaction must not let a later record take the place of an earlier one."""
    return f"{era.era}:{hashlib.sha256(msgspec.json.encode(era)).hexdigest()[:16]}".encode()


def _decode(source: Source, value: bytes | None) -> Era:
    try:
        return msgspec.json.decode(value or b"", type=Era)
    except msgspec.MsgspecError as error:
        raise LogError(
            f"topic {source.eras_topic} holds a record that is not an era", detail=str(error), hint="headwater doctor"
        ) from error

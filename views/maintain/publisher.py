"""The views' topics and the frontier: an epoch is one Kafka transaction, so no reader sees half of it.

    <source>.view.<view>   key: the view's key as JSON; value: before, after, position, commit LSN, times. Compacted.
                           A deletion is followed by a tombstone, so that compaction forgets the key.
    <source>.frontier      key: the view; value: how far its topic is, written in the same transaction. Compacted.

An epoch that was published is not published again: the frontier says so. A second publisher for the same group
fences the first (Kafka's transactional id): what a driver that lost its place still wants to say is refused.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

import msgspec
import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from cdc.addresses import KafkaAddress, Source
from cdc.errors import LogError, StateFenced
from cdc.kafka import client_settings, explain
from cdc.position import Lsn, Position
from cdc.reader import read_range
from cdc.topics import ensure_topic, find_state
from views.maintain.failpoints import reached
from views.sinks.sink import Change
from views.sinks.wholeness import COMPACTED_MS, WHOLE_MS

TRANSACTION_S_MAX: Final = 600
FLUSH_S_MAX: Final = 60.0
QUEUE_MESSAGES_MAX: Final = 100_000
VIEW_TOPIC: Final = {"min.compaction.lag.ms": str(WHOLE_MS), "max.compaction.lag.ms": str(COMPACTED_MS)}
HANDED_ON_MAX: Final = 10_000
"""Up to so many changes of a view in an epoch are handed on to its sinks; more are read from the topic."""
_FENCED: Final = (KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH)


class Frontier(msgspec.Struct, frozen=True):
    """How far a view is: it holds exactly the transactions before the position."""

    view: str
    era: int
    offset: int
    """One past the last record that it includes."""
    lsn: str
    """The last commit that it includes."""
    committed_at_us: int | None
    published_at_us: int
    group: str
    next_offset: int = 0
    """Of the view's topic: one past its last change up to here."""
    since: int = 0
    """Where in the view's topic its present shape begins: all its rows were told from there on."""
    canary: int | None = None
    """The last number of the source's canary that it includes."""

    @property
    def position(self) -> Position:
        return Position(self.era, self.offset)


def view_topic(source: Source, view: str) -> str:
    return f"{source.name}.view.{view}"


def frontier_topic(source: Source) -> str:
    return f"{source.name}.frontier"


def read_frontiers(kafka: KafkaAddress, source: Source) -> dict[str, Frontier]:
    """The newest of each view; none before the first was published."""
    topic = frontier_topic(source)
    state = find_state(kafka, topic)
    found: dict[str, Frontier] = {}
    for chunk in read_range(kafka, topic, state.low, state.high) if state else ():
        for raw in chunk:
            name = (raw.key or b"").decode()
            if raw.value is None:
                found.pop(name, None)
            else:
                found[name] = msgspec.json.decode(raw.value, type=Frontier)
    return found


Delivered: TypeAlias = Callable[[KafkaError | None, Message], None]


class Published(NamedTuple):
    """What an epoch brought to a view, and where that is in its topic."""

    frontier: Frontier
    after: int
    """Who includes everything before this offset has missed nothing if it takes these changes."""
    changes: list[Change] | None
    """None if there are too many to be handed on: they are read from the topic."""
    changed: int = 0
    """How many there are."""


@dataclass
class Sent:
    """The records of a view in one transaction."""

    records: int = 0
    count: int = 0
    """Changes: a row that is gone takes two records."""
    first: int | None = None
    last: int | None = None
    held: list[tuple[int, bytes, bytes | None, bytes | None]] | None = field(default_factory=list)

    def add(self, change: tuple[bytes, bytes | None, bytes | None]) -> None:
        self.count += 1
        if self.held is not None:
            key, before, after = change
            self.held.append((self.records - (2 if after is None else 1), key, before, after))
        if self.count > HANDED_ON_MAX:
            self.held = None

    def first_at(self, error: KafkaError | None, message: Message) -> None:
        self.first = message.offset() if error is None else None

    def last_at(self, error: KafkaError | None, message: Message) -> None:
        self.last = message.offset() if error is None else None
        if self.records == 1:
            self.first = self.last

    def extent(self) -> tuple[int, int]:
        """From the first offset to the one after the last."""
        if self.first is None or self.last is None:
            raise LogError("an epoch's records were not written", hint="headwater status")
        return self.first, self.last + 1

    def placed(self, first: int, silent: bool) -> list[Change] | None:
        if self.held is None or (self.records and self.extent() != (first, first + self.records)):
            return None  # somebody else writes to the topic: what is where is only known by reading
        return [Change(key, after, first + number, before, silent) for number, key, before, after in self.held]


class Publisher:
    """One group's."""

    def __init__(self, kafka: KafkaAddress, source: Source, group: str) -> None:
        """Fences the publisher before it, then looks where that one left off."""
        self._kafka, self._source = kafka, source
        ensure_topic(kafka, frontier_topic(source), cleanup_policy="compact", config={"segment.ms": "600000"})
        self._producer = Producer(
            {
                **client_settings(kafka),
                "transactional.id": f"{source.name}.views.{group}",
                "transaction.timeout.ms": TRANSACTION_S_MAX * 1000,
                "enable.idempotence": True,
                "linger.ms": 0,
                "queue.buffering.max.messages": QUEUE_MESSAGES_MAX * 2,
                "compression.type": "lz4",
            }
        )
        self._calls("taking over the view topics", lambda: self._producer.init_transactions(FLUSH_S_MAX))
        self.frontiers: dict[str, Frontier] = {}
        self._topics: set[str] = set()
        self.look()

    def look(self) -> None:
        """How far the views are, whoever published them: what others publish afterwards is not noticed."""
        self.frontiers = read_frontiers(self._kafka, self._source)

    def ensure(self, view: str) -> None:
        topic = view_topic(self._source, view)
        if topic not in self._topics:
            ensure_topic(self._kafka, topic, cleanup_policy="compact", config=VIEW_TOPIC)
            self._topics.add(topic)

    def publish(
        self,
        changes: Mapping[str, Iterable[pa.Table]],
        frontiers: Iterable[Frontier],
        whole: Collection[str] = (),
        *,
        silent: bool = False,
    ) -> list[Published]:
        """All of it, or nothing. Views without changes only move their frontier; `whole` ones are told all anew, and
        what their topic held before does not count any more. `silent` changes are nobody's doing: a view was built."""
        news = {frontier.view: frontier for frontier in frontiers}
        if not news:
            return []
        try:
            self._producer.begin_transaction()
            reached("published-begin")
            sent = {view: self._send_changes(view, tables, news[view], silent) for view, tables in changes.items()}
            if any(each.records for each in sent.values()):
                self._flush()
            published = [self._placed(news[view], sent.get(view), view in whole, silent) for view in news]
            for each in published:
                self._send(
                    frontier_topic(self._source), each.frontier.view.encode(), msgspec.json.encode(each.frontier)
                )
            self._calls("publishing an epoch", lambda: self._producer.commit_transaction(FLUSH_S_MAX))
        except BaseException:
            self._abort()
            raise
        reached("published-commit")
        self.frontiers.update({each.frontier.view: each.frontier for each in published})
        return published

    def _send_changes(self, view: str, tables: Iterable[pa.Table], frontier: Frontier, silent: bool) -> Sent:
        """The first and the last record tell their offsets: those between them follow from their number."""
        self.ensure(view)
        topic, sent, tail = view_topic(self._source, view), Sent(), _tail(frontier, silent)
        held: tuple[bytes, bytes | None] | None = None
        for change in _changes(tables):
            for record in _records(change, tail):
                if held is not None:
                    self._send(topic, *held, sent.first_at if sent.records == 1 else None)
                held = record
                sent.records += 1
                if sent.records == 2:
                    reached("published-some")
            sent.add(change)
        if held is not None:
            self._send(topic, *held, sent.last_at)
        return sent

    def _placed(self, frontier: Frontier, sent: Sent | None, is_whole: bool, silent: bool) -> Published:
        known = self.frontiers.get(frontier.view)
        after, since = (known.next_offset, known.since) if known else (0, 0)
        first, end = (after, after) if sent is None or not sent.records else sent.extent()
        placed = msgspec.structs.replace(frontier, next_offset=end, since=first if is_whole else since)
        return Published(placed, after, [] if sent is None else sent.placed(first, silent), sent.count if sent else 0)

    def _flush(self) -> None:
        try:
            left = self._producer.flush(FLUSH_S_MAX)
        except SystemError:
            # The client fails while it tells that records were refused. Why they were, the commit says, and fails, too.
            self._calls("publishing an epoch", lambda: self._producer.commit_transaction(FLUSH_S_MAX))
            raise
        if left:
            raise LogError(
                f"{left} records of an epoch could not be written",
                detail=self._kafka.bootstrap,
                hint="headwater status",
            )

    def forget(self, view: str) -> None:
        """A view that was dropped has no frontier."""
        self._producer.begin_transaction()
        self._send(frontier_topic(self._source), view.encode(), None)
        self._calls("dropping a view", lambda: self._producer.commit_transaction(FLUSH_S_MAX))
        self.frontiers.pop(view, None)

    def _send(self, topic: str, key: bytes, value: bytes | None, delivered: Delivered | None = None) -> None:
        while True:
            try:
                self._producer.produce(topic, key=key, value=value, on_delivery=delivered)
                return
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                raise self._explained(error, f"writing to {topic}") from error

    def _calls(self, doing: str, call: Callable[[], object]) -> None:
        try:
            call()
        except KafkaException as error:
            raise self._explained(error, doing) from error

    def _abort(self) -> None:
        # The broker aborts what nobody ends; what stopped us is already on its way up.
        with suppress(KafkaException):
            self._producer.abort_transaction(FLUSH_S_MAX)

    def _explained(self, error: KafkaException, doing: str) -> LogError | StateFenced:
        cause = error.args[0]
        if cause.code() in _FENCED:
            return StateFenced(
                f"another process publishes the views of {self._source.name}",
                detail=f"{doing}: {cause.str()}",
                hint="headwater status",
            )
        return explain(self._kafka, cause, doing)


def _changes(tables: Iterable[pa.Table]) -> Iterator[tuple[bytes, bytes | None, bytes | None]]:
    for table in tables:
        yield from zip(*(table[name].to_pylist() for name in ("key", "before", "after")), strict=True)


def _records(change: tuple[bytes, bytes | None, bytes | None], tail: bytes) -> Iterator[tuple[bytes, bytes | None]]:
    key, before, after = change
    yield key, b'{"before":' + (before or b"null") + b',"after":' + (after or b"null") + b"," + tail
    if after is None:
        yield key, None


def _tail(frontier: Frontier, silent: bool) -> bytes:
    """What every record of an epoch ends with."""
    told = {
        "position": str(frontier.position),
        "lsn": frontier.lsn,
        "committed_at_us": frontier.committed_at_us,
        "published_at_us": frontier.published_at_us,
        **({"silent": True} if silent else {}),
    }
    return msgspec.json.encode(told)[1:]


def frontier(
    view: str,
    group: str,
    era: int,
    offset: int,
    lsn: int | None,
    committed_at_us: int | None,
    canary: int | None = None,
) -> Frontier:
    lsn_text, now_us = str(Lsn(lsn or 0)), time.time_ns() // 1000
    return Frontier(view, era, offset, lsn_text, committed_at_us, now_us, group, canary=canary)

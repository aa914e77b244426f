"""Dead letters: changes that a place would not take. A letter holds one key of one generation, and says why.

    <source>.dead_letters, compacted    [view, sink, generation, key] ─▶ the letter; a tombstone closes it

A letter is open until the place takes that key: the same change again (`headwater deadletters replay`) or a newer one;
or until a person drops it. As long as one is open the view is incomplete there. Open letters do not expire.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec
from confluent_kafka import Producer

from cdc.addresses import KafkaAddress, Source
from cdc.errors import LogError
from cdc.kafka import log_errors, producer
from cdc.reader import Raw, read_range
from cdc.topics import ensure_topic, find_state
from views.sinks.sink import Refused, ViewShape

LETTER_BYTES_MAX: Final = 512 * 1024
SEND_S_MAX: Final = 30.0
COMPACTED_MS: Final = 24 * 3_600_000
"""After so long nothing is left of a letter that was closed."""
CONFIG: Final = {
    "segment.ms": "3600000",
    "delete.retention.ms": "86400000",
    "retention.ms": "-1",
    "max.compaction.lag.ms": str(COMPACTED_MS),
}


class Taken(NamedTuple):
    """A key that a letter may hold, and that the place has taken after all."""

    key: bytes
    version: int


Told = Refused | Taken


def letters_topic(source: Source) -> str:
    return f"{source.name}.dead_letters"


class LetterId(NamedTuple):
    view: str
    sink: str
    generation: int
    key: str

    @property
    def topic_key(self) -> bytes:
        return msgspec.json.encode(tuple(self))

    @property
    def short(self) -> str:
        """What a person types."""
        import hashlib

        return hashlib.sha256(self.topic_key).hexdigest()[:10]


class DeadLetter(msgspec.Struct, frozen=True):
    """A change that a sink would not take."""

    view: str
    sink: str
    key: str
    version: int
    error: str
    row: str | None
    at_us: int
    generation: int = 0
    is_cut: bool = False
    """The row is longer than a letter may be: the whole of it is in the view's topic."""

    @property
    def id(self) -> LetterId:
        return LetterId(self.view, self.sink, self.generation, self.key)


class LetterBox(Protocol):
    """What a lane asks of it."""

    def tell(self, shape: ViewShape, sink: str, generation: int, told: Sequence[Told]) -> None: ...

    def held(self, view: str, sink: str, generation: int) -> dict[bytes, int]: ...

    def forget(self, view: str, sink: str, generation: int | None = None) -> None: ...


class NoLetters:
    """For a lane of which nobody reads letters."""

    def tell(self, shape: ViewShape, sink: str, generation: int, told: Sequence[Told]) -> None: ...

    def held(self, view: str, sink: str, generation: int) -> dict[bytes, int]:
        return {}

    def forget(self, view: str, sink: str, generation: int | None = None) -> None: ...


class Letters:
    """Writes letters and closes them. Safe to share between lanes. Raises LogError when they cannot be written."""

    def __init__(self, kafka: KafkaAddress, source: Source) -> None:
        self._kafka, self._source, self._topic = kafka, source, letters_topic(source)
        ensure_topic(kafka, self._topic, cleanup_policy="compact", config=CONFIG)
        self._producer: Producer = producer(kafka)

    def tell(self, shape: ViewShape, sink: str, generation: int, told: Sequence[Told]) -> None:
        self._send(_records(shape.view, sink, generation, told))

    def held(self, view: str, sink: str, generation: int) -> dict[bytes, int]:
        """The keys that open letters hold, with the version that was refused."""
        return held_keys(self._kafka, self._source, view, sink, generation)

    def open(self) -> list[DeadLetter]:
        return read_letters(self._kafka, self._source)

    def forget(self, view: str, sink: str, generation: int | None = None) -> None:
        """Of a place, or a generation of it, that is no more."""
        gone = [each.id for each in self.open() if each.id[:2] == (view, sink)]
        self.close(id_ for id_ in gone if generation in (None, id_.generation))

    def close(self, letters: Iterable[LetterId]) -> None:
        self._send((id_.topic_key, None) for id_ in letters)

    def _send(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        deadline = time.monotonic() + SEND_S_MAX
        with log_errors(self._kafka, "writing dead letters"):
            for key, value in records:
                while not self._produced(key, value):
                    if time.monotonic() > deadline:
                        break
            left = self._producer.flush(max(0.0, deadline - time.monotonic()))
        if left:
            raise LogError("dead letters could not be written", detail=f"{left} are waiting", hint="headwater status")

    def _produced(self, key: bytes, value: bytes | None) -> bool:
        try:
            self._producer.produce(self._topic, key=key, value=value)
        except BufferError:
            self._producer.poll(0.1)
            return False
        return True


def _records(view: str, sink: str, generation: int, told: Iterable[Told]) -> Iterator[tuple[bytes, bytes | None]]:
    at_us = time.time_ns() // 1000
    for each in told:
        if isinstance(each, Taken):
            yield LetterId(view, sink, generation, each.key.decode()).topic_key, None
            continue
        change, row = each.change, each.change.after
        text = None if row is None else row[:LETTER_BYTES_MAX].decode(errors="replace")
        is_cut = row is not None and len(row) > LETTER_BYTES_MAX
        letter = DeadLetter(
            view, sink, change.key.decode(), change.version, each.error, text, at_us, generation, is_cut
        )
        yield letter.id.topic_key, msgspec.json.encode(letter)


def judged(told: Sequence[Refused], newest: Mapping[bytes, int], held: Iterable[bytes]) -> list[Told]:
    """What one application means to letters: who was refused, and which held keys were taken at their newest."""
    bad = {(each.change.key, each.change.version) for each in told}
    concerned = {*held, *(each.change.key for each in told)}
    taken = [Taken(key, newest[key]) for key in concerned if key in newest and (key, newest[key]) not in bad]
    return [*told, *taken]


class OpenLetters:
    """The open ones as they are at each look; one after the first reads just what was told since, so it may be asked
    right before something is done. Not for several threads."""

    def __init__(self, kafka: KafkaAddress, source: Source) -> None:
        self._kafka, self._topic = kafka, letters_topic(source)
        self._found: dict[LetterId, DeadLetter] = {}
        self._read: tuple[str, int] = ("", 0)
        """Of which topic, and up to where."""

    def look(self) -> dict[LetterId, DeadLetter]:
        """Oldest first."""
        state = find_state(self._kafka, self._topic)
        topic_id, end = self._read
        if state is None or state.topic_id != topic_id:
            self._found, end = {}, 0
        if state is not None:
            for chunk in read_range(self._kafka, self._topic, max(state.low, end), state.high):
                for raw in chunk:
                    self._take(raw)
            self._read = state.topic_id, state.high
        return dict(self._found)

    def _take(self, raw: Raw) -> None:
        if raw.value is not None:
            letter = msgspec.json.decode(raw.value, type=DeadLetter)
            self._found.pop(letter.id, None)
            self._found[letter.id] = letter
        elif raw.key is not None:
            self._found.pop(_id(raw.key), None)  # type: ignore[arg-type]


def read_letters(kafka: KafkaAddress, source: Source) -> list[DeadLetter]:
    """The open ones, oldest first."""
    return list(OpenLetters(kafka, source).look().values())


def held_keys(kafka: KafkaAddress, source: Source, view: str, sink: str, generation: int) -> dict[bytes, int]:
    """The keys that open letters hold in one place, with the version that was refused."""
    mine = (view, sink, generation)
    return {each.key.encode(): each.version for each in read_letters(kafka, source) if each.id[:3] == mine}


def _id(key: bytes) -> LetterId | None:
    try:
        return LetterId(*msgspec.json.decode(key, type=tuple[str, str, int, str]))
    except msgspec.MsgspecError:
        return None

"""What changes in a view, for all who listen to it: its topic has one reader, however many they are.

    view's topic ─▶ one thread, while anybody listens ─▶ the newest events, bounded ─▶ every listener
         └─▶ a few threads for all feeds: ranges that lie further back ─▶ who is not that far yet

Who has nothing to be told waits without a thread. Who takes events slower than they come falls back behind the newest
and reads the topic: memory is bounded, and nothing is left out.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import takewhile
from typing import Final, NamedTuple, ParamSpec, TypeVar

from cdc.addresses import KafkaAddress
from cdc.errors import ConfigurationError, LogError
from cdc.reader import Raw, read_range, tail
from cdc.topics import TopicState, find_state
from headwater.api.problems import NotFound, TooMany
from headwater.api.waiters import Waiters
from headwater.events_log import get_log

FEEDS_MAX: Final = 100
READERS_MAX: Final = 4
"""Threads that read ranges, for all feeds together."""
CHUNK_ROWS_MAX: Final = 1_000
CHUNK_BYTES_MAX: Final = 1 << 20
"""What one listener is given at a time; one event may be larger."""
RECENT_ROWS_MAX: Final = 5_000
RECENT_BYTES_MAX: Final = 4 << 20
"""What is kept of a view's newest events."""
LISTEN_S: Final = 1.0
QUIET_S: Final = 10.0
ID_DIGITS_MAX: Final = 18
SAME_S_MAX: Final = 30.0
"""How long a topic may be another one, made anew, before it is noticed."""

P = ParamSpec("P")
T = TypeVar("T")


class Event(NamedTuple):
    offset: int
    text: bytes


class Recent:
    """The newest events of a topic, whole from `start` on. Written by one thread, read by another."""

    def __init__(self, end: int, bytes_max: int = RECENT_BYTES_MAX) -> None:
        self.start = self.end = end
        self._events: deque[Event] = deque()
        self._bytes, self._bytes_max = 0, bytes_max
        self._lock = threading.Lock()

    def add(self, records: Sequence[Raw]) -> None:
        with self._lock:
            for event in filter(None, map(event_of, records)):
                self._events.append(event)
                self._bytes += len(event.text)
            self.end = records[-1].offset + 1
            while self._bytes > self._bytes_max or len(self._events) > RECENT_ROWS_MAX:
                oldest = self._events.popleft()
                self._bytes -= len(oldest.text)
                self.start = oldest.offset + 1

    def after(self, offset: int) -> tuple[list[Event], int] | None:
        """The events from there on, as many as are given at a time, and where to go on; None for who has to read the
        topic first."""
        with self._lock:
            if offset < self.start:
                return None
            newer = list(takewhile(lambda event: event.offset >= offset, reversed(self._events)))[::-1]
            some = bounded(newer)
            return some, some[-1].offset + 1 if len(some) < len(newer) else max(offset, self.end)


class Tail:
    """Follows a view's topic on a thread of its own, until it is stopped or the topic cannot be followed."""

    def __init__(self, kafka: KafkaAddress, topic: str, state: TopicState) -> None:
        self._kafka, self._topic, self.topic_id = kafka, topic, state.topic_id
        self.recent = Recent(state.high)
        self.listeners = 0
        self.is_over = False
        self._waiters = Waiters()

    def start(self) -> None:
        threading.Thread(target=self._follow, name=f"feed-{self._topic}", daemon=True).start()

    def stop(self) -> None:
        self.is_over = True
        self._waiters.close()

    async def news(self, offset: int, timeout_s: float) -> bool:
        """Waits until there is something from the offset on, or nothing to wait for any more."""
        return await self._waiters.until(lambda: self.is_over or self.recent.end > offset, timeout_s)

    def _follow(self) -> None:
        same_until = time.monotonic() + SAME_S_MAX
        try:
            for chunk in tail(self._kafka, self._topic, self.recent.end, LISTEN_S):
                if chunk:
                    self.recent.add(chunk)
                    self._waiters.wake()
                if time.monotonic() > same_until:
                    if not self._is_same():
                        break
                    same_until = time.monotonic() + SAME_S_MAX
                if self.is_over:
                    break
        except LogError as error:  # who listens comes back, and is told why then
            get_log("api").warning("feed.interrupted", topic=self._topic, fact=error.fact, detail=error.detail)
        finally:
            self.stop()

    def _is_same(self) -> bool:
        found = find_state(self._kafka, self._topic)
        return found is not None and found.topic_id == self.topic_id


class Feeds:
    """All feeds of this process. One event loop."""

    def __init__(self, kafka: KafkaAddress) -> None:
        self._kafka = kafka
        self._open = 0
        self._tails: dict[str, Tail] = {}
        self._readers = ThreadPoolExecutor(READERS_MAX, "feed")

    @property
    def listening(self) -> int:
        return sum(each.listeners for each in self._tails.values())

    async def events(self, view: str, topic: str, word: str) -> AsyncGenerator[bytes, None]:
        """From `now`, `earliest`, or after the event with that id; until the topic cannot be followed any more. Raises
        TooMany, NotFound or ConfigurationError before the first."""
        if self._open >= FEEDS_MAX:
            raise TooMany(f"{FEEDS_MAX} feeds are open", hint="close one")
        self._open += 1
        try:
            state = await self._away(find_state, self._kafka, topic)
            if state is None:
                raise NotFound(f"nothing was published of {view} yet", hint="headwater views")
            offset = start_of(view, state, word)
            following = self._enter(topic, state)
            try:
                # The id before the first event: who is cut off before that goes on from here.
                yield b"retry: 1000\n" + (b"id: %d\n\n" % (offset - 1) if offset else b"\n")
                while not following.is_over:
                    found = following.recent.after(offset)
                    if found is None:
                        end = min(following.recent.start, offset + CHUNK_ROWS_MAX)
                        found = await self._away(_read, self._kafka, topic, offset, end)
                    events, offset = found
                    for event in events:
                        yield event.text
                    if not events and not await following.news(offset, QUIET_S):
                        yield b": nothing new\n\n"
            finally:
                self._leave(topic, following)
        finally:
            self._open -= 1

    def close(self) -> None:
        """Ends every feed: listeners come back with their Last-Event-ID."""
        for each in list(self._tails.values()):
            each.stop()
        self._readers.shutdown(wait=False)

    def _enter(self, topic: str, state: TopicState) -> Tail:
        """Without waiting, so that who is cut off meanwhile is not counted for ever."""
        known = self._tails.get(topic)
        if known is None or known.is_over or known.topic_id != state.topic_id:
            if known is not None:
                known.stop()
            known = self._tails[topic] = Tail(self._kafka, topic, state)
            known.start()
        known.listeners += 1
        return known

    def _leave(self, topic: str, left: Tail) -> None:
        left.listeners -= 1
        if not left.listeners:
            left.stop()
            if self._tails.get(topic) is left:
                del self._tails[topic]

    async def _away(self, do: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
        """On the feeds' own threads: Kafka may take its time, and requests do not wait behind it."""
        return await asyncio.get_running_loop().run_in_executor(self._readers, partial(do, *given, **named))


def start_of(view: str, state: TopicState, word: str) -> int:
    if word in ("now", "earliest"):
        return state.high if word == "now" else state.low
    is_id = word.isascii() and word.isdigit() and len(word) <= ID_DIGITS_MAX
    if not is_id or not state.low <= int(word) + 1 <= state.high:
        raise ConfigurationError(
            f"no event {word} in the feed of {view}",
            detail=f"its events are from {state.low} to {state.high - 1}",
            hint="from=now, from=earliest, or the id of an event",
        )
    return int(word) + 1


def event_of(record: Raw) -> Event | None:
    """None for what only says that a key is gone: the event before it said so."""
    if record.value is None:
        return None
    head = b'id: %d\nevent: change\ndata: {"key":%b,' % (record.offset, record.key or b"null")
    return Event(record.offset, b"%b%b\n\n" % (head, record.value[1:]))


def bounded(events: Sequence[Event]) -> list[Event]:
    """Those that are given at a time: one at least."""
    some, size = list[Event](), 0
    for event in events[:CHUNK_ROWS_MAX]:
        size += len(event.text)
        if some and size > CHUNK_BYTES_MAX:
            break
        some.append(event)
    return some


def _read(kafka: KafkaAddress, topic: str, start: int, end: int) -> tuple[list[Event], int]:
    """The events of a range that are given at a time, and where to go on."""
    found = list[Event]()
    for chunk in read_range(kafka, topic, start, end):
        found += filter(None, map(event_of, chunk))
        some = bounded(found)
        if len(some) < len(found):
            return some, some[-1].offset + 1
    return found, end

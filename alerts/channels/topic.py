"""Notifications in a Kafka topic, for other systems: keyed by owner, so that one owner's come in order.

The topic is the operator's, never an owner's choice: a topic is a place inside. It is made when the first notification
goes there, unless it is there already, however many partitions it has. The producer is idempotent; over attempts and
crashes the header `id` says what was seen already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import KafkaError, KafkaException

from alerts.channels.channel import Delivered, Outcome, Refused, Retry, Target
from alerts.notification import Notification
from alerts.notification_json import payload
from cdc.errors import HeadwaterError

if TYPE_CHECKING:
    from confluent_kafka import Producer

NAME: Final = "kafka"
POLL_S: Final = 0.1
_GONE: Final = (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
_TOO_LARGE: Final = (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.INVALID_MSG_SIZE)


@dataclass(slots=True)
class Topic:
    """`producer` is ours alone: made by `cdc.kafka.producer`, which neither loses, repeats nor reorders."""

    producer: Producer
    topic: str
    ensure: Callable[[], object] = lambda: None
    """Makes the topic where there is none. Idempotent; blocks, so it runs on a thread."""
    _is_there: bool = field(default=False, repr=False)
    _polling: asyncio.Task[None] | None = field(default=None, repr=False)
    _awaited: int = 0

    @property
    def name(self) -> str:
        return NAME

    def check(self, target: Target) -> None:
        """There is one topic, whatever the target says."""

    async def deliver(self, notification: Notification, target: Target) -> Outcome:
        if not self._is_there:
            try:
                await asyncio.to_thread(self.ensure)
            except HeadwaterError as error:
                return Retry(f"topic {self.topic} cannot be made: {error.fact}")
            self._is_there = True
        loop = asyncio.get_running_loop()
        written: asyncio.Future[KafkaError | None] = loop.create_future()

        def acknowledged(error: KafkaError | None, _message: object) -> None:
            with suppress(RuntimeError):  # the loop ended: nobody waits any more
                loop.call_soon_threadsafe(_settle, written, error)

        try:
            self.producer.produce(
                self.topic,
                key=notification.owner.encode(),
                value=payload(notification),
                headers=[("id", notification.id.encode())],
                on_delivery=acknowledged,
            )
        except (BufferError, KafkaException) as error:
            return _failed(error.args[0])
        return await self._written(written)

    async def _written(self, written: asyncio.Future[KafkaError | None]) -> Outcome:
        """Acknowledgements come while somebody polls: one task for all attempts, as long as one waits."""
        self._awaited += 1
        if self._polling is None or self._polling.done():
            self._polling = asyncio.create_task(self._poll())
        try:
            error = await written
        finally:
            self._awaited -= 1
        self._is_there = error is None or error.code() not in _GONE
        return Delivered() if error is None else _failed(error)

    async def _poll(self) -> None:
        while self._awaited:
            await asyncio.to_thread(self.producer.poll, POLL_S)

    async def close(self) -> None:
        """What was not acknowledged stays unsettled, and is made again."""
        if self._polling is not None:
            self._polling.cancel()
            with suppress(asyncio.CancelledError):
                await self._polling


def _settle(written: asyncio.Future[KafkaError | None], error: KafkaError | None) -> None:
    if not written.done():
        written.set_result(error)


def _failed(error: Any) -> Outcome:
    if not isinstance(error, KafkaError):
        return Retry("too much waits for Kafka already")
    reason = f"Kafka did not take it: {error.name()}"
    return Refused(reason) if error.code() in _TOO_LARGE else Retry(reason)

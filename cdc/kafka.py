"""Clients of the Kafka cluster that holds the change log, and what its errors mean.

Everything that reads or writes the log gets its client here, so that the settings that guard the order and the truth of
the log stand in one place: readers see committed records only, never move by themselves to another offset, and never
commit offsets (positions are kept by whoever reads). Consumers are leased from a pool of this process: a Spark worker,
which is reused from epoch to epoch, pays for connecting once.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from cdc.addresses import KafkaAddress
from cdc.errors import LogError, PositionExpired

REQUEST_S_MAX: Final = 10.0
"""How long one question to the cluster may take."""
QUEUE_KIB_MAX: Final = 8 * 1024
"""What a consumer may hold of records not yet asked for."""
LISTEN_MS_MAX: Final = 1000
"""How long the broker may hold a listener's request while there is nothing new."""
IDLE_CONSUMERS_MAX: Final = 4
"""Consumers kept open per cluster and use, beyond those in use."""

_UNREACHABLE: Final = frozenset(
    {KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN, KafkaError._TIMED_OUT, KafkaError._RESOLVE}
)
_REFUSED: Final = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    }
)
_ABSENT: Final = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION})
_OUT_OF_RANGE: Final = frozenset({KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE})


class Use(StrEnum):
    """What a consumer is for: the two wait differently at the end of the log."""

    READ = "read"
    """Reads a known range: told at once where the log ends."""
    LISTEN = "listen"
    """Waits for something new: the broker holds the request, so that waiting costs next to nothing."""


_lock = threading.Lock()
_idle: dict[tuple[int, KafkaAddress, Use], list[Consumer]] = {}
_admins: dict[tuple[int, KafkaAddress], AdminClient] = {}
_complaints: dict[KafkaAddress, KafkaError] = {}
"""What the clients of a cluster last met in the background: the requests themselves only time out."""


def consumer(kafka: KafkaAddress, use: Use = Use.READ) -> Consumer:
    """A consumer of committed records that belongs to no group: the caller assigns it, and closes it."""
    return Consumer(
        {
            **client_settings(kafka),
            "group.id": "headwater",  # required by the client, never joined: there is no subscription
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.partition.eof": use is Use.READ,
            "fetch.wait.max.ms": 1 if use is Use.READ else LISTEN_MS_MAX,
            "fetch.queue.backoff.ms": 5,
            "queued.max.messages.kbytes": QUEUE_KIB_MAX if use is Use.READ else 1024,
        }
    )


def producer(kafka: KafkaAddress, linger_ms: int = 0) -> Producer:
    """A producer that neither loses, repeats nor reorders what it is given."""
    return Producer({**client_settings(kafka), "enable.idempotence": True, "acks": "all", "linger.ms": linger_ms})


def admin(kafka: KafkaAddress) -> AdminClient:
    """The admin client of this process for that cluster; safe to share between threads."""
    with _lock:
        key = (os.getpid(), kafka)
        if key not in _admins:
            _admins[key] = AdminClient(client_settings(kafka))
        return _admins[key]


@contextmanager
def lease(kafka: KafkaAddress, use: Use = Use.READ) -> Iterator[Consumer]:
    """A consumer for the length of the block. It comes back to the pool unassigned, so that it fetches nothing idly;
    after an error it is closed instead, because its state is not known."""
    key = (os.getpid(), kafka, use)  # a forked child must not touch the clients of its parent
    with _lock:
        pool = _idle.setdefault(key, [])
        leased = pool.pop() if pool else None
    leased = leased or consumer(kafka, use)
    try:
        yield leased
        leased.unassign()
    except GeneratorExit:
        leased.unassign()
        _give_back(key, leased)
        raise
    except BaseException:
        leased.close()
        raise
    _give_back(key, leased)


def _give_back(key: tuple[int, KafkaAddress, Use], leased: Consumer) -> None:
    with _lock:
        pool = _idle.setdefault(key, [])
        if len(pool) < IDLE_CONSUMERS_MAX:
            pool.append(leased)
            return
    leased.close()


@contextmanager
def log_errors(kafka: KafkaAddress, doing: str) -> Iterator[None]:
    """What Kafka's client raises inside the block comes out as a LogError that says what was being done."""
    try:
        yield
    except KafkaException as error:
        raise explain(kafka, error.args[0], doing) from error


def explain(kafka: KafkaAddress, error: KafkaError, doing: str) -> LogError:
    said = f"{doing}, at {kafka.bootstrap}: {error.str()}"
    if error.code() in _OUT_OF_RANGE:
        return PositionExpired(
            "the log does not hold the position", detail=said, hint="headwater log tail --from earliest"
        )
    if error.code() in _ABSENT:
        return LogError(
            "the topic does not exist", detail=said, hint="headwater up starts capture and makes its topics"
        )
    if error.code() in _UNREACHABLE:
        return _explain_silence(kafka, said)
    if error.code() in _REFUSED:
        return LogError("kafka refused the client", detail=said, hint="headwater config show")
    return LogError("kafka failed", detail=said, hint="headwater logs kafka")


def _explain_silence(kafka: KafkaAddress, said: str) -> LogError:
    """A request that cannot reach the cluster only times out; the reason was told in the background."""
    admin(kafka).poll(0)  # has the reasons delivered
    reason = _complaints.pop(kafka, None)
    detail = f"{said}; {reason.str()}" if reason else said
    if reason and reason.code() in _REFUSED:
        return LogError("kafka refused the client", detail=detail, hint="headwater config show")
    return LogError("kafka does not answer", detail=detail, hint="headwater status")


def client_settings(kafka: KafkaAddress) -> dict[str, Any]:
    def note(error: KafkaError) -> None:
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # says less than what went before it
            _complaints[kafka] = error

    # Errors are raised where they matter; librdkafka's own lines on stderr would say them twice.
    return {**kafka.client(), "client.id": "headwater", "log_level": 0, "error_cb": note}

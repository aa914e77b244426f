"""Names that hang: nobody whose name was answered before waits behind them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from alerts.channels import guarded_network
from alerts.channels.guarded_network import RESOLVERS_MAX, SystemResolver
from alerts.delivery.endpoints import DeliveryLimits
from tests.alerts.samples import until

THREADS = 4


class Names:
    """Answers every name but those that begin with `hang`, until it is told to."""

    def __init__(self) -> None:
        self.answering, self.asked_on = threading.Event(), list[str]()

    def __call__(self, host: str, _port: int) -> list[str]:
        self.asked_on.append(threading.current_thread().name.rpartition("_")[0])
        if host.startswith("hang"):
            self.answering.wait(30)
        return ["192.0.2.1"]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Iterator[Names]:
    made = Names()
    monkeypatch.setattr(guarded_network, "RESOLVERS_MAX", THREADS)
    monkeypatch.setattr(guarded_network, "_look_up", made)
    yield made
    made.answering.set()


def test_names_that_hang_delay_none_that_was_answered(names: Names) -> None:
    async def run() -> None:
        resolve = SystemResolver()
        await resolve("good.example", 443)
        hanging = [asyncio.create_task(resolve(f"hang{n}.example", 443)) for n in range(2 * THREADS)]
        await until(lambda: len(names.asked_on) == 1 + THREADS)
        for each in hanging[:THREADS]:
            each.cancel()  # their attempts are over, their threads still wait
        async with asyncio.timeout(5):
            await resolve("good.example", 443)
        names.answering.set()
        resolve.close()

    asyncio.run(run())


def test_a_name_that_hangs_is_not_known_any_more(names: Names) -> None:
    async def run() -> None:
        resolve = SystemResolver()
        names.answering.set()
        await resolve("hang.example", 443)
        names.answering.clear()
        for asked in (2, 3):
            hanging = asyncio.create_task(resolve("hang.example", 443))
            await until(lambda asked=asked: len(names.asked_on) == asked)
            hanging.cancel()
            await asyncio.gather(hanging, return_exceptions=True)
        assert names.asked_on == ["resolve-other", "resolve", "resolve-other"]
        names.answering.set()
        resolve.close()

    asyncio.run(run())


def test_every_attempt_has_a_thread() -> None:
    limits = DeliveryLimits()
    assert limits.untried_attempts_max + limits.failing_attempts_max < limits.attempts_max <= RESOLVERS_MAX

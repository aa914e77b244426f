"""Questions that take long wait for each other, a few of them; the next are told to come again."""

from __future__ import annotations

import asyncio
import threading

import pytest

from headwater.api.problems import TooMany
from headwater.api.slow_questions import SlowQuestions


def test_a_few_wait_and_the_next_are_refused() -> None:
    slow, go_on = SlowQuestions(threads=1, waiting_max=2), threading.Event()

    async def asked() -> list[int]:
        def number(n: int) -> int:
            go_on.wait(30)
            return n

        waiting = [asyncio.create_task(slow.ask(lambda n=n: number(n))) for n in range(3)]
        await asyncio.sleep(0)
        with pytest.raises(TooMany) as refused:
            await slow.ask(lambda: number(9))
        assert refused.value.retry_after_s > 0
        go_on.set()
        answers = list(await asyncio.gather(*waiting))
        return [*answers, await slow.ask(lambda: number(4))]

    assert asyncio.run(asked()) == [0, 1, 2, 4]
    slow.close()


def test_one_that_fails_makes_room() -> None:
    slow = SlowQuestions(threads=1, waiting_max=0)

    async def asked() -> int:
        for _ in range(3):
            with pytest.raises(ZeroDivisionError):
                await slow.ask(lambda: 1 // 0)
        return await slow.ask(lambda: 7)

    assert asyncio.run(asked()) == 7
    slow.close()

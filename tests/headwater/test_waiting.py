"""Waiting over HTTP holds no threads: who waits for a write, and what is kept of a view's newest events."""

from __future__ import annotations

import asyncio
import threading
from itertools import pairwise

import pytest

from cdc.addresses import PostgresAddress
from cdc.errors import ConfigurationError
from cdc.reader import Raw
from cdc.topics import TopicState
from headwater.api import view_feed
from headwater.api.problems import TooMany
from headwater.api.view_feed import Recent, start_of
from headwater.api.waiters import Waiters
from headwater.pages import site_live


def test_many_wait_without_a_thread_and_each_is_woken_by_what_it_waits_for() -> None:
    waiters, reached = Waiters(), [0]

    async def wait() -> list[bool]:
        threads = threading.active_count()
        waiting = [asyncio.ensure_future(waiters.until(lambda n=n: reached[0] >= n, 30)) for n in range(1, 1_001)]
        await asyncio.sleep(0)
        assert waiters.somebody.is_set()

        def tell() -> None:
            for n in (1, 500, 1_000):
                reached[0] = n
                waiters.wake()

        teller = threading.Thread(target=tell)
        teller.start()
        assert threading.active_count() <= threads + 1
        found = await asyncio.gather(*waiting)
        teller.join()
        return found

    assert all(asyncio.run(wait()))
    assert not waiters.somebody.is_set()


def test_who_waits_in_vain_is_told_so() -> None:
    async def wait() -> tuple[bool, bool]:
        late = await waiters.until(lambda: False, 0.01)
        waiting = asyncio.ensure_future(waiters.until(lambda: False, 3_600))
        await asyncio.sleep(0)
        threading.Thread(target=waiters.close).start()
        return late, await waiting

    waiters = Waiters()
    assert asyncio.run(wait()) == (False, False)
    assert not waiters.somebody.is_set()


def record(offset: int, size: int = 10) -> Raw:
    return Raw(offset, 0, b'{"id":1}', b'{"after":"%b"}' % (b"x" * size))


def test_the_newest_events_are_kept_within_bounds_and_who_is_behind_them_reads_the_topic(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(view_feed, "CHUNK_BYTES_MAX", 1_000)
    recent = Recent(100, bytes_max=5_000)
    assert recent.after(99) is None
    assert recent.after(100) == ([], 100)
    for offset in range(100, 200, 2):  # the marks of Kafka's transactions lie between
        recent.add([record(offset, 300)])
    assert 100 < recent.start < recent.end == 199
    assert recent.after(recent.start - 1) is None
    seen, at = list[int](), recent.start
    while found := recent.after(at):
        events, after = found
        assert sum(len(event.text) for event in events) <= 1_000
        if after == at:
            break
        seen += [event.offset for event in events]
        at = after
    assert seen[-1] == 198
    assert all(later - earlier == 2 for earlier, later in pairwise(seen))
    assert recent.after(250) == ([], 250), "nobody is set back"


def test_the_newest_events_are_bounded_in_number_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view_feed, "RECENT_ROWS_MAX", 3)
    recent = Recent(0)
    recent.add([record(offset) for offset in range(10)])
    found = recent.after(recent.start)
    assert found is not None
    assert ([event.offset for event in found[0]], found[1]) == ([7, 8, 9], 10)


def test_what_only_removes_a_key_is_no_event() -> None:
    recent = Recent(0)
    recent.add([Raw(0, 0, b"{}", None)])
    assert recent.after(0) == ([], 1)


@pytest.mark.parametrize("word", ["x", "-1", "٣", "9" * 5_000, "10", "3"])
def test_where_no_event_is(word: str) -> None:
    with pytest.raises(ConfigurationError, match="no event"):
        start_of("card", TopicState("t", 5, 10), word)


def test_where_a_feed_begins() -> None:
    state = TopicState("t", 5, 10)
    assert [start_of("card", state, word) for word in ("now", "earliest", "4", "9")] == [10, 5, 5, 10]


def test_an_inbox_that_is_refused_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site_live, "LISTENERS_MAX", 0)
    watching = site_live.Watching(PostgresAddress("127.0.0.1", 1, "none", "nobody"), threading.Event())

    async def open_one() -> None:
        await anext(watching.events("ada", 0, lambda _news: []))

    with pytest.raises(TooMany):
        asyncio.run(open_one())
    assert not watching._listeners, "nobody is looked for"

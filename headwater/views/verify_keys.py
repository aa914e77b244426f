"""Are some rows of a sink what the view has? Cheap: by key, without reading the view's topic from its beginning.

    mark m ─▶ the sink's rows ─▶ the store's rows ─▶ where they differ: what the topic says of these keys since m

A sink at m holds, of a key, what the store has, unless the key has changed since m. Then the topic has a record of it
after m, with the row before and after it, and the sink may have any of these. A store that is ahead of the topic is
waited for. So a row that is none of them is wrong for certain, however far behind the sink is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cdc.errors import ViewError
from headwater.views.compare import chosen
from headwater.views.kept import Frontiers, KeptView
from headwater.views.verify_sinks import ABSENT, is_one_of, may_be_absent
from headwater.views.view_sinks import ViewSink
from views.sinks.following import ViewTopic
from views.sinks.sink import Mark, Sink

BEHIND_RECORDS_MAX: Final = 100_000
"""A sink that is further behind is not looked at: its status says so already."""
PUBLISHED_S_MAX: Final = 30.0


@dataclass(frozen=True)
class SinkLooked:
    """Some keys of a view in one sink."""

    sink: str
    keys: int
    wrong: tuple[tuple[str, str], ...]
    """What is wrong with which key: missing, extra or different."""
    lsn: str
    took_s: float
    generation: int = 0


def look_at_sink(
    where: ViewSink, kept: KeptView, topic: ViewTopic, frontiers: Frontiers, keys: Sequence[bytes]
) -> SinkLooked:
    """Raises ViewError for a sink that is not filled, or too far behind to tell."""
    began, name, sink = time.monotonic(), where.name, where.sink
    mark = _marked(sink, name, kept.view)
    held = sink.read(keys)
    entries = {each.key.encode(): each.encoded for each in chosen(kept.store, keys)}
    stored = kept.read(list(entries.values()))
    rows = {key: stored.get(entry, ABSENT) for key, entry in entries.items()}
    suspects = {key for key, row in rows.items() if not is_one_of(held.get(key, ABSENT), [row])}
    if suspects:
        allowed = _told_since(mark, kept, topic, frontiers, suspects)
        suspects = {key for key in suspects if not is_one_of(held.get(key, ABSENT), allowed.get(key, []))}
    if may_be_absent(name, kept.group.declared[kept.view].options):
        suspects = {key for key in suspects if key in held}
    if (again := _marked(sink, name, kept.view)).next_offset < mark.next_offset or again.since != mark.since:
        raise ViewError(f"the {name} of {kept.view} was filled anew meanwhile", hint=f"headwater verify {kept.view}")
    wrong = tuple((_kind(held.get(key, ABSENT), rows[key]), key.decode()) for key in sorted(suspects))
    return SinkLooked(name, len(entries), wrong, mark.lsn, time.monotonic() - began, where.generation)


def _marked(sink: Sink, name: str, view: str) -> Mark:
    mark = sink.mark()
    if mark is None:
        raise ViewError(f"the {name} of {view} is not filled", detail="it has no mark", hint=f"headwater views {view}")
    return mark


def _told_since(
    mark: Mark, kept: KeptView, topic: ViewTopic, frontiers: Frontiers, keys: set[bytes]
) -> dict[bytes, list[bytes]]:
    """Every row that the topic has had for the keys since the mark, before and after each change."""
    epoch = kept.epoch
    if frontiers.wait(kept.view, lambda frontier: frontier.offset >= epoch, PUBLISHED_S_MAX) is None:
        raise ViewError(f"view {kept.view} does not get on", detail=f"its rows are at {epoch}", hint="headwater status")
    end = topic.end()
    if end - mark.next_offset > BEHIND_RECORDS_MAX:
        raise ViewError(
            f"a sink of {kept.view} is too far behind to be looked at",
            detail=f"{end - mark.next_offset:,} records, the limit is {BEHIND_RECORDS_MAX:,}",
            hint=f"headwater views {kept.view}",
        )
    found: dict[bytes, list[bytes]] = {}
    for piece in topic.changes(mark.next_offset, end):
        for change in piece:
            if change.key in keys:
                found.setdefault(change.key, []).extend((change.before or ABSENT, change.after or ABSENT))
    return found


def _kind(held: bytes, row: bytes) -> str:
    return "missing" if held == ABSENT else "extra" if row == ABSENT else "different"

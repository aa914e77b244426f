"""Is a sink what its view's topic says? Every row, while both go on.

    mark m ─▶ the topic: its last word on every key before m ─▶ every row of the sink
                                         those that read otherwise ─▶ the topic: all it said since m, then before m

A row that the topic has not mentioned since m must be exactly the topic's. One that it has may be whichever of the
values it had since then: rows are written a moment before the mark that speaks of them. That the view itself is what
Postgres has is what verify.py says: the two together close the way from the source to every reader.

Of every row only two numbers are held (row_numbers.py), so the length of rows does not matter. What does not read the
same is compared by value, for which the topic is read again: what it said since m, and where that does not explain it,
from the beginning.
"""

from __future__ import annotations

import time
from array import array
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from cdc.errors import ViewError
from headwater.views.row_numbers import (
    NONE,
    Flags,
    KeyTexts,
    Newest,
    Numbers,
    among,
    as_numbers,
    by_value,
    numbers_of,
    pairs,
)  # fmt: skip
from headwater.views.row_values import row_values
from views.maintain.contents import key_json
from views.sinks.following import ViewTopic
from views.sinks.sink import Mark, Sink
from views.store import ViewStore

EXAMPLES: Final = 5
ABSENT: Final = b""
WRONG_MAX: Final = 10_000
KINDS: Final = ("missing", "extra", "different")
_MISSING, _EXTRA, _DIFFERENT = range(len(KINDS))
CHUNK_ROWS: Final = 2_000


@dataclass(frozen=True)
class SinkVerified:
    view: str
    sink: str
    rows: int
    missing: int
    extra: int
    different: int
    examples: tuple[str, ...]
    """Keys of rows that differ, with what is wrong."""
    lsn: str
    took_s: float
    generation: int = 0
    wrong: tuple[tuple[str, str], ...] = ()
    """What is wrong with which key; of very many, the first."""
    held: int = 0
    """Rows that are not as they should be because a dead letter holds their key; not counted as wrong."""

    @property
    def is_equal(self) -> bool:
        return not (self.missing or self.extra or self.different)


def may_be_absent(sink: str, options: Mapping[str, str]) -> bool:
    """Rows of a cache may expire by themselves, where the view asked for it."""
    return sink == "cache" and options.get("cache_ttl_s", "0") != "0"


def allowed(sink: str, options: Mapping[str, str]) -> tuple[str, ...]:
    return ("missing",) if may_be_absent(sink, options) else ()


def verify_sink(
    name: str,
    sink: Sink,
    store: ViewStore,
    topic: ViewTopic,
    examples: int = EXAMPLES,
    *,
    generation: int = 0,
    allowed: Collection[str] = (),
    held: Callable[[], Collection[bytes]] = tuple,
) -> SinkVerified:
    """`allowed` is what is not to be counted as wrong, `held` says which keys are not: it is asked before and after,
    because a letter may come or go meanwhile.

    Raises ViewError for a sink that has nothing to compare, or is filled while it is read.
    """
    began = time.monotonic()
    letters = set(held())
    before = _marked(sink, store, name)
    expected = _expected(topic, before)
    with closing(KeyTexts()) as texts:
        rows, suspects = _unlike(sink, store, expected, texts)
        after = _marked(sink, store, name)
        if (after.topic_id, after.since) != (before.topic_id, before.since) or after.next_offset < before.next_offset:
            raise ViewError(
                f"the {name} of {store.view} was filled anew meanwhile", hint=f"headwater verify {store.view}"
            )
        suspects, end = suspects.without(allowed), topic.end()
        suspects = _without_said(suspects, expected, topic, (before.next_offset, end), texts, is_recent=True)
        suspects = _without_said(suspects, expected, topic, (before.since, min(before.next_offset, end)), texts)
        letters |= set(held())
        found, wrong = suspects.distinct(), suspects.without_keys(letters).distinct()
        named = texts.find(wrong.keys[: max(WRONG_MAX, examples)].tolist())
    told = [
        (KINDS[kind], named[key])
        for key, kind in zip(wrong.keys.tolist(), wrong.kinds.tolist(), strict=True)
        if key in named
    ]
    counts = {kind: int((wrong.kinds == number).sum()) for number, kind in enumerate(KINDS)}
    return SinkVerified(
        store.view,
        name,
        rows,
        **counts,
        examples=tuple(f"{kind} {key.decode()}" for kind, key in told[:examples]),
        lsn=after.lsn,
        took_s=time.monotonic() - began,
        generation=generation,
        wrong=tuple((kind, key.decode()) for kind, key in told[:WRONG_MAX]),
        held=len(found.keys) - len(wrong.keys),
    )


@dataclass(frozen=True)
class _Suspects:
    """Rows of a sink that do not read as the topic's last word before the mark; each by numbers."""

    keys: Numbers
    values: Numbers
    """Of the sink's rows, by value; of no row where one is missing."""
    kinds: Numbers

    def only(self, wanted: Flags | Numbers) -> _Suspects:
        return _Suspects(self.keys[wanted], self.values[wanted], self.kinds[wanted])

    def without(self, kinds: Collection[str]) -> _Suspects:
        return self.only(~np.isin(self.kinds, [KINDS.index(kind) for kind in kinds]))

    def without_keys(self, keys: Collection[bytes]) -> _Suspects:
        return self.only(~np.isin(self.keys, numbers_of(keys)))

    def distinct(self) -> _Suspects:
        """A place may tell of a row twice while it goes on."""
        return self.only(np.sort(np.unique(self.keys, return_index=True)[1]))


def _marked(sink: Sink, store: ViewStore, name: str) -> Mark:
    mark = sink.mark()
    if mark is None:
        raise ViewError(
            f"the {name} of {store.view} is not filled", detail="it has no mark", hint=f"headwater views {store.view}"
        )
    return mark


def _expected(topic: ViewTopic, mark: Mark) -> Newest:
    """The topic's last word on every key before the mark."""
    found = Newest()
    for piece in topic.changes(mark.since, min(mark.next_offset, topic.end())):
        found.add(numbers_of(each.key for each in piece), numbers_of(each.after or ABSENT for each in piece))
    found.settle()
    return found


def _unlike(sink: Sink, store: ViewStore, expected: Newest, texts: KeyTexts) -> tuple[int, _Suspects]:
    """How many rows the sink has, and those that are not, letter by letter, what is expected."""
    met, others = np.zeros(len(expected.keys), np.bool_), set[int]()
    keys, values, kinds = array("q"), array("q"), array("q")
    rows = iter(sink.rows())
    while chunk := list(islice(rows, CHUNK_ROWS)):
        names = [key_json(store, row) for row in chunk]
        numbers = numbers_of(names)
        known, places = expected.places(numbers)
        met[places[known]] = True
        there = expected.rows_of(numbers)
        for place in np.flatnonzero(there != numbers_of(chunk)).tolist():
            number, is_extra = int(numbers[place]), there[place] == NONE
            if is_extra:
                texts.add(number, names[place])
            if not known[place]:
                others.add(number)
            keys.append(number)
            values.append(by_value(chunk[place]))
            kinds.append(_EXTRA if is_extra else _DIFFERENT)
    missing = expected.keys[~met & (expected.rows != NONE)]
    suspects = _Suspects(
        np.concatenate([as_numbers(keys), missing]),
        np.concatenate([as_numbers(values), np.full(len(missing), NONE, np.int64)]),
        np.concatenate([as_numbers(kinds), np.full(len(missing), _MISSING, np.int64)]),
    )
    return int(met.sum()) + len(others), suspects


def _without_said(
    suspects: _Suspects,
    expected: Newest,
    topic: ViewTopic,
    between: tuple[int, int],
    texts: KeyTexts,
    *,
    is_recent: bool = False,
) -> _Suspects:
    """Those that are not, as values, what the topic has there: any row that it names, if `is_recent`, with those that
    were replaced, because the record of these may be gone; else only what is expected. The rest is named in `texts`."""
    if not len(suspects.keys):
        return suspects
    known = np.unique(suspects.keys)
    standing = expected.rows_of(known)
    keys, values = array("q"), array("q")
    for piece in topic.changes(*between):
        numbers = numbers_of(each.key for each in piece)
        for place in np.flatnonzero(among(numbers, known)).tolist():
            number, change = int(numbers[place]), piece[place]
            stands = standing[np.searchsorted(known, number)]
            for row in (change.before or ABSENT, change.after or ABSENT):
                is_expected = row != ABSENT and hash(row) == stands
                if is_expected:
                    texts.add(number, change.key)
                if is_expected or is_recent:
                    keys.append(number)
                    values.append(by_value(row))
    return suspects.only(~np.isin(pairs(suspects.keys, suspects.values), pairs(as_numbers(keys), as_numbers(values))))


def is_one_of(row: bytes, allowed: Iterable[bytes]) -> bool:
    """The same text, or the same values: a place may print a number with other zeros."""
    allowed = list(allowed)
    if row in allowed or row == ABSENT:
        return row in allowed
    return row_values(row) in [row_values(each) for each in allowed if each != ABSENT]

"""One view's changes against its searches: in order, in pieces, and whatever a row holds."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from alerts import matched as matched_values
from alerts import watch
from alerts.int_array import Bigints, _Binary
from alerts.matched import parts
from alerts.moves import decoded, judged
from alerts.standing import Standing
from alerts.watch import Watch
from cdc.errors import SinkUnavailable, StateError
from cdc.position import Position
from search.index import define
from tests.alerts.store.wishes import wish
from views import sqltypes
from views.plan import Field
from views.sinks.sink import Change, Mark, ViewShape

FIELDS = (
    Field("id", sqltypes.BIGINT, nullable=False),
    Field("city", sqltypes.TEXT),
    Field("price", sqltypes.named("numeric")),
    Field("more", sqltypes.named("jsonb")),
)
DEFINITION = define(ViewShape("market", "listing", FIELDS, ("id",)))
MARK = Mark("t", 1_000, era=7, offset=50, committed_at_us=1_000_000)
SAVED = {"view": "listing", "query": json.dumps({"match_all": {}}), "events": ["entered"], "columns": []}
DIGITS = "9" * 5_000


class Book:
    """Two searches of everything, in force from the beginning."""

    settled = None

    def __init__(self) -> None:
        self._new: list[tuple[int, Any]] = [(1, SAVED), (2, SAVED)]

    def is_of(self, era: int) -> bool:
        return era == MARK.era

    def advance(self, to: int) -> list[tuple[int, Any]]:
        found, self._new = self._new, []
        return found

    def is_quiet(self, end: int) -> bool:
        return False

    def has_expired(self, number: int, at_us: int) -> bool:
        return False


def listed(version: int, more: str = "{}") -> Change:
    row = f'{{"id": {version}, "city": "paris", "price": 100, "more": {more}}}'
    return Change(f'{{"id": {version}}}'.encode(), row.encode(), version)


def matched(changes: Sequence[Change]) -> tuple[list[tuple[int, int]], Watch]:
    found = Watch(Book(), Standing(DEFINITION))  # type: ignore[arg-type]
    pairs = [
        (each.changes[place].version, search)
        for each in found.matches(changes, None, [MARK])
        for place, search in zip(each.found.delta.tolist(), each.found.subscription.tolist(), strict=True)
    ]
    return pairs, found


def test_in_the_order_of_the_changes_whatever_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watch, "CHANGES_MAX", 7)
    found, _ = matched([listed(number) for number in range(50)])
    assert [version for version, _ in found] == [number // 2 for number in range(100)]
    assert sorted(found) == [(number, search) for number in range(50) for search in (1, 2)]


@pytest.mark.parametrize(
    "more",
    [f'{{"x": {DIGITS}}}', "[" * 20_000 + "]" * 20_000, json.dumps([{"a": 1}] * 10_001)],
    ids=["digits", "depth", "elements"],
)
def test_a_row_that_cannot_be_read_is_refused_alone(more: str) -> None:
    found, at = matched([listed(0), listed(1, more), listed(2)])
    assert sorted(found) == [(0, 1), (0, 2), (2, 1), (2, 2)]
    [refused] = at.unread
    assert refused.change.version == 1
    assert refused.error


def test_who_had_expired_at_the_commit_is_not_told_of_it_later() -> None:
    """Whatever the search says by the time that it is matched."""

    class Expiring(Book):
        def has_expired(self, number: int, at_us: int) -> bool:
            assert at_us == MARK.committed_at_us
            return number == 2

    found = Watch(Expiring(), Standing(DEFINITION)).matches([listed(0), listed(1)], None, [MARK])  # type: ignore[arg-type]
    assert [each.found.subscription.tolist() for each in found] == [[1, 1]]


def test_a_column_that_cannot_be_read_is_told_of_without_it() -> None:
    before, after = (
        f'{{"id": 1, "title": "Flat", "city": "paris", "price": {price}, "size": {DIGITS}}}'.encode()
        for price in (100, 90)
    )
    row = decoded(after)
    assert row == {"id": 1, "title": "Flat", "city": "paris", "price": 90}
    asked = wish(events=["dropped"], watched_column="price")
    assert judged(asked, ["dropped"], decoded(before), row).reasons == {"dropped": "price dropped from 100 to 90"}


def test_parts_are_cut_between_changes_and_hold_each_match_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the pieces they come in; what one change concerns is never divided."""
    monkeypatch.setattr(watch, "CHANGES_MAX", 6)
    monkeypatch.setattr(matched_values, "MATCHES_MAX", 5)
    changes = [listed(number) for number in range(20)]
    pieces = Watch(Book(), Standing(DEFINITION)).matches(changes, None, [MARK])  # type: ignore[arg-type]
    found = list(parts(pieces, 3, 20))
    assert [len(part.changes) for part, _ in found] == [2, 1, *[2] * 7]
    assert not any(is_all for _, is_all in found)
    assert [
        (part.changes[place].version, search)
        for part, _ in found
        for place, search in zip(part.found.delta.tolist(), part.found.subscription.tolist(), strict=True)
    ] == [(version, search) for version in range(3, 20) for search in (1, 2)]
    with pytest.raises(StateError, match="beyond the mark"):
        list(parts(Watch(Book(), Standing(DEFINITION)).matches(changes, None, [MARK]), 0, 19))  # type: ignore[arg-type]


def test_bigints_are_as_postgres_reads_them() -> None:
    """Its binary form of an array, element by element."""
    dumped = bytes(_Binary(Bigints).dump(Bigints(np.array([1, -2, 2**62], np.int64))))
    assert struct.unpack("!iiIii", dumped[:20]) == (1, 0, 20, 3, 1)
    assert struct.unpack("!iqiqiq", dumped[20:]) == (8, 1, 8, -2, 8, 2**62)


class Table(Book):
    """Of many, as they lie in Postgres."""

    def __init__(self, *saved: Any) -> None:
        super().__init__()
        self._saved, self._era, self.is_read = saved, 0, False

    def is_of(self, era: int) -> bool:
        return era == self._era

    def count(self, most: int) -> int:
        return min(most, len(self._saved))

    def open(self, at: Position) -> Iterator[tuple[int, Any]]:
        self.is_read = True
        self._era = at.era
        yield from enumerate(self._saved, 1)

    def resume(self, at: Position) -> bool:
        self._era, self._new = at.era, []
        return True


def test_many_are_made_a_base_of_by_a_process_of_its_own(tmp_path: Path) -> None:
    broken = {**SAVED, "query": json.dumps({"equals": {"field": "gone", "value": 1}})}
    book = Table(SAVED, broken, SAVED)
    watching = Watch(book, Standing(DEFINITION, tmp_path / "base", 3))  # type: ignore[arg-type]
    watching.ready(MARK, None)
    assert not book.is_read, "here the others would wait for it"
    [found] = watching.matches([listed(0)], None, [MARK])
    assert sorted(found.found.subscription.tolist()) == [1, 3]
    assert Standing(DEFINITION, tmp_path / "base").resume() == Position(7, 50)
    few = Table(SAVED, SAVED)
    Watch(few, Standing(DEFINITION, tmp_path / "few", 3)).ready(MARK, None)  # type: ignore[arg-type]
    assert few.is_read


def test_a_base_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    watching = Watch(Table({}), Standing(DEFINITION, tmp_path / "base", 1))  # type: ignore[arg-type]
    with pytest.raises(SinkUnavailable, match="no base of saved searches could be made") as told:
        watching.ready(MARK, None)
    assert "missing required field" in told.value.detail

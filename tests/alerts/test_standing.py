"""In files or in memory, before and after a new base and a new life: what stands matches as the evaluator does."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from alerts import standing
from alerts.matcher import Naive
from alerts.matcher.matcher import Matcher
from alerts.standing import Standing
from alerts.subscription import Entry
from cdc.position import Position
from search.index import define
from search.query_check import check
from tests.alerts import asked
from tests.search import market
from tests.waiting import eventually

NOW = datetime(2026, 5, 31, 12, tzinfo=UTC)
DEFINITION = market.DEFINITION
FEW = 40
QUERIES = [check(query, DEFINITION) for query in market.every_clause()]
ROWS: list[Any] = [asked.row(seed) for seed in range(12)]
CHANGES = [(None, ROWS[0]), *zip(ROWS, [*ROWS[1:], None], strict=True)]


def at(offset: int) -> Position:
    return Position(7, offset)


class Pair:
    """What stands, and the evaluator beside it."""

    def __init__(self, standing: Standing) -> None:
        self.standing, self.naive, self.draw = standing, Naive(DEFINITION), random.Random(5)

    def entry(self, number: int) -> Entry:
        return Entry(number, self.draw.choice(QUERIES), asked.ALL)

    def churn(self, times: int) -> None:
        for _ in range(times):
            number = self.draw.randrange(200)
            self.standing.remove(number)
            self.naive.remove(number)
            if self.draw.random() < 0.7:
                entry = self.entry(number)
                self.standing.put(entry)
                self.naive.put(entry)

    def agree(self) -> None:
        mine, theirs = (
            sorted(zip(found.delta.tolist(), found.subscription.tolist(), found.event.tolist(), strict=True))
            for found in (self.standing.match(CHANGES, NOW), self.naive.match(CHANGES, NOW))
        )
        assert mine == theirs
        assert mine

    def made(self, position: Position) -> None:
        """Begins the next base, goes on meanwhile, and takes it."""
        self.standing.tend(position)
        assert self.standing.is_making
        self.churn(20)
        self.agree()

        def taken() -> bool:
            self.standing.tend(position)
            return not self.standing.is_making

        eventually(taken)
        self.agree()


def test_many_go_into_files_and_a_new_life_goes_on_from_there(tmp_path: Path) -> None:
    pair = Pair(Standing(DEFINITION, tmp_path / "base", FEW))
    entries = [pair.entry(number) for number in range(100)]
    for entry in entries:
        pair.naive.put(entry)
    pair.standing.begin(entries)
    pair.agree()
    pair.made(at(10))
    assert Standing(DEFINITION, tmp_path / "base", FEW).resume() == at(10)
    pair.churn(60)
    pair.agree()
    pair.made(at(20))
    pair.standing.close()

    # What was made at 20 lacks what came later; the log has it.
    born = Pair(Standing(DEFINITION, tmp_path / "base", FEW))
    assert born.standing.resume() == at(20)
    for number in range(200):
        born.standing.remove(number)
    for entry in pair.naive._entries.values():
        born.standing.put(entry)
    born.naive = pair.naive
    born.agree()


def test_few_stay_in_memory_until_they_are_many(tmp_path: Path) -> None:
    pair = Pair(Standing(DEFINITION, tmp_path / "base", FEW))
    pair.standing.begin([])
    pair.churn(10)
    pair.standing.tend(at(2))
    assert not pair.standing.is_making
    pair.churn(150)
    pair.made(at(3))
    assert (tmp_path / "base" / "current").exists()


def test_a_base_that_cannot_be_used_is_none(tmp_path: Path) -> None:
    folder = tmp_path / "base"
    Matcher.build(folder, DEFINITION, [Entry(1, QUERIES[0])], version=str(at(1)))
    assert Standing(DEFINITION, folder).resume() == at(1)
    other = define(replace(market.shape(), view="other"))
    assert Standing(other, folder).resume() is None
    current = folder / (folder / "current").read_text()
    (current / "words.npy").write_bytes(b"cut off")
    assert Standing(DEFINITION, folder).resume() is None
    assert Standing(DEFINITION, None).resume() is None


def test_a_maker_that_fails_changes_nothing(tmp_path: Path) -> None:
    pair = Pair(Standing(DEFINITION, tmp_path / "base", FEW))
    pair.standing.begin([])
    pair.churn(150)
    pair.standing.tend(at(2))
    assert pair.standing._making is not None
    pair.standing._making[0].kill()

    def ended() -> bool:
        pair.standing.tend(at(2))
        return not pair.standing.is_making

    eventually(ended)
    pair.agree()
    pair.made(at(3))


@pytest.mark.parametrize("limit", ["RECORDS_MAX", "AGE_S_MAX"])
def test_a_base_that_is_old_is_followed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    """However little has changed: who begins anew reads the log since."""
    pair = Pair(Standing(DEFINITION, tmp_path / "base", FEW))
    pair.standing.begin([])
    pair.churn(150)
    pair.made(at(10))
    pair.standing.begin([])
    assert pair.standing.resume() == at(10)
    pair.standing.tend(at(11))
    assert not pair.standing.is_making
    monkeypatch.setattr(standing, limit, 1 if limit == "RECORDS_MAX" else 0)
    pair.standing.tend(at(10))
    assert not pair.standing.is_making, "there is nothing to be read"
    pair.standing.tend(at(11))
    assert pair.standing.is_making

    def taken() -> bool:
        pair.standing.tend(at(11))
        return not pair.standing.is_making

    eventually(taken)
    assert Standing(DEFINITION, tmp_path / "base", FEW).resume() == at(11)

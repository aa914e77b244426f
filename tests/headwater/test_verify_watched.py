"""A row that never rests, watched: which of the moments speak for what the view had. Without Postgres and Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from cdc.position import Lsn
from headwater.views import verify
from headwater.views.compare import Comparison, Differing
from headwater.views.moments import Shown
from headwater.views.verify import Verifier

MOMENTS = 100
TIMES = 10
"""So many commits a moment, each counts the row up."""
EPOCH = 355
"""Commits in the first epoch that ends while the row is watched."""
KEY = "{}"


@pytest.mark.parametrize(
    ("commit", "moments"),
    [(9, []), (10, ["a"]), (11, ["a", "b"]), (20, ["a", "b"]), (25, ["b", "c"]), (31, ["c"]), (40, ["c"]), (41, [])],
)
def test_which_moments_come_right_after_a_commit(commit: int, moments: list[str]) -> None:
    shown = Shown([Lsn(10)])
    for name, end in (("a", 20), ("b", 30), ("c", 40)):
        shown.add({"k": name.encode()}, Lsn(end))
    assert [rows["k"].decode() for rows in shown.after(Lsn(commit))] == moments


def count(number: int) -> bytes:
    return b'{"n":%d}' % number


def watched(monkeypatch: pytest.MonkeyPatch, *, told: int | None, stored: int, rests: bool = False) -> bool:
    """Whether the row is found equal that Postgres counts up with every commit, and that the view has told so."""
    ends = iter(range(0, (MOMENTS + 1) * TIMES, TIMES))
    commits = iter(range(0, MOMENTS * TIMES, TIMES))

    class Rows(Comparison):
        def postgres_rows(self, _suspects: Any) -> dict[str, bytes]:
            return {KEY: count(1 if rests else next(commits) + TIMES // 2)}

    def published() -> Iterator[tuple[str, dict[str, msgspec.Raw]]]:
        if told is not None:
            record = {"before": count(told - 300), "after": count(told), "lsn": b'"%s"' % str(Lsn(EPOCH)).encode()}
            yield KEY, {name: msgspec.Raw(value) for name, value in record.items()}

    monkeypatch.setattr(verify, "Comparison", Rows)
    monkeypatch.setattr(verify, "connect", lambda _address: nullcontext())
    monkeypatch.setattr(verify, "explained", lambda _conn: nullcontext())
    monkeypatch.setattr(verify, "moments", lambda _conn, _timeout_s: iter(range(MOMENTS)))
    monkeypatch.setattr(verify, "wal_end", lambda _conn: Lsn(next(ends)))
    verifier: Any = Verifier.__new__(Verifier)
    verifier.postgres, verifier.timeout_s = None, 1.0
    verifier._topic_end, verifier._wait, verifier._all_published = (lambda *_given: 0,) * 3
    verifier._records = lambda *_given: published()
    kept: Any = SimpleNamespace(
        view="v", store=SimpleNamespace(fields=[]), read_anywhere=lambda keys: dict.fromkeys(keys, count(stored))
    )
    suspect = Differing(KEY, b"", count(0), count(1))
    return verifier._watched(kept, {KEY: suspect}, {KEY}) == {}


def test_what_the_view_had_is_seen_right_after_the_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(monkeypatch, told=EPOCH, stored=900)


@pytest.mark.parametrize("wrong_by", [-100, -20, 20, 100])
def test_what_it_had_at_another_time_proves_nothing(monkeypatch: pytest.MonkeyPatch, wrong_by: int) -> None:
    """A row that counts up has nearly every value some time."""
    assert not watched(monkeypatch, told=EPOCH + wrong_by, stored=900 + wrong_by)


def test_one_that_rested_is_the_same_at_all_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    assert watched(monkeypatch, told=None, stored=1, rests=True)
    assert not watched(monkeypatch, told=None, stored=2, rests=True)

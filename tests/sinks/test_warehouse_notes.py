"""Which versions of a history were nobody's news, as stretches: offsets without a version belong to what is around."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from views.sinks.sink import Change
from views.sinks.warehouse_notes import SILENT_MAX, from_version, silent_stretches, together


def changes(told: str, first: int = 0) -> list[Change]:
    """An offset each: s is silent, n is news, a dot is none."""
    found = [(number, kind) for number, kind in enumerate(told, first) if kind != "."]
    return [Change(b"{}", b"{}", number, is_silent=kind == "s") for number, kind in found]


@pytest.mark.parametrize(
    ("told", "stretches"),
    [
        ("", []),
        ("...", []),
        ("n.n", []),
        ("s.s", [(0, 3)]),
        (".s.", [(0, 3)]),
        ("ns.s.n", [(1, 5)]),
        ("s.n.s", [(0, 2), (4, 5)]),
    ],
)
def test_stretches(told: str, stretches: list[tuple[int, int]]) -> None:
    assert silent_stretches(changes(told), 0, len(told)) == stretches


def test_what_was_read_before_is_left_out() -> None:
    assert silent_stretches(changes("ssn.s"), 3, 5) == [(3, 5)]


@given(st.text("sn.", max_size=30), st.lists(st.integers(1, 30), max_size=4))
def test_however_it_is_cut_into_batches(told: str, cuts: list[int]) -> None:
    """A rebuild reads in larger pieces than epochs came in. What is silent is, and no news is."""
    ends = sorted({min(cut, len(told)) for cut in cuts} | {len(told)})
    known: tuple[tuple[int, int], ...] = ()
    for start, end in zip([0, *ends], ends, strict=False):
        known = together(known, silent_stretches(changes(told[start:end], start), start, end))
    for change in changes(told):
        assert any(first <= change.version < end for first, end in known) == change.is_silent


def test_who_had_all_versions_knows_better() -> None:
    """Read from a compacted topic: that of offset 1 is gone there, and lies between two that are silent."""
    read, had = silent_stretches(changes("s.sn"), 0, 4), silent_stretches(changes("sns"), 0, 3)
    assert together(from_version(read, 3), had) == ((0, 1), (2, 3))
    assert from_version([(0, 2), (2, 6)], 4) == [(4, 6)]


def test_they_are_bounded_and_the_newest_stay() -> None:
    many = [(number, number + 1) for number in range(0, 4 * SILENT_MAX, 2)]
    kept = together(many)
    assert (len(kept), kept[-1]) == (SILENT_MAX, many[-1])

"""Where quiet stretches lie in the log, opened wherever: compared with who goes through it from the beginning. Pure."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from alerts.gathering import Logged
from alerts.quiet import Silence
from cdc.events import Op, Row
from cdc.relations import QUIET

VIEW = "mine"
RECORDS = 10
"""Of a transaction."""


def row(view: str | None, ended: bool = False) -> Row:
    return {"view": view, "ended_at": "2026-11-17T11:30:18Z" if ended else None}


def begun(end: int, number: int, view: str | None, op: Op = Op.INSERT) -> Logged:
    return Logged(QUIET, op, end, number, None, row(view))


def ended(end: int, number: int, view: str | None) -> Logged:
    return Logged(QUIET, Op.UPDATE, end, number, row(view), row(view, ended=True))


def forgotten(end: int, number: int, view: str | None) -> Logged:
    return Logged(QUIET, Op.DELETE, end, number, row(view, ended=True), None)


@st.composite
def transactions(draw: st.DrawFn) -> list[list[Logged]]:
    """Stretches of this view, of another and of all, begun and ended in any order, in one transaction or several."""
    made: list[list[Logged]] = []
    going: dict[int, str | None] = {}
    over: dict[int, str | None] = {}
    number = 0
    for index in range(draw(st.integers(0, 12))):
        changes: list[Logged] = []
        for what in draw(st.lists(st.sampled_from(["begin", "end", "forget"]), max_size=3)):
            end = (index + 1) * RECORDS
            if what == "begin":
                number += 1
                going[number] = draw(st.sampled_from([None, VIEW, "other"]))
                changes.append(begun(end, number, going[number]))
            elif what == "end" and going:
                one = draw(st.sampled_from(sorted(going)))
                over[one] = going.pop(one)
                changes.append(ended(end, one, over[one]))
            elif what == "forget" and over:
                one = draw(st.sampled_from(sorted(over)))
                changes.append(forgotten(end, one, over.pop(one)))
        made.append(changes)
    return made


def is_going(found: Row | None) -> bool:
    return found is not None and found["view"] in (None, VIEW) and found["ended_at"] is None


@given(transactions(), st.data())
def test_silent_is_what_lies_between_beginning_and_end_wherever_it_is_opened(
    log: list[list[Logged]], data: st.DataObject
) -> None:
    going: set[int] = set()
    silent: dict[int, bool] = {}
    for index, changes in enumerate(log):
        touched = any(is_going(one) for change in changes for one in (change.before, change.after))
        silent[(index + 1) * RECORDS] = bool(going) or touched
        for change in changes:
            going = going | {change.id} if is_going(change.after) else going - {change.id}
    opened = data.draw(st.integers(0, len(log)))
    silence = Silence(VIEW, going)
    for change in (change for changes in log[opened:] for change in changes):
        silence.take(change)
    assert {end: silence.holds(end) for end in silent if end > opened * RECORDS} == {
        end: expected for end, expected in silent.items() if end > opened * RECORDS
    }


def test_a_snapshot_says_nothing_of_when_a_stretch_began() -> None:
    silence = Silence(VIEW, {1})
    silence.take(begun(50, 1, VIEW, Op.READ))
    assert silence.holds(10)
    silence.take(ended(80, 1, VIEW))
    assert [silence.holds(end) for end in (70, 80, 90)] == [True, True, False]

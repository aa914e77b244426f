"""`headwater erase --delete-source` deletes nothing while somebody would not get on, and what fails later names the
keys."""

from __future__ import annotations

import shlex
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.errors import SinkError, ViewError
from cdc.events import TableName
from headwater.erasing import erase as erasing
from headwater.erasing.person import Person, key_argument, parsed_key
from views.maintain.registry import State, ViewState, ViewStatus, Wanted, WantedView
from views.sinks.lane_status import LaneState, SinkStatus
from views.sinks.sink import Mark

CUSTOMERS = TableName("public", "customers")
ADA = Person(CUSTOMERS, ("id",), ((99,), (100,)), frozenset({"ada@example.org"}), rows_in_source=2)
VALUES = st.text() | st.integers() | st.booleans() | st.sampled_from(["1", "1e5", "a,b=c", "true", "{", " ", "O'Hara"])


class Kept:
    """A registry of one view that is kept."""

    def __init__(self, state: ViewState) -> None:
        self._state = state

    def is_kept(self) -> bool:
        return True

    def wanted(self) -> Wanted:
        return Wanted({"card": WantedView("select 1", [], 1.0, "b")})

    def state(self) -> State:
        return State(views={"card": ViewStatus(self._state)})


def place(monkeypatch: pytest.MonkeyPatch, view: ViewState, sink: LaneState, mark: Mark | None) -> Any:
    status = SinkStatus("card", "cache", sink, mark=mark)
    monkeypatch.setattr(erasing, "read_board", lambda kafka, source: {("card", "cache"): status})
    return SimpleNamespace(registry=Kept(view), deployment=SimpleNamespace(kafka=None, source=None))


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[Person]:
    """Whose rows were deleted in the source."""
    found: list[Person] = []
    monkeypatch.setattr(erasing, "delete_rows", lambda conn, person: found.append(person) or 2)
    return found


@pytest.mark.parametrize(
    ("view", "sink", "mark", "told"),
    [
        (ViewState.HELD, LaneState.RIDING, Mark("t", 5), "view card is held"),
        (ViewState.PAUSED, LaneState.RIDING, Mark("t", 5), "view card is paused"),
        (ViewState.BUILDING, LaneState.RIDING, Mark("t", 5), "view card is building"),
        (ViewState.LIVE, LaneState.PAUSED, Mark("t", 5), "cache of card is paused"),
        (ViewState.LIVE, LaneState.FILLING, Mark("t", 5), "cache of card is filling"),
        (ViewState.LIVE, LaneState.DOWN, Mark("t", 5), "cache of card is down"),
        (ViewState.LIVE, LaneState.FOLLOWING, None, "cache of card is following"),
    ],
)
def test_nothing_is_deleted_while_somebody_would_not_get_on(
    monkeypatch: pytest.MonkeyPatch,
    deleted: list[Person],
    view: ViewState,
    sink: LaneState,
    mark: Mark | None,
    told: str,
) -> None:
    with pytest.raises(ViewError, match="not every view and place goes on") as caught:
        erasing.erase(place(monkeypatch, view, sink, mark), ADA, None, delete_source=True)  # type: ignore[arg-type]
    assert caught.value.detail.startswith(told)
    assert deleted == []


def test_a_view_that_waits_for_its_review_is_in_the_way_of_the_log_only(monkeypatch: pytest.MonkeyPatch) -> None:
    where = place(monkeypatch, ViewState.READY, LaneState.RIDING, Mark("t", 5))
    erasing.require_going(where)
    with pytest.raises(ViewError, match="not every view"):
        erasing.require_going(where, now=True)


def test_what_fails_after_the_rows_are_gone_names_the_keys(
    monkeypatch: pytest.MonkeyPatch, deleted: list[Person]
) -> None:
    def never(*_: object) -> None:
        raise SinkError("cache of card: does not include it yet", hint="headwater views")

    monkeypatch.setattr(erasing, "wait_included", never)
    where = place(monkeypatch, ViewState.LIVE, LaneState.RIDING, Mark("t", 5))
    with pytest.raises(SinkError) as caught:
        erasing.erase(where, ADA, None, delete_source=True)  # type: ignore[arg-type]
    assert deleted == [ADA]
    assert caught.value.hint == (
        "headwater views; then go on: headwater erase --table public.customers --key id=99 --key id=100 --yes"
    )


def test_the_plan_says_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "holders", lambda *_: [])
    assert erasing.plan(None, ADA).by_key == ADA.command()  # type: ignore[arg-type]


@given(st.dictionaries(st.sampled_from(["id", "line"]), VALUES, min_size=1))
def test_a_key_is_read_as_it_was_told(key: dict[str, Any]) -> None:
    found = parsed_key(key_argument(key))
    assert found == key
    assert [type(value) for value in found.values()] == [type(value) for value in key.values()]


def test_a_key_can_be_handed_to_a_shell() -> None:
    key = {"id": "O'Hara, 5"}
    person = Person(CUSTOMERS, ("id",), (("O'Hara, 5",),))
    words = shlex.split(person.command(now=True))
    assert parsed_key(words[words.index("--key") + 1]) == key
    assert words[-2:] == ["--now", "--yes"]

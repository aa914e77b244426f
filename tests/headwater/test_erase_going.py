"""`headwater erase --delete-source` deletes nothing while somebody would not get on, and what fails later names the
keys."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.errors import SinkError, StateError, ViewError
from cdc.position import Lsn
from headwater.erasing import erase as erasing
from headwater.erasing import view_places
from headwater.erasing.person import Person, key_argument, parsed_key
from headwater.erasing.view_places import CopiesOfState
from tests.headwater.persons import shape
from views.generation import Generation, GenerationState
from views.maintain.book import Book
from views.maintain.copies import FILE, Copy
from views.maintain.groups import Groups
from views.maintain.progress import Progress
from views.maintain.registry import Registry, State, ViewState, ViewStatus, Wanted, WantedView
from views.rebuild import Origin, Rebuild, RebuildState
from views.sinks.lane_status import LaneState, SinkStatus
from views.sinks.sink import Mark

CUSTOMERS = shape("customers", id="integer")
ADA = Person(CUSTOMERS, ((99,), (100,)), frozenset({"ada@example.org"}), rows_in_source=2)
VALUES = st.text() | st.integers() | st.booleans() | st.sampled_from(["1", "1e5", "a,b=c", "true", "{", " ", "O'Hara"])


NEW = Generation("card", "cache", 2, GenerationState.BUILDING, 1.0, rebuild="r1")
STANDBY = Generation("card", "cache", 1, GenerationState.STANDBY, 1.0)
LEFT = Generation("card", "cache", 3, GenerationState.FAILED, 1.0, is_left=True)
AT_20 = Mark("t", 5, lsn="0/20")


class Kept:
    """A registry of one view that is kept."""

    def __init__(self, state: ViewState, book: Book | None = None, beside: Sequence[SinkStatus] = ()) -> None:
        self._state, self._book, self._beside = state, book or Book(), list(beside)

    def is_kept(self) -> bool:
        return True

    def wanted(self) -> Wanted:
        return Wanted({"card": WantedView("select 1", [], 1.0, "b")})

    def state(self) -> State:
        return State(views={"card": ViewStatus(self._state)}, beside=self._beside)

    def book(self) -> Book:
        return self._book


def place(
    monkeypatch: pytest.MonkeyPatch,
    view: ViewState,
    sink: LaneState,
    mark: Mark | None,
    book: Book | None = None,
    beside: Sequence[SinkStatus] = (),
) -> Any:
    status = SinkStatus("card", "cache", sink, mark=mark)
    monkeypatch.setattr(erasing, "read_board", lambda kafka, source: {("card", "cache"): status})
    deployment = SimpleNamespace(kafka=None, source=None)
    return SimpleNamespace(registry=Kept(view, book, beside), deployment=deployment)


def book_of(*generations: Generation, rebuild: RebuildState = RebuildState.RUNNING) -> Book:
    return Book(generations, (Rebuild("r1", "card", "cache", 2, Origin.TOPIC, 1.0, state=rebuild),))


def side(number: int, state: LaneState, lsn: str | None) -> SinkStatus:
    return SinkStatus("card", "cache", state, number, Mark("t", 5, lsn=lsn) if lsn else None)


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


def test_nothing_is_deleted_while_what_is_over_could_not_be_removed(
    monkeypatch: pytest.MonkeyPatch, deleted: list[Person]
) -> None:
    where = place(monkeypatch, ViewState.LIVE, LaneState.RIDING, Mark("t", 5))
    left = Generation("dropped", "search", 2, GenerationState.LIVE, 1.0).unwanted(2.0, "the view was dropped")
    where.registry.book = lambda: Book((left,))
    with pytest.raises(ViewError, match="could be removed yet") as caught:
        erasing.erase(where, ADA, None, delete_source=True)  # type: ignore[arg-type]
    assert caught.value.detail.startswith("generation 2 of the search of dropped")
    assert deleted == []


def test_a_view_that_waits_for_its_review_is_in_the_way_of_the_log_only(monkeypatch: pytest.MonkeyPatch) -> None:
    where = place(monkeypatch, ViewState.READY, LaneState.RIDING, Mark("t", 5))
    erasing.require_going(where)
    with pytest.raises(ViewError, match="not every view"):
        erasing.require_going(where, now=True)


def test_nothing_is_deleted_while_a_paused_rebuild_holds_the_rows(
    monkeypatch: pytest.MonkeyPatch, deleted: list[Person]
) -> None:
    """Its generation goes on when somebody says so, and readers may go over to it."""
    book = book_of(NEW, STANDBY, rebuild=RebuildState.PAUSED)
    where = place(monkeypatch, ViewState.LIVE, LaneState.RIDING, AT_20, book, [side(1, LaneState.RIDING, "0/20")])
    with pytest.raises(ViewError, match="not every view and place goes on") as caught:
        erasing.erase(where, ADA, None, delete_source=True)  # type: ignore[arg-type]
    assert caught.value.detail.startswith("rebuild r1 of generation 2 of the cache of card is paused: ")
    assert "headwater rebuild --resume" in caught.value.hint
    assert deleted == []


def test_nothing_is_deleted_while_a_generation_beside_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    down = [side(1, LaneState.DOWN, "0/20")]
    where = place(monkeypatch, ViewState.LIVE, LaneState.RIDING, AT_20, book_of(STANDBY), down)
    with pytest.raises(ViewError) as caught:
        erasing.require_going(where)
    assert caught.value.detail.startswith("generation 1 of the cache of card is down")


@pytest.mark.parametrize(
    ("generations", "beside", "behind"),
    [
        ([NEW], [], ["generation 2 of the cache of card"]),
        ([NEW], [side(2, LaneState.FILLING, None)], ["generation 2 of the cache of card"]),
        ([NEW], [side(2, LaneState.FOLLOWING, "0/1F")], ["generation 2 of the cache of card"]),
        ([NEW], [side(2, LaneState.RIDING, "0/20")], []),
        ([STANDBY], [side(2, LaneState.RIDING, "0/20")], ["generation 1 of the cache of card"]),
        ([STANDBY, NEW], [side(1, LaneState.RIDING, "0/21"), side(2, LaneState.RIDING, "0/20")], []),
        ([LEFT], [], ["generation 3 of the cache of card (still to be removed)"]),
        ([msgspec.structs.replace(STANDBY, sink="search")], [], []),
    ],
)
def test_what_is_beside_the_generation_that_is_read_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, generations: list[Generation], beside: list[SinkStatus], behind: list[str]
) -> None:
    """Of a place that the view does not list any more nothing is: its generations went with it."""
    where = place(monkeypatch, ViewState.LIVE, LaneState.RIDING, AT_20, book_of(*generations), beside)
    assert erasing._behind(where, Lsn.parse("0/20")) == behind


def copied(copies: Path, name: str, lsn: int | None) -> Path:
    folder = copies / name
    folder.mkdir(parents=True)
    (folder / FILE).write_bytes(msgspec.json.encode(Copy(0, Progress(5, lsn=lsn))))
    return folder


def test_a_copy_of_the_state_is_judged_by_the_moment_that_it_is_of(tmp_path: Path) -> None:
    """Not by when it was written: the copying may have ended after the rows were gone."""
    registry = Registry(tmp_path)
    old, never = copied(registry.copies, "one/5", 0x1F), copied(registry.copies, "two/6", None)
    (damaged := registry.copies / "three" / "7").mkdir(parents=True)
    fresh = copied(registry.copies, "four/8", 0x20)
    os.utime(fresh, (1, 1))
    found = CopiesOfState(SimpleNamespace(registry=registry), Lsn.parse("0/20"))  # type: ignore[arg-type]
    assert found.count() == found.erase().erased == 3
    assert found.count() == 0
    assert [each.exists() for each in (old, never, damaged, fresh)] == [False, False, False, True]
    assert CopiesOfState(found.place, None).count() == 1, "before anything is gone, all of them"


def test_a_copy_that_is_being_written_is_waited_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    writing = copied(registry.copies, ".one.a1", 0x1F)
    found = CopiesOfState(SimpleNamespace(registry=registry), Lsn.parse("0/20"))  # type: ignore[arg-type]
    monkeypatch.setattr(view_places, "COPIED_S_MAX", 0.0)
    with pytest.raises(StateError, match="still being written"):
        found.erase()

    def written(_seconds: float) -> None:
        (registry.copies / "one").mkdir()
        writing.rename(registry.copies / "one" / "5")

    monkeypatch.setattr(view_places, "COPIED_S_MAX", 60.0)
    monkeypatch.setattr(view_places, "time", SimpleNamespace(monotonic=time.monotonic, sleep=written))
    assert found.erase().erased == 1


def test_who_keeps_the_views_removes_what_was_cut_off_while_it_was_copied(tmp_path: Path) -> None:
    registry = Registry(tmp_path)
    left, whole = copied(registry.copies, ".one.a1", 1), copied(registry.copies, "one/5", 1)
    kept: Any = SimpleNamespace(registry=registry)
    Groups.reopen(kept, SimpleNamespace(era=1, topic_id="t"))  # type: ignore[arg-type]
    assert (left.exists(), whole.exists()) == (False, True)


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
    person = Person(shape("customers", id="text"), (("O'Hara, 5",),))
    words = shlex.split(person.command(now=True))
    assert parsed_key(words[words.index("--key") + 1]) == key
    assert words[-2:] == ["--now", "--yes"]

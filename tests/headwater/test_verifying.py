"""What verifies all the time goes on, whatever happens to one view, and says what it could not do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest

from cdc.errors import ViewError
from cdc.position import Lsn, Position
from headwater.service import verifying
from headwater.service.verifying import Verifying
from headwater.settings import Settings
from headwater.settings.runtime import VerifySettings
from headwater.views import checking
from headwater.views.checking import check_apart, check_computed_apart, checked, computed_checked, verify_apart
from headwater.views.compare import Differing, Kind
from headwater.views.place import Place
from headwater.views.sampling import Sampler
from headwater.views.verify import Verified
from headwater.views.verify_history import PlaceResult, VerifyHistory, VerifyRun, Why, Wrong, WrongKey
from headwater.views.verify_sinks import SinkVerified
from headwater.views.verify_view import Asking
from views.maintain.registry import Registry


@pytest.fixture
def place(tmp_path: Path) -> Place:
    deployment: Any = SimpleNamespace(settings=Settings(), postgres=None, kafka=None, source=None)
    return Place(deployment, Registry(tmp_path), tmp_path)


@pytest.fixture
def turns(monkeypatch: pytest.MonkeyPatch) -> Callable[[Verifying, int], None]:
    """Some turns of it, without a pause; both views are there."""
    monkeypatch.setattr(Verifying, "_live", lambda self: ["one", "two"])
    monkeypatch.setattr(verifying, "POLL_S", 0.0)

    def run(found: Verifying, count: int) -> None:
        left = iter(range(count))
        monkeypatch.setattr(found.stop, "is_set", lambda: next(left, None) is None)
        monkeypatch.setattr(found.stop, "wait", lambda timeout: None)
        found.run()

    return run


def wanted(**given: Any) -> VerifySettings:
    return VerifySettings(interval_s=1, full_interval_s=60, **given)


def run_of(view: str, *places: PlaceResult) -> VerifyRun:
    return VerifyRun(view, Why.SAMPLE, "t", 1, 0.1, places)


def said(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    return [record.msg for record in caplog.records if isinstance(record.msg, dict)]


@pytest.mark.parametrize("error", [psycopg.DataError("division by zero"), ViewError("Postgres cannot compute one")])
def test_a_full_run_that_fails(
    place: Place,
    turns: Callable[[Verifying, int], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
) -> None:
    sampled, compared, now = list[str](), list[str](), [0.0]

    def sample(_: Sampler, view: str) -> VerifyRun:
        now[0] += 50
        sampled.append(view)
        return run_of(view)

    def full(view: str, *_: object) -> bool:
        compared.append(view)
        if view == "one":
            raise error
        return False

    monkeypatch.setattr(Sampler, "sample", sample)
    turns(Verifying(place, wanted(), threading.Event(), lambda: now[0], full), 8)
    assert sampled[:4] == ["one", "two"] * 2
    assert compared[:2] == ["one", "two"], "each in turn, also after it failed"
    events = [(each["event"], each["view"]) for each in said(caplog)]
    assert ("not verified", "one") in events
    assert ("a view or its sinks differ", "two") in events
    assert all(each["level"] in ("warning", "error") for each in said(caplog))


def test_what_fails_outside_of_a_view(
    place: Place,
    turns: Callable[[Verifying, int], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(VerifyHistory, "keep_only", lambda self, views: (_ for _ in ()).throw(OSError("disk full")))
    turns(Verifying(place, wanted(), threading.Event()), 3)
    assert [each["fact"] for each in said(caplog)] == ["OSError: disk full"] * 3


def test_a_repair_that_fails(
    place: Place,
    turns: Callable[[Verifying, int], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bad = PlaceResult("cache", 1, missing=1, keys=('missing {"id":1}',))
    monkeypatch.setattr(Sampler, "sample", lambda self, view: run_of(view, bad))
    monkeypatch.setattr(Verifying, "_repair", lambda self, view: (_ for _ in ()).throw(ValueError(view)))
    turns(Verifying(place, wanted(), threading.Event()), 3)
    assert [each["view"] for each in said(caplog) if each["event"] == "not repaired"][:2] == ["one", "two"]


@dataclass
class Mending:
    """One row that the cache has wrong, whatever is done."""

    repaired: list[list[bytes]] = field(default_factory=list)
    row: bytes = b'{"id":1,"label":"a"}'
    now: float = 0.0
    is_taken: bool = False
    error: Exception | None = None

    def repair(self, _place: object, _view: str, keys: list[bytes], _by: str) -> SimpleNamespace:
        self.repaired.append(keys)
        if self.error is not None:
            raise self.error
        return SimpleNamespace(is_equal=self.is_taken)

    def wrong(self) -> Wrong:
        return {} if self.is_taken else {"one": {"cache": {'{"id":1}': WrongKey("different", 1)}}}


@pytest.fixture
def mending(monkeypatch: pytest.MonkeyPatch) -> Mending:
    found = Mending()
    monkeypatch.setattr(verifying, "repair_keys", found.repair)
    monkeypatch.setattr(verifying, "rows_to_tell", lambda *_: {b'{"id":1}': found.row})
    monkeypatch.setattr(verifying, "held_now", lambda *_: set())
    monkeypatch.setattr(VerifyHistory, "wrong", lambda _: found.wrong())
    return found


def test_a_row_that_a_place_never_takes_is_given_up(
    place: Place, mending: Mending, caplog: pytest.LogCaptureFixture
) -> None:
    found = Verifying(place, wanted(repair=True), threading.Event(), lambda: mending.now)
    for _ in range(10):
        found._repair("one")
        mending.now += 60
    assert len(mending.repaired) == verifying.TRIES_MAX
    given_up = [each for each in said(caplog) if each["event"] == "rows are not written again any more"]
    assert [(each["level"], each["view"], each["keys"]) for each in given_up] == [("error", "one", 1)], "once"

    mending.row = b'{"id":1,"label":"b"}'
    for _ in range(10):
        found._repair("one")
    assert len(mending.repaired) == 2 * verifying.TRIES_MAX, "it is another row now"

    mending.now += verifying.AGAIN_S
    found._repair("one")
    found._repair("one")
    assert len(mending.repaired) == 2 * verifying.TRIES_MAX + 1, "the place may have been put right"


def test_a_repair_that_fails_is_a_try_and_what_is_right_again_has_all_of_them(
    place: Place, mending: Mending, monkeypatch: pytest.MonkeyPatch
) -> None:
    bad = PlaceResult("cache", 1, different=1)
    monkeypatch.setattr(Sampler, "sample", lambda _, view: run_of(view, *([] if mending.is_taken else [bad])))
    found = Verifying(place, wanted(repair=True), threading.Event(), lambda: mending.now)
    mending.error = ViewError("the cache of one does not take what it is told")
    for _ in range(10):
        with suppress(ViewError):
            found._repair("one")
    assert len(mending.repaired) == verifying.TRIES_MAX
    for mending.is_taken in (True, False):
        mending.error = None
        found._sampled("one")
    assert len(mending.repaired) == verifying.TRIES_MAX + 1


def test_what_a_check_says_names_no_key() -> None:
    """It stays with the rebuild, where an erasure does not look; the history, where it does, has the keys."""
    key = '{"email":"ada@example.org"}'
    differing = Differing(key, b"", None, b"{}")
    counts = {Kind.MISSING: 0, Kind.EXTRA: 2, Kind.DIFFERENT: 0}
    wrong = (("extra", key),)
    view = Verified("card", 5, 7, counts, 0, (differing,), False, Lsn(32), Position(1, 9), 1, 0.1, wrong=wrong)
    sunk = SinkVerified("card", "search", 7, 0, 1, 0, (f"extra {key}",), "0/20", 0.1, 2, wrong, held=3)
    which = "which: headwater verify card --history --json"
    assert computed_checked(view).detail == f"2 rows of the view are extra in Postgres; {which}"
    assert checked(view, sunk).detail == (
        "2 rows of the view are extra in Postgres; 1 rows of the search differ; "
        f"3 rows of the search are held by dead letters; {which}"
    )
    right = replace(view, counts=dict.fromkeys(Kind, 0)), replace(sunk, extra=0, held=0)
    assert (checked(*right).is_equal, checked(*right).detail) == (True, "")


def answering(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """In place of our own program."""
    program = folder / "program"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    monkeypatch.setattr(checking.sys, "executable", str(program))


def test_verified_by_a_process_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asking = Asking(Why.SCHEDULE, "headwater up")
    answering(tmp_path, monkeypatch, f'echo "$@" > {tmp_path}/asked; echo \'{{"is_equal": false}}\'')
    assert not verify_apart("card", asking, 19)
    assert (tmp_path / "asked").read_text().split() == [
        "-m", "headwater", "verify", "card", "--why", "schedule", "--by", "headwater", "up", "--json",
    ]  # fmt: skip
    answering(
        tmp_path, monkeypatch, """echo '{"error": {"fact": "nobody keeps it", "detail": "", "hint": "up"}}'; exit 1"""
    )
    with pytest.raises(ViewError, match="nobody keeps it"):
        verify_apart("card", asking)
    answering(tmp_path, monkeypatch, "echo no memory >&2; kill -9 $$")
    with pytest.raises(ViewError, match="exit code -9: no memory"):
        verify_apart("card", asking)


def test_a_process_that_verifies_ends_with_who_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answering(tmp_path, monkeypatch, "exec sleep 600")
    stop = threading.Event()
    stop.set()
    with pytest.raises(ViewError, match="could not be verified"):
        check_apart("card", "search", 3, stop)
    with pytest.raises(ViewError, match="could not be verified"):
        check_computed_apart("card", "g1", stop)
    with pytest.raises(ViewError, match="could not be verified"):
        verify_apart("card", Asking(Why.SCHEDULE, "t"), stop=stop)

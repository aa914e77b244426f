"""What is computed and not read yet, beside Postgres: how its rows are settled though no topic tells of them. The real
thing is in tests/maintain/test_rebuild.py."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from cdc.errors import ViewError
from cdc.position import Lsn
from headwater.views import verify_unshown
from headwater.views.compare import Differing, Look
from headwater.views.kept import KeptView
from headwater.views.verify_unshown import UnshownVerifier
from views.maintain.progress import Progress
from views.maintain.registry import Registry
from views.maintain.runner import PROGRESS


@dataclass
class Store:
    """A row that has another value after every epoch, and a group that gets on whenever Postgres is looked at."""

    folder: Path
    epochs: list[tuple[int, bytes]]
    """The last commit of each, and the row then."""
    view: str = "v"
    epoch: int = 0

    def __post_init__(self) -> None:
        self.group = SimpleNamespace(folder=self.folder, spec=SimpleNamespace(id="new", era=7))
        self.get_on()

    def get_on(self) -> None:
        lsn, self._row = self.epochs.pop(0) if len(self.epochs) > 1 else self.epochs[0]
        progress = Progress(lsn, is_snapshot_whole=True, lsn=lsn)
        (self.folder / PROGRESS).write_bytes(msgspec.json.encode(progress))

    def read_anywhere(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        return dict.fromkeys(keys, self._row)


@pytest.fixture
def verifier(tmp_path: Path) -> UnshownVerifier:
    nowhere = cast(Any, SimpleNamespace())
    return UnshownVerifier(nowhere, nowhere, nowhere, Registry(tmp_path), timeout_s=2.0, group="new")


Watch = Callable[[Store, Sequence[bytes]], dict[str, Differing]]


@pytest.fixture
def watch(verifier: UnshownVerifier, monkeypatch: pytest.MonkeyPatch) -> Watch:
    """Postgres shows these rows one after the other, each 100 further in its log; the group makes an epoch then."""

    def watched(store: Store, rows: Sequence[bytes]) -> dict[str, Differing]:
        shows, lsns = list(rows), count(100, 100)

        class Beside:
            def __init__(self, *_given: object) -> None:
                pass

            def postgres_rows(self, suspects: Sequence[Differing]) -> dict[str, bytes]:
                return dict.fromkeys((each.key for each in suspects), shows.pop(0))

            def is_equal(self, one: bytes | None, other: bytes | None) -> bool:
                return one == other

        def moments(*_given: object) -> Iterator[None]:
            while shows:
                yield
                store.get_on()

        for name, fake in (
            ("Comparison", Beside),
            ("connect", nullcontext),
            ("explained", nullcontext),
            ("moments", moments),
            ("wal_end", lambda conn: Lsn(next(lsns))),
        ):
            monkeypatch.setattr(verify_unshown, name, fake)
        return verifier._watched(cast(KeptView, store), SUSPECTS, {"k"})

    return watched


SUSPECTS = {"k": Differing("k", b"k", b"4", b"0")}


def test_a_row_that_never_rests_is_equal_when_it_was_what_postgres_showed_right_after_an_epoch(
    watch: Watch, tmp_path: Path
) -> None:
    """The group is later than Postgres: what it had on the way counts."""
    assert watch(Store(tmp_path, [(50, b"1"), (90, b"2"), (250, b"6"), (900, b"9")]), [b"5", b"6", b"7"]) == {}


def test_a_value_that_postgres_had_at_another_moment_says_nothing(watch: Watch, tmp_path: Path) -> None:
    """As of a count that goes up, and of which one is missing here."""
    store = Store(tmp_path, [(50, b"1"), (90, b"2"), (150, b"7"), (900, b"9")])
    assert watch(store, [b"5", b"6", b"6", b"7"]) == SUSPECTS


def test_a_group_that_does_not_get_on_is_no_verdict(verifier: UnshownVerifier, watch: Watch, tmp_path: Path) -> None:
    verifier.timeout_s = 0.2
    with pytest.raises(ViewError, match="does not get on"):
        watch(Store(tmp_path, [(50, b"5")]), [b"5"])


def test_what_changed_between_two_rounds_is_watched_and_what_did_not_is_certain(verifier: UnshownVerifier) -> None:
    def looked(**rows: tuple[bytes, bytes]) -> tuple[set[str], set[str]]:
        differing = {key: Differing(key, key.encode(), *values) for key, values in rows.items()}
        left, changed = verifier._suspects(cast(Any, None), cast(Any, SimpleNamespace(look=Look(differing=differing))))
        return set(left), changed

    assert looked(hot=(b"1", b"0"), wrong=(b"5", b"9")) == ({"hot", "wrong"}, set())
    assert looked(hot=(b"2", b"1"), wrong=(b"5", b"9")) == ({"hot", "wrong"}, {"hot"})


def test_one_that_was_given_up_meanwhile_says_so(verifier: UnshownVerifier) -> None:
    with pytest.raises(ViewError, match="what was computed of v is gone"):
        verifier._opened("v")

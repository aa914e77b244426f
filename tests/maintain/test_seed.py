"""A group that begins with another one's mirrors is, from then on, what it would be had it read the log."""

from __future__ import annotations

import tempfile
import threading
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import lmdb
import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cdc.errors import StateError
from tests.maintain.test_exact_on_spark import CHOSEN
from tests.maintain.test_one_suite_over_both import OnNodes, connection, told  # noqa: F401  # a fixture
from tests.views.shop import Shop
from views.maintain import copies, seed
from views.maintain.copies import copy_group, take_seed
from views.maintain.group import Group
from views.maintain.intake import Note, counted
from views.maintain.jobs import SeedRows
from views.maintain.mail import Mailbox
from views.maintain.progress import Progress
from views.maintain.seed import Seed
from views.maintain.worker import Changed, Worker, close_all

pytestmark = pytest.mark.stack


def standing(kept: OnNodes, epoch: int, **given: Any) -> Any:
    """What is asked of a runner whose group stands still there."""
    progress = Progress(epoch, is_snapshot_whole=True, is_live=True, lsn=70, committed_at_us=7, canary=3)
    known = SimpleNamespace(lock=threading.RLock(), intended=None, group=kept.group, progress=progress)
    known.__dict__.update(given)
    return known


def begun(young: OnNodes, taken: Seed, *, apart: bool, nodes: int | None = None) -> list[Changed]:
    """Its first epoch: read at once, or in the parts of several tasks; or cut off after so many letters."""
    worker, mail, note = Worker(young.ref, taken.offset), Mailbox(), Note()
    records = SeedRows(seed.folder_of(young.group), taken)
    parts = [[part] for part in range(records.parts(worker.shards))] if apart else [None]
    letters = (letter for part in parts for letter in records.letters(worker, note, part))
    for letter in islice(letters, nodes):
        mail.add(*letter)
    if nodes is not None:
        return []
    assert (note.commit_lsn, note.committed_at_us, note.is_last_of_snapshot) == (70, 7, True)
    assert counted(None, note.canary) == (3, "")
    return list(worker.run(mail))


@settings(max_examples=12, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_same_rows_without_the_log(data: st.DataObject, connection: psycopg.Connection) -> None:  # noqa: F811
    connection.execute("truncate customers, orders, visits")
    shop = Shop(connection)

    def events() -> list[Any]:
        return [e for n in range(data.draw(st.integers(0, 3))) for e in shop.transaction(data.draw, n)]  # type: ignore[arg-type]

    shards = st.integers(1, 3)
    with tempfile.TemporaryDirectory() as folder:
        old = OnNodes(connection, Path(folder), data.draw(shards, "shards"))
        views = data.draw(st.lists(st.sampled_from(CHOSEN), min_size=1, unique=True), "views")
        young = OnNodes(connection, Path(folder), data.draw(shards, "new shards"), views)
        try:
            epochs = data.draw(st.integers(1, 3), "epochs")
            for epoch in range(1, epochs + 1):
                old.take(old.in_one_task(epoch, events()))
            close_all()  # as it is when tasks are other processes: LMDB is not opened twice by one
            taken = take_seed(standing(old, epochs), young.group)
            assert taken is not None
            after = events()
            old.take(old.in_one_task(epochs + 1, after))  # the seed is of the moment before
            begun(young, taken, apart=False, nodes=data.draw(st.integers(0, 4), "cut off after"))
            changed = begun(young, taken, apart=data.draw(st.booleans(), "apart"))
            assert told(begun(young, taken, apart=False)) == told(changed), "an epoch that is repeated differs"
            young.take(changed)
            seed.remove(young.group)
            young.take(young.in_one_task(epochs + 1, after))
            assert young.rows == {view: old.rows[view] for view in views}
            more = events()
            for each in (old, young):
                each.take(each.in_one_task(epochs + 2, more))
            assert young.rows == {view: old.rows[view] for view in views}
        finally:
            close_all()


def test_only_what_is_whole_seeds_another(connection: psycopg.Connection) -> None:  # noqa: F811
    with tempfile.TemporaryDirectory() as folder:
        old = OnNodes(connection, Path(folder), 1, CHOSEN[:1])
        same = OnNodes(connection, Path(folder), 1, CHOSEN[:1])
        whole = Progress(5, is_snapshot_whole=True)
        assert take_seed(standing(old, 5), same.group) is not None
        assert seed.found(same.group) is not None
        refused = {
            "half a snapshot": standing(old, 5, progress=Progress(5)),
            "a gap": standing(old, 5, progress=msgspec.structs.replace(whole, gap="the canary says 8 after 6")),
            "put back": standing(old, 5, progress=msgspec.structs.replace(whole, is_put_back=True)),
            "within an epoch": standing(old, 5, intended=9),
        }
        for why, runner in refused.items():
            assert take_seed(runner, same.group) is None, why
        later = msgspec.structs.replace(same.group.spec, era=2)
        assert take_seed(standing(old, 5), Group(same.group.folder, later)) is None, "another era"
        other = OnNodes(connection, Path(folder), 1, CHOSEN)
        assert take_seed(standing(old, 5), other.group) is None, "tables or columns that it does not know"


def test_a_disk_that_is_full_leaves_what_was_there(
    connection: psycopg.Connection,  # noqa: F811
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A seed is done without, and a copy that was there before stays."""
    old = OnNodes(connection, tmp_path / "groups", 1, CHOSEN[:1])
    same = OnNodes(connection, tmp_path / "groups", 1, CHOSEN[:1])
    kept = copy_group(standing(old, 5), tmp_path / "copies")
    monkeypatch.setattr(copies, "_write", Mock(side_effect=lmdb.DiskError("No space left on device")))
    assert take_seed(standing(old, 6), same.group) is None
    assert sorted(each.name for each in same.group.folder.iterdir()) == ["group.json", "state-0"]
    with pytest.raises(StateError, match="could not be copied"):
        copy_group(standing(old, 6), tmp_path / "copies")
    assert [each for each in (tmp_path / "copies").rglob("*") if each.name == copies.FILE] == [kept / copies.FILE]

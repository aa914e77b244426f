"""State that was lost, cut off or left behind: the group comes back exact, from a copy or from the log, and tells
nothing twice."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from cdc.errors import StateError
from tests.maintain.rig import Rig, limits
from tests.waiting import eventually
from views.maintain.book import Book
from views.maintain.copies import copy_group
from views.maintain.group import Group
from views.maintain.nodes import StageNode

pytestmark = [pytest.mark.stack, pytest.mark.spark]

VIEWS = """
create materialized view sums as select kind, sum(n) as total, count(*) as rows from things group by kind;
create materialized view rows as select id, kind, n from things where n > 2;
"""


@pytest.fixture(scope="module")
def ddl() -> str:
    return """
        create table things (id integer primary key, kind integer, n integer);
        insert into things select n, n % 5, n from generate_series(1, 50) n;
    """


def delete(folder: Path) -> None:
    shutil.rmtree(folder)


def cut_off(folder: Path) -> None:
    os.truncate(folder / "data.mdb", 8192)


def a_stage(group: Group) -> Path:
    [node] = [node for node in group.nodes if isinstance(node, StageNode)]
    return group.state_folder(node, 1)


@pytest.mark.parametrize("is_copied", [True, False], ids=["with a copy", "without"])
@pytest.mark.parametrize("damage", [delete, cut_off])
def test_damaged_while_nobody_keeps_it(rig: Rig, damage: Callable[[Path], None], is_copied: bool) -> None:
    rig.want(VIEWS)
    with rig.kept(limits()) as maintainer:
        rig.settled(timeout_s=90)
        if is_copied:
            eventually(lambda: len(maintainer._riding.groups) == 1)  # it shows its views a moment before it joins
            [runner] = maintainer._riding.groups
            copy_group(runner, rig.registry.copies)
        rig.connection.execute("update things set n = n + 1 where id % 3 = 0")
        rig.settled()
    group = rig.group("sums")
    damage(a_stage(group))
    rig.connection.execute("delete from things where id % 7 = 0; insert into things values (7, 1, 7), (14, 2, 3)")
    with rig.kept(limits()):
        rig.settled(timeout_s=90)
        rig.connection.execute("update things set n = n + 1 where id % 4 = 0")
        rig.settled()
    assert rig.group("sums").spec.incarnation == group.spec.incarnation + 1
    for view in ("sums", "rows"):
        rig.chained(view)


def test_an_old_shard_is_noticed(rig: Rig, tmp_path: Path) -> None:
    rig.want(VIEWS)
    with rig.kept(limits()):
        rig.settled(timeout_s=90)
    group = rig.group("sums")
    shutil.copytree(a_stage(group), tmp_path / "old")
    with rig.kept(limits()):
        rig.connection.execute("update things set n = n + 1")
        rig.settled(timeout_s=90)
    shutil.rmtree(a_stage(group))
    shutil.copytree(tmp_path / "old", a_stage(group))
    with rig.kept(limits()):
        rig.connection.execute("update things set n = n + 1")
        rig.settled(timeout_s=90)


@pytest.mark.parametrize(
    ("lost", "damage"),
    [
        ("progress.json", "lost"),
        ("progress.json", "damaged"),
        ("group.json", "damaged"),
        ("state.json", "damaged"),
        ("book.json", "damaged"),
    ],
)
def test_a_file_that_says_how_far_it_is(rig: Rig, lost: str, damage: str) -> None:
    rig.want(VIEWS)
    with rig.kept(limits()):
        rig.settled(timeout_s=90)
    rig.registry.note_book(rig.registry.book())
    is_of_all = lost in ("state.json", "book.json")
    file = (rig.registry.folder if is_of_all else rig.group("sums").folder) / lost
    assert file.exists()
    file.unlink() if damage == "lost" else file.write_bytes(b'{"offset":')
    rig.connection.execute("update things set n = n + 1 where id % 4 = 0")

    def is_readable() -> bool:
        try:
            return rig.registry.book() == Book() and "sums" in rig.registry.state().views
        except StateError:
            return False

    with rig.kept(limits()):
        eventually(is_readable)
        rig.settled(timeout_s=90)


def test_the_querys_checkpoint_is_lost_while_it_runs(rig: Rig) -> None:
    """It holds nothing that counts: positions lie with the state, and in Kafka."""
    rig.want(VIEWS)
    with rig.kept(limits()) as maintainer:
        rig.settled(timeout_s=90)
        eventually(lambda: maintainer._riding._query is not None)
        query = maintainer._riding._query
        assert query is not None
        shutil.rmtree(query._checkpoint)
        rig.connection.execute("update things set n = n + 1")
        with suppress(AssertionError):  # Spark may or may not miss it before its next start
            rig.settled(timeout_s=10)
        maintainer.stop.set()
    rig.connection.execute("update things set n = n + 1")
    with rig.kept(limits()):
        rig.settled(timeout_s=90)

"""A group's state is copied, compared, taken as a seed, noted and read by several threads of one process at once."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from cdc.events import ChangeEvent, Op
from headwater.views.kept import KeptView
from tests.maintain.test_one_suite_over_both import OnNodes, connection  # noqa: F401  # a fixture
from tests.maintain.test_seed import standing
from tests.views.shop import CUSTOMERS, Shop
from views.maintain import contents, ledger
from views.maintain.copies import copy_group, take_seed
from views.maintain.reviewing import review
from views.maintain.worker import close_all, look_at

pytestmark = pytest.mark.stack

VIEW = "spent"
CUSTOMERS_IN = 2_000
TIMES = 6


def test_all_at_once(connection: psycopg.Connection, tmp_path: Path) -> None:  # noqa: F811
    shards = 2
    old, *young = (OnNodes(connection, tmp_path / "groups", shards) for _ in range(3))
    try:
        old.take(old.in_one_task(1, _events(connection)))
    finally:
        close_all()  # tasks are other processes
    runner, kept = standing(old, 1), KeptView(old.group, VIEW)
    rows = len(old.rows[VIEW])
    assert rows == CUSTOMERS_IN
    together = threading.Barrier(8)

    def again(work: Callable[[], object]) -> set[object]:
        together.wait(30)
        return {work() for _ in range(TIMES)}

    def seeded(group: OnNodes) -> bool:
        return take_seed(runner, group.group) is not None

    def looked() -> int:
        store = next(node for node in old.group.nodes if node.name == VIEW)
        found = 0
        for shard in range(shards):
            with look_at(old.group, store, shard) as arrangement:
                found += sum(arrangement.chunk(1, number).num_rows for number in range(arrangement.chunks(1)))
        return found

    work: dict[str, tuple[Callable[[], object], object]] = {
        "copied": (lambda: copy_group(runner, tmp_path / "copies").name, "1"),
        "a seed": (lambda: seeded(young[0]), True),
        "another seed": (lambda: seeded(young[1]), True),
        "reviewed": (lambda: review(old.group, old.group, VIEW).equal, rows),
        "told": (lambda: contents.epoch(old.group, VIEW), 1),
        "noted": (lambda: ledger.note(old.group), None),
        "its output": (looked, rows),
        "kept": (lambda: (kept.occupied().rows, kept.epoch, sum(map(len, kept.chunks()))), (rows, 1, rows)),
    }
    with ThreadPoolExecutor(len(work)) as pool:
        doing = {name: pool.submit(again, each) for name, (each, _) in work.items()}
        found = {name: each.result(120) for name, each in doing.items()}
    assert found == {name: {wanted} for name, (_, wanted) in work.items()}


def _events(connection: psycopg.Connection) -> list[ChangeEvent]:  # noqa: F811
    shop = Shop(connection)
    rows = ({"id": n, "city": "Bonn", "vip": None, "joined": None} for n in range(CUSTOMERS_IN))
    return [shop.event(Op.INSERT, CUSTOMERS, None, row, 1) for row in rows]

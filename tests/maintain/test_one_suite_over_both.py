"""The nodes that Spark runs, in one task and level by level over shards, give what the engine in one process gives."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cdc.catalog import Catalog
from cdc.catalog_reader import describe, load
from cdc.connector import PLACEHOLDER
from cdc.events import UNCHANGED, ChangeEvent, Op
from tests.maintain.rig import plain
from tests.maintain.test_exact_on_spark import CHOSEN
from tests.views.kept import planned
from tests.views.shop import DDL, ROWS, Shop
from tests.views.test_exactness import VIEWS
from views.columns import byte_strings
from views.definition import parse
from views.engine import Engine
from views.json_rows import json_rows
from views.maintain.group import Group, GroupSpec
from views.maintain.intake import Note, hand_out
from views.maintain.mail import Mailbox, packed, unpacked
from views.maintain.nodes import RECORDS
from views.maintain.worker import Changed, GroupRef, Letter, Worker, close_all, open_arrangement
from views.sql import ViewPlan
from views.zset import WEIGHT

pytestmark = pytest.mark.stack

OPS = {Op.INSERT: "c", Op.UPDATE: "u", Op.DELETE: "d", Op.TRUNCATE: "t"}


@pytest.fixture(scope="module")
def connection(scratch: psycopg.Connection) -> psycopg.Connection:
    scratch.execute(DDL)
    return scratch


@pytest.fixture(scope="module")
def plans(connection: psycopg.Connection) -> dict[str, ViewPlan]:
    found = planned(VIEWS, load(connection, list(ROWS)))
    return {name: found[name] for name in CHOSEN}


def record(event: ChangeEvent) -> bytes:
    """As Debezium writes it."""
    source = {"snapshot": "false", "schema": event.table.schema, "table": event.table.name, "txId": event.xid}
    order = {"id": f"{event.xid}:{event.lsn.value}", "total_order": event.position.offset, "data_collection_order": 1}
    told = {
        "before": event.before,
        "after": event.after and {n: PLACEHOLDER if v is UNCHANGED else v for n, v in event.after.items()},
        "source": {"ts_ms": 1, "ts_us": 1, "ts_ns": 1, "db": "d", **source, "lsn": event.lsn.value, "xmin": None},
        "transaction": order,
        "op": OPS[event.op],
        "ts_ms": 1,
        "ts_us": 1,
        "ts_ns": 1,
    }
    return msgspec.json.encode(told)


def batches(events: Sequence[ChangeEvent]) -> list[pa.RecordBatch]:
    columns = [[e.position.offset for e in events], [1] * len(events), [record(e) for e in events]]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, RECORDS.types, strict=True)]
    found: list[pa.RecordBatch] = pa.Table.from_arrays(arrays, schema=RECORDS).to_batches(max_chunksize=3)
    return found


class OnNodes:
    """A group run by hand, without Spark and Kafka."""

    def __init__(
        self, connection: psycopg.Connection, folder: Path, shards: int, views: Iterable[str] = CHOSEN
    ) -> None:
        definitions = {name: _alone(name) for name in views}
        spec = GroupSpec.new(1, "topic", 0, shards, definitions, describe(connection, list(ROWS)))
        self.group = Group(spec.save(folder), spec)
        self.ref = GroupRef(self.group.folder, self.group.version, 1)
        for node, shard in self.group.places():
            open_arrangement(self.group, node, shard, owner=1, durable=False, create=True).close()
        self.rows: dict[str, dict[bytes, bytes]] = {name: {} for name in definitions}

    def mailed(self, events: Sequence[ChangeEvent], worker: Worker) -> Mailbox:
        mail = Mailbox()
        for node, table in hand_out(batches(events), worker.group.tables, Note()):
            mail.add(node, worker.mirror_shard(node), 0, table)
        return mail

    def in_one_task(self, epoch: int, events: Sequence[ChangeEvent]) -> list[Changed]:
        worker = Worker(self.ref, epoch)
        return list(worker.run(self.mailed(events, worker)))

    def spread(self, epoch: int, events: Sequence[ChangeEvent]) -> list[Changed]:
        """As the jobs do it: between levels everything is packed and goes to the task of its shard."""
        worker = Worker(self.ref, epoch)
        mail, changed = self.mailed(events, worker), []
        waiting: list[tuple[int, int, int, bytes]] = []
        for level in range(worker.group.depth + 1):
            held = [row for row in waiting if worker.group.nodes[row[0]].level == level]
            waiting = [row for row in waiting if worker.group.nodes[row[0]].level != level]
            found: list[Letter | Changed] = []
            for shard in reversed(range(self.group.spec.shards)):
                if level:
                    mail = Mailbox(memory_bytes_max=1_000)
                    for dest, at, place, payload in held:
                        if at == shard:
                            mail.add(dest, at, place, unpacked(payload))
                found += Worker(self.ref, epoch).run_level(level, mail, [shard])
            waiting += [(f.dest, f.shard, f.place, packed(f.table)) for f in found if isinstance(f, Letter)]
            changed += [f for f in found if isinstance(f, Changed)]
        assert not waiting
        return changed

    def take(self, changed: Iterable[Changed]) -> None:
        for part in changed:
            view = self.group.nodes[part.node].name
            assert part.tables is not None
            for row in (row for table in part.tables for row in table.to_pylist()):
                assert self.rows[view].get(row["key"]) == row["before"], view
                if row["after"] is None:
                    del self.rows[view][row["key"]]
                else:
                    self.rows[view][row["key"]] = row["after"]


def _alone(view: str) -> str:
    [found] = [d for d in parse(VIEWS) if d.name == view]
    keyed = f"with (key = '{', '.join(found.key)}')" if found.key else ""
    return f"create materialized view {view} {keyed} as {found.sql}"


@settings(max_examples=5, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_the_same_rows(data: st.DataObject, connection: psycopg.Connection, plans: dict[str, ViewPlan]) -> None:
    connection.execute("truncate customers, orders, visits")
    shop, catalog = Shop(connection), load(connection, list(ROWS))
    shards = data.draw(st.integers(1, 3), "shards")
    with tempfile.TemporaryDirectory() as folder, engine(plans, catalog, Path(folder) / "engine", shards) as twin:
        kept = OnNodes(connection, Path(folder), shards)
        theirs: dict[str, Counter[str]] = {name: Counter() for name in plans}
        try:
            for epoch in range(1, data.draw(st.integers(1, 4), "epochs") + 1):
                events = [e for n in range(data.draw(st.integers(0, 3))) for e in shop.transaction(data.draw, n)]  # type: ignore[arg-type]
                run = kept.spread if data.draw(st.booleans(), "spread") else kept.in_one_task
                changed = run(epoch, events)
                again = data.draw(st.sampled_from([None, kept.spread, kept.in_one_task]), "again")
                if again is not None:
                    assert told(again(epoch, events)) == told(changed), "an epoch that is repeated differs"
                kept.take(changed)
                for name, delta in twin.step(epoch, events).items():
                    fields = plans[name].root.fields
                    for row, weight in zip(
                        byte_strings(json_rows(fields, delta)), delta[WEIGHT].to_pylist(), strict=True
                    ):
                        theirs[name][plain(row)] += weight
                    ours = Counter(map(plain, kept.rows[name].values()))
                    assert ours == +theirs[name], f"{name} after epoch {epoch}"
        finally:
            close_all()


def engine(plans: dict[str, ViewPlan], catalog: Catalog, folder: Path, shards: int) -> Engine:
    return Engine({name: plan.root for name, plan in plans.items()}, catalog, folder, shards=shards, durable=False)


def told(changed: Iterable[Changed]) -> list[tuple[int, int, list[str]]]:
    rows = [(c.node, c.shard, sorted(str(row) for t in c.tables or () for row in t.to_pylist())) for c in changed]
    return sorted(row for row in rows if row[2])

"""Keeps one group of views from the real log in a process of its own, without Spark: the nodes, the stores, the topics
and the frontier are the product's; only the loop around them is this one's."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from multiprocessing.synchronize import Event
from pathlib import Path

import pyarrow as pa

from cdc.addresses import KafkaAddress, Source
from cdc.changelog import ChangeLog
from cdc.epochs import EpochPlanner
from cdc.position import Position
from views.maintain.group import Group
from views.maintain.intake import Note, hand_out
from views.maintain.mail import Mailbox
from views.maintain.nodes import RECORDS
from views.maintain.publisher import Publisher, frontier
from views.maintain.registry import GroupStatus, Registry, State, ViewState, ViewStatus
from views.maintain.sinking import Sinking
from views.maintain.worker import GroupRef, Worker, open_arrangement
from views.sinks.sink import SinkKind

RECORDS_PER_EPOCH = 2_000


def keep(
    kafka: KafkaAddress, source: Source, registry: Registry, folder: Path, stop: Event, sinks: Mapping[str, SinkKind]
) -> None:
    """From where the frontier is, or from the beginning, until told to stop."""
    group = Group.load(folder)
    sinking = Sinking(kafka, source, sinks)
    publisher = Publisher(kafka, source, group.spec.id)
    known = [each.offset for each in publisher.frontiers.values()]
    offset, lsn, at_us = min(known, default=group.spec.start), None, None
    if not known:
        for node, shard in group.places():
            open_arrangement(group, node, shard, owner=1, durable=False, create=True).close()
    planner = EpochPlanner(kafka, source, idle_s_max=0.2)
    log, ref = ChangeLog(kafka, source), GroupRef(folder, group.version, 1)
    while not stop.is_set():
        start = Position(group.spec.era, offset)
        end = planner.end(start, group.spec.topic_id, RECORDS_PER_EPOCH)
        if end.offset > offset:
            worker, mail, note = Worker(ref, end.offset), Mailbox(), Note()
            for number, table in hand_out([_batch(log, start, end)], worker.group.tables, note):
                mail.add(number, worker.mirror_shard(number), 0, table)
            changes: dict[str, list[pa.Table]] = {}
            for changed in worker.run(mail):
                changes.setdefault(group.nodes[changed.node].name, []).extend(changed.tables or ())
            if note.commit_lsn is not None:
                lsn, at_us = note.commit_lsn, note.committed_at_us
            news = [frontier(view, group.spec.id, group.spec.era, end.offset, lsn, at_us) for view in group.live]
            sinking.published(group, publisher.publish(changes, news))
            offset = end.offset
        _note(registry, group, offset, sinking)
    sinking.close()


def _batch(log: ChangeLog, start: Position, end: Position) -> pa.RecordBatch:
    rows = [
        {"offset": record.position.offset, "written_at_ms": record.written_at_ms, "value": record.value}
        for record in log.read(start, end)
    ]
    return pa.RecordBatch.from_pylist(rows, RECORDS)


def _note(registry: Registry, group: Group, offset: int, sinking: Sinking) -> None:
    """A view that waits for a review has been built, by the group that is named as its batch."""
    serving = group.spec.id
    views = {
        view: ViewStatus(ViewState.LIVE, serving, wanted.applied_at_s, serving=serving)
        if wanted.is_reviewed
        else ViewStatus(ViewState.READY, wanted.batch, wanted.applied_at_s, serving=serving)
        for view, wanted in registry.wanted().views.items()
        if view in group.spec.definitions
    }
    groups = {group.spec.id: GroupStatus(offset, offset, True, False, era=group.spec.era)}
    registry.note(State(time.time(), os.getpid(), views, groups, sinks=sinking.statuses()))


@contextmanager
def keeping(
    kafka: KafkaAddress, source: Source, registry: Registry, folder: Path, sinks: Mapping[str, SinkKind] | None = None
) -> Iterator[None]:
    context = multiprocessing.get_context("spawn")
    stop = context.Event()
    process = context.Process(target=keep, args=(kafka, source, registry, folder, stop, sinks or {}), daemon=True)
    process.start()
    try:
        yield
        assert process.is_alive(), "the keeper failed"
    finally:
        stop.set()
        process.join(30)
        process.kill()

"""One group, epoch by epoch: the job, the publication, and what is done when a part of it cannot go on.

    intent ▶ job ▶ publish ▶ progress

The epoch's end is written down before its job: whatever happens, the same epoch is run again before another one. The
number of an epoch is the offset of its end, so it means the same after any restart. What is published is in Kafka
together with the frontier; progress is a file that may lag behind it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec
import pyarrow as pa

from cdc.addresses import KafkaAddress, Source
from cdc.changelog import Archive
from cdc.position import Lsn, Position
from views.maintain import contents, ledger, seed
from views.maintain.failpoints import reached
from views.maintain.group import Group, write_whole
from views.maintain.intake import Note, counted
from views.maintain.jobs import Answer, LogRange, SeedRows, run_epoch
from views.maintain.progress import Progress
from views.maintain.publisher import Frontier, Published, Publisher, frontier
from views.maintain.repairs import AskedKey
from views.maintain.schema_changes import SchemaChanged
from views.maintain.worker import Changed, GroupRef, NodeFailed, look_at, open_arrangement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRESS: Final = "progress.json"
INTENT: Final = "intent"


@dataclass(frozen=True)
class Measured:
    """What an epoch took."""

    records: int
    changes: int
    job_ms: float
    publish_ms: float
    behind_ms: float | None
    """From the oldest record's arrival in the log to the publication; None where nothing is published."""


class GroupRunner:
    def __init__(
        self,
        spark: SparkSession,
        kafka: KafkaAddress,
        source: Source,
        group: Group,
        owner: int,
        *,
        durable: bool = False,
    ) -> None:
        self._spark, self.kafka, self.source = spark, kafka, source
        self.group, self._owner, self._durable = group, owner, durable
        self._publisher = Publisher(kafka, source, group.spec.id)
        self.is_progress_lost = False
        """Nobody knows what its state holds: a new group, or one that has to be put back."""
        self.progress = self._known_progress()
        self.on_paused: Callable[[str, str], None] = lambda view, why: None
        self.on_gap: Callable[[str], None] = lambda what: None
        """A number of the canary is missing from what it read."""
        self.on_measured: Callable[[Measured], None] = lambda measured: None
        self.on_published: Callable[[list[Published]], None] = lambda published: None
        self.archive: Archive | None = None
        """Set while it reads what Kafka no longer holds."""
        self.ran_at = time.monotonic()
        """When its last epoch was over."""
        self.lock = threading.RLock()
        """Held while an epoch runs, and by who wants the group to stand still."""

    @property
    def offset(self) -> int:
        return self.progress.offset

    @property
    def position(self) -> Position:
        return Position(self.group.spec.era, self.offset)

    @property
    def intended(self) -> int | None:
        """The end of an epoch that was begun and not finished."""
        try:
            end = int((self.group.folder / INTENT).read_text() or 0)
        except FileNotFoundError:
            return None
        return end if end > self.offset else None

    @property
    def is_idle(self) -> bool:
        return not self.group.live

    @property
    def published_to(self) -> int:
        """The offset up to which its views are published; epochs must not reach across it."""
        return min((f.offset for f in self._mine()), default=0)

    def prepare(self) -> None:
        """Makes the state of a new group. Of one that has begun, nothing is made: what is missing was lost."""
        if not (self.group.folder / PROGRESS).exists():
            self.make_state()
            self.note_progress(self.progress)

    @property
    def is_left_behind(self) -> bool:
        """Some of its state is older than it was, or cannot be read."""
        return ledger.is_left_behind(self.group, self._owner, durable=self._durable)

    def note_ledger(self) -> None:
        with self.lock:
            ledger.note(self.group)

    def make_state(self) -> None:
        """Empty arrangements, for a group at its beginning."""
        for node, shard in self.group.places():
            open_arrangement(self.group, node, shard, owner=self._owner, durable=self._durable, create=True).close()

    def run(self, end: int) -> None:
        """One epoch, from where the group is to `end`."""
        with self.lock:
            if end <= self.offset or self.is_idle:
                return
            (self.group.folder / INTENT).write_text(str(end))
            began = time.monotonic()
            answer = self._answered(end)
            if answer is None:
                return
            reached("answered")
            asked = time.monotonic()
            published = self._publish(answer, end)
            had_gap = self.progress.gap
            self._finish(answer.note, end)
            if self.progress.gap and not had_gap:
                self.on_gap(self.progress.gap)
            self.on_published(published)
            self.ran_at = done = time.monotonic()
            behind = answer.note.oldest_written_at_ms if self.progress.is_live else None
            self.on_measured(
                Measured(
                    answer.note.records,
                    sum(each.changed for each in published),
                    (asked - began) * 1000,
                    (done - asked) * 1000,
                    None if behind is None else time.time() * 1000 - behind,
                )
            )

    def holders(self) -> dict[str, Frontier]:
        """Which groups published its views last and how far, as of now."""
        with self.lock:
            self._publisher.look()
            found = self._publisher.frontiers
            return {view: found[view] for view in self.group.live if view in found}

    def is_told(self, view: str) -> bool:
        """Whether the view's topic holds just what its store does. Not of a group that was cut off between the two, or
        put back; nor of a view that failed when some of its shards had taken the epoch."""
        with self.lock:
            known = self._publisher.frontiers.get(view)
            return (
                known is not None
                and known.group == self.group.spec.id
                and not self.progress.is_put_back
                and contents.epoch(self.group, view) <= known.offset
            )

    def go_live(self, told: Mapping[str, Iterable[pa.Table]], whole: Collection[str] = ()) -> None:
        """Publishes the views as they are, and from then on what changes. `whole` ones are told all their rows. Nobody
        else may publish them since `holders` was asked."""
        with self.lock:
            news = [self._frontier(view, self.progress) for view in self.group.live]
            kept = {view: tables for view, tables in told.items() if view in self.group.live}  # one may be gone by now
            published = self._publisher.publish(kept, news, whole, silent=True)
            self.note_progress(msgspec.structs.replace(self.progress, is_live=True))
            self.on_published(published)

    def tell_again(self, view: str, keys: Sequence[AskedKey]) -> bool:
        """Publishes rows once more as they are, as nobody's doing. False when the group is not where its topics are, or
        readers have just left it: then later."""
        with self.lock:
            known = self._publisher.frontiers.get(view)
            is_kept = view in self.group.live and self.progress.is_live
            is_there = is_kept and known is not None and known.group == self.group.spec.id
            if known is None or not is_there or self.intended is not None or self.progress.is_put_back:
                return False
            news = msgspec.structs.replace(known, published_at_us=time.time_ns() // 1000)
            self.on_published(
                self._publisher.publish({view: [contents.again(self.group, view, keys)]}, [news], silent=True)
            )
            return True

    def published(self) -> list[Published]:
        """How far its views are, for who has not listened so far."""
        return [Published(each, each.next_offset, None, 0) for each in self._mine()]

    def pause(self, views: Iterable[str], why: str) -> None:
        """These views are no longer fed; the others go on, with the state that they have."""
        with self.lock:
            known = self.group.spec
            stopped = {view: why for view in views if view in self.group.live}
            if not stopped:
                return
            spec = msgspec.structs.replace(known, paused={**known.paused, **stopped})
            self._replace(Group(self.group.folder, spec))
            for view in stopped:
                self.on_paused(view, why)

    def stand_by(self, view: str, since_s: float, until_s: float) -> None:
        """Its readers have left: fed, and told no more. That first: who is cut off in between has an idle group."""
        with self.lock:
            self.note_progress(msgspec.structs.replace(self.progress, is_live=False))
            reached("left")
            self.go_on(view, since_s, until_s)

    def go_on(self, view: str, since_s: float = 0.0, until_s: float = 0.0) -> None:
        """It was paused and stands where it was since: from here it is fed again."""
        with self.lock:
            paused = {other: why for other, why in self.group.spec.paused.items() if other != view}
            spec = msgspec.structs.replace(
                self.group.spec, paused=paused, kept_since_s=since_s, keep_until_s=until_s, seed_from=""
            )
            self._replace(Group(self.group.folder, spec))

    def step_forward(self) -> None:
        """It stands by no longer, and may be shown."""
        with self.lock:
            spec = msgspec.structs.replace(self.group.spec, kept_since_s=0.0, keep_until_s=0.0)
            self._replace(Group(self.group.folder, spec))
            reached("taken-back")

    def forget(self, view: str) -> None:
        with self.lock:
            self._publisher.forget(view)

    def note_progress(self, progress: Progress) -> None:
        write_whole(self.group.folder / PROGRESS, msgspec.json.encode(progress))
        self.progress = progress

    def replace_state(self, group: Group, progress: Progress) -> None:
        """Goes on with another incarnation of the state."""
        with self.lock:
            self._replace(group)
            (self.group.folder / INTENT).unlink(missing_ok=True)
            self.note_progress(progress)

    def _replace(self, group: Group) -> None:
        group.spec.save(group.folder.parent)
        self.group = group

    def _known_progress(self) -> Progress:
        """Of a live group the published frontier counts: the file is written before it went live, and not after. Not of
        one that stands by: what it has read since was told by nobody."""
        found = self._read_progress()
        published = min(self._mine(), key=lambda f: f.offset, default=None)
        if published is None or found.is_put_back or self.group.spec.keep_until_s:
            return found
        if not found.is_live:
            # It went live, and was cut off before that was noted: to go live again would tell every row twice.
            found = msgspec.structs.replace(found, is_live=True)
        if published.offset <= found.offset:
            return found
        lsn = Lsn.parse(published.lsn).value
        return msgspec.structs.replace(
            found,
            offset=published.offset,
            lsn=lsn,
            committed_at_us=published.committed_at_us,
            canary=published.canary,
        )

    def _read_progress(self) -> Progress:
        try:
            found = msgspec.json.decode((self.group.folder / PROGRESS).read_bytes(), type=Progress)
        except (FileNotFoundError, msgspec.MsgspecError):
            self.is_progress_lost = True
            return Progress(self.group.spec.start)
        return found

    @property
    def _ref(self) -> GroupRef:
        return GroupRef(self.group.folder, self.group.version, self._owner, self._durable)

    def _answered(self, end: int) -> Answer | None:
        """The job's answer, after views that cannot go on were taken out; None if there is no other."""
        records = self._records(end)
        while not self.is_idle:
            try:
                return run_epoch(self._spark, records, self._ref)
            except SchemaChanged as changed:
                self._pause_for(changed)
            except NodeFailed as failed:
                if failed.is_damage:
                    raise
                views = frozenset().union(*(self.group.views_after(number) for number in failed.nodes))
                self.pause(views, _reason(failed))
        return None

    def _records(self, end: int) -> LogRange | SeedRows:
        if self.offset == self.group.spec.start and (taken := seed.found(self.group)) and taken.offset == end:
            return SeedRows(seed.folder_of(self.group), taken)
        return LogRange(self.kafka, self.source, self.group.spec.topic_id, self.position, end, self.archive)

    def _pause_for(self, changed: SchemaChanged) -> None:
        known = self.group.spec
        self.pause(self._using(changed), _reason(changed))
        gone = sorted({*known.gone.get(changed.table, ()), *changed.columns})
        spec = msgspec.structs.replace(self.group.spec, gone={**known.gone, changed.table: gone})
        self._replace(Group(self.group.folder, spec))

    def _using(self, changed: SchemaChanged) -> frozenset[str]:
        """Views that use what changed: those of the columns, or of the table."""
        return frozenset(
            view for view in self.group.live if self.group.uses(view, changed.table, frozenset(changed.columns) or None)
        )

    def _publish(self, answer: Answer, end: int) -> list[Published]:
        if not self.progress.is_live:
            return []
        progress = self._after(answer.note, end)
        news = [
            self._frontier(view, progress)
            for view in self.group.live
            if (known := self._publisher.frontiers.get(view)) is None
            or known.group != self.group.spec.id
            or known.offset < end
        ]
        wanted = {frontier.view for frontier in news}
        changes: dict[str, list[Changed]] = {}
        for changed in answer.changed:
            view = self.group.nodes[changed.node].name
            if view in wanted:
                changes.setdefault(view, []).append(changed)
        return self._publisher.publish({view: self._tables(parts, end) for view, parts in changes.items()}, news)

    def _tables(self, parts: list[Changed], end: int) -> Iterator[pa.Table]:
        for part in parts:
            if part.tables is not None:
                yield from part.tables
            else:
                yield from self._saved(part, end)

    def _saved(self, part: Changed, end: int) -> Iterator[pa.Table]:
        """A large output, read from the state chunk by chunk."""
        node = self.group.nodes[part.node]
        with look_at(self.group, node, part.shard) as arrangement:
            for number in range(arrangement.chunks(end)):
                yield arrangement.chunk(end, number)

    def _frontier(self, view: str, progress: Progress) -> Frontier:
        spec = self.group.spec
        return frontier(
            view, spec.id, spec.era, progress.offset, progress.lsn, progress.committed_at_us, progress.canary
        )

    def _finish(self, note: Note, end: int) -> None:
        progress = self._after(note, end)
        if progress.is_live and not progress.is_put_back:
            self.progress = progress
        else:
            is_behind = progress.is_put_back and end < self.published_to
            self.note_progress(msgspec.structs.replace(progress, is_put_back=is_behind))
        reached("epoch-done")

    def _after(self, note: Note, end: int) -> Progress:
        known = self.progress
        canary, missing = counted(known.canary, note.canary)
        return Progress(
            end,
            known.is_snapshot_whole or self._is_whole(note),
            known.is_live,
            note.commit_lsn if note.commit_lsn is not None else known.lsn,
            note.committed_at_us if note.commit_lsn is not None else known.committed_at_us,
            known.is_put_back,
            canary,
            known.gap or missing,
        )

    def _is_whole(self, note: Note) -> bool:
        """The initial snapshot was read to its end, or the one that was asked for when the views were applied."""
        skipped = max(self.group.spec.skip_before.values(), default=None)
        return note.is_last_of_snapshot if skipped is None else note.marked_offset >= skipped

    def _mine(self) -> list[Frontier]:
        found = self._publisher.frontiers
        return [found[v] for v in self.group.live if v in found and found[v].group == self.group.spec.id]


def _reason(error: SchemaChanged | NodeFailed) -> str:
    return f"{error.fact}: {error.detail}" if error.detail else error.fact

"""A captured database with views kept over it by the real thing, and Postgres beside it that says what they must be.

rig.want(SQL) ─▶ a Maintainer, in this process or as a child ─▶ rig.settled(view): store == topic == SQL in Postgres
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import psutil
import psycopg

from cdc.capture import Capture, request_snapshot
from cdc.catalog_reader import describe
from cdc.changelog import Archive
from cdc.errors import SinkUnavailable
from cdc.events import TableName
from cdc.position import Lsn
from cdc.reader import read_range
from cdc.topics import find_state, topic_state
from tests.waiting import eventually
from views.definition import ViewDefinition, parse
from views.maintain import contents
from views.maintain.comparing import Compare, no_compare
from views.maintain.failpoints import VARIABLE
from views.maintain.group import Group
from views.maintain.maintainer import Limits, Maintainer
from views.maintain.publisher import read_frontiers, view_topic
from views.maintain.rebuilding import Check, no_check
from views.maintain.registry import Registry, ViewState, ViewStatus, Wanted, WantedView
from views.sinks.sink import SinkKind

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTLE_S = 60.0


class Told(msgspec.Struct, frozen=True):
    """A record of a view's topic."""

    before: msgspec.Raw
    after: msgspec.Raw
    position: str
    lsn: str
    committed_at_us: int | None
    published_at_us: int
    silent: bool = False


def plain(text: bytes | str) -> str:
    """A row's JSON in one form: numbers as numbers, whatever their scale."""
    return repr(json.loads(text, parse_int=_number, parse_float=_number))


def _number(text: str) -> Decimal:
    return Decimal(text).normalize() + 0


@dataclass
class Rig:
    capture: Capture
    registry: Registry
    connection: psycopg.Connection
    spark: SparkSession | None = None
    definitions: dict[str, ViewDefinition] = field(default_factory=dict)
    sinks: dict[str, SinkKind] = field(default_factory=dict)
    """Where the views are written to, for those that list them."""
    archive: Archive | None = None
    """Of the log, beyond what Kafka holds."""
    maintainer: Maintainer | None = None
    """In this process, while it is kept."""
    check: Check = no_check
    """Verifies generations."""
    compare: Compare = no_compare
    """Compares what was computed anew before readers have it."""
    classes: Path = Path("none")
    """Java's, for children that start quickly."""

    # What is wanted

    def want(self, text: str, *, snapshots: Sequence[str] = (), only: Sequence[str] = ()) -> None:
        """As `headwater apply` does it: these views on top of those wanted so far, kept together."""
        end = topic_state(self.capture.kafka, self.capture.source.changes_topic).high
        skips = {f"public.{name}": end for name in snapshots}
        tables = [TableName("public", name) for (name,) in self._tables()]
        shapes = describe(self.connection, tables)
        views = dict(self.registry.wanted().views)
        batch = uuid.uuid4().hex
        for definition in parse(text):
            if only and definition.name not in only:
                continue
            self.definitions[definition.name] = definition
            views[definition.name] = WantedView(_alone(definition), shapes, time.time(), batch, skips)
        self.registry.want(Wanted(views))
        if snapshots:
            request_snapshot(self.connection, [TableName("public", name) for name in snapshots])

    def define(self, text: str) -> None:
        """What the oracle takes these views for."""
        self.definitions |= {definition.name: definition for definition in parse(text)}

    def drop(self, view: str) -> None:
        views = dict(self.registry.wanted().views)
        del views[view], self.definitions[view]
        self.registry.want(Wanted(views))

    def _tables(self) -> list[tuple[Any, ...]]:
        return self.connection.execute("select tablename from pg_tables where schemaname = 'public'").fetchall()

    # What is there

    def status(self, view: str) -> ViewStatus | None:
        return self.registry.state().views.get(view)

    def group(self, view: str) -> Group:
        status = self.status(view)
        assert status is not None, f"{view} is not known"
        folder = self.registry.groups / status.read_from
        assert folder.exists(), f"{view} has just gone over to another group"
        return Group.load(folder)

    def stored(self, view: str) -> list[bytes]:
        with contents.rows(self.group(view), view) as rows:
            return [row for _, row in rows]

    def told(self, view: str) -> Iterator[tuple[bytes, Told | None]]:
        """The whole of a view's topic."""
        topic = view_topic(self.capture.source, view)
        state = find_state(self.capture.kafka, topic)
        for chunk in read_range(self.capture.kafka, topic, state.low, state.high) if state else ():
            for raw in chunk:
                yield raw.key or b"", None if raw.value is None else msgspec.json.decode(raw.value, type=Told)

    def compacted(self, view: str) -> dict[bytes, bytes]:
        """What is left of the topic when every key keeps its last value."""
        left: dict[bytes, bytes] = {}
        for key, told in self.told(view):
            left.pop(key, None)
            if told is not None and bytes(told.after) != b"null":
                left[key] = bytes(told.after)
        return left

    def oracle(self, view: str) -> list[str]:
        sql = self.definitions[view].sql
        return [row for (row,) in self.connection.execute(f"select row_to_json(v)::text from ({sql}) v").fetchall()]

    # What must be

    def marked(self) -> Lsn:
        """An LSN after all that was committed so far, with a commit after it in the log."""
        [[lsn]] = self.connection.execute("select pg_current_wal_insert_lsn()::text").fetchall()
        self.connection.execute("select headwater.tick_canary()")
        return Lsn.parse(lsn)

    def reached(self, *views: str, timeout_s: float = SETTLE_S) -> None:
        """Waits until the views include everything that is committed now."""
        lsn = self.marked()

        def far_enough() -> None:
            found = read_frontiers(self.capture.kafka, self.capture.source)
            for view in views:
                status = self.status(view)
                assert view in found, f"{view} has no frontier: {status}, of {list(found)}"
                assert Lsn.parse(found[view].lsn) >= lsn, f"{view} is at {found[view].lsn}, not {lsn}: {status}"
                wanted = self.registry.wanted().views[view].applied_at_s
                assert status is not None, f"{view} is not known"
                assert status.applied_at_s == wanted, f"{view} is not the one wanted"
                assert found[view].group == status.group == status.serving, f"{view} is of another group"

        eventually(far_enough, timeout_s)

    def settled(self, *views: str, timeout_s: float = SETTLE_S) -> None:
        """Waits, then compares: the store and the topic hold what the SQL gives in Postgres."""
        chosen = views or tuple(self.definitions)
        self.reached(*chosen, timeout_s=timeout_s)
        for view in chosen:
            self.equals(view)

    def equals(self, view: str) -> None:
        expected = sorted(map(plain, self.oracle(view)))
        sql = self.definitions[view].sql
        for what, found in (("store", self.stored(view)), ("topic", list(self.compacted(view).values()))):
            ours = sorted(map(plain, found))
            missing = list((Counter(expected) - Counter(ours)).elements())[:5]
            extra = list((Counter(ours) - Counter(expected)).elements())[:5]
            assert (missing, extra) == ([], []), f"{view}, its {what}\n{sql}"

    def sunk(self, view: str, sink: str) -> list[bytes]:
        """What readers of a sink find."""
        kind, source = self.sinks[sink], self.capture.source
        generation = kind.current(source.name, view)
        assert generation is not None, f"{sink} of {view} has no generation yet"
        opened = kind.open(self.group(view).shape(view, source), generation)
        try:
            return list(opened.rows())
        finally:
            opened.close()

    def sunk_equals(self, view: str, sink: str, timeout_s: float = SETTLE_S) -> None:
        """Waits until the sink includes what is committed now, then compares it with the SQL in Postgres."""
        self.reached(view, timeout_s=timeout_s)
        self.sunk_equals_now(view, sink, timeout_s)

    def sunk_equals_now(self, view: str, sink: str, timeout_s: float = SETTLE_S) -> None:
        """The same, whichever group the view is of."""
        expected = sorted(map(plain, self.oracle(view)))

        def equal() -> None:
            try:
                found = sorted(map(plain, self.sunk(view, sink)))
            except SinkUnavailable as error:  # it is being filled
                raise AssertionError(str(error)) from error
            assert found == expected, self.registry.state().sinks

        eventually(equal, timeout_s)

    def chained(self, view: str) -> int:
        """Every change begins where the last one of its key ended, and none is told twice. How many there are."""
        last: dict[bytes, bytes] = {}
        seen: set[tuple[bytes, str]] = set()
        for key, told in self.told(view):
            if told is None:
                assert last.get(key, b"null") == b"null", f"{view}: a tombstone of {key!r}, which is there"
                continue
            assert (key, told.position) not in seen, f"{view}: {key!r} twice at {told.position}"
            seen.add((key, told.position))
            before = last.get(key, b"null")
            assert bytes(told.before) == before, (
                f"{view}: {key!r} at {told.position} was {before!r}, not {told.before!r}"
            )
            assert bytes(told.after) != bytes(told.before), f"{view}: {key!r} at {told.position} did not change"
            last[key] = bytes(told.after)
        return len(seen)

    def paused(self, view: str, timeout_s: float = SETTLE_S) -> str:
        """Waits until the view is paused; why it is."""

        def is_paused() -> str:
            status = self.status(view)
            assert status is not None
            assert status.state is ViewState.PAUSED, f"{view} is {status.state}"
            return status.reason

        return eventually(is_paused, timeout_s)

    def is_live(self, view: str, timeout_s: float = SETTLE_S) -> None:
        def live() -> bool:
            status = self.status(view)
            return status is not None and status.state is ViewState.LIVE

        eventually(live, timeout_s)

    # Who keeps them

    @contextmanager
    def kept(self, limits: Limits | None = None) -> Iterator[Maintainer]:
        """By a maintainer in this process. What it raises is raised at the end."""
        assert self.spark is not None
        maintainer = Maintainer(
            self.spark,
            self.capture.kafka,
            self.capture.source,
            self.registry,
            limits or Limits(shards=2, copy_interval_s=3600),
            self.sinks,
            archive=self.archive,
            check=self.check,
            compare=self.compare,
        )
        self.maintainer = maintainer
        failures: list[BaseException] = []

        def run() -> None:
            try:
                maintainer.run()
            except BaseException as error:
                failures.append(error)

        thread = threading.Thread(target=run, name="maintainer", daemon=True)
        thread.start()
        try:
            yield maintainer
        except AssertionError as error:
            raise AssertionError(f"{error}; the maintainer: {failures or 'runs'}") from error
        finally:
            maintainer.stop.set()
            thread.join(60)
        assert not thread.is_alive(), "the maintainer does not stop"
        if failures:
            raise failures[0]

    def child(
        self,
        log: Path,
        *,
        failpoint: str = "",
        single_records_max: int | None = None,
        sinks: Mapping[str, dict[str, Any]] | None = None,
    ) -> Child:
        """By a process of its own, to be killed. Sinks are by name where they are."""
        given = {
            "bootstrap": self.capture.kafka.bootstrap,
            "source": self.capture.source.name,
            "folder": str(self.registry.folder),
            "single_records_max": single_records_max,
            "postgres": asdict(self.capture.postgres),
            "sinks": sinks or {},
            "classes": str(self.classes),
        }
        environment = {**os.environ, **({VARIABLE: failpoint} if failpoint else {})}
        with log.open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.maintain.child", json.dumps(given)],
                env=environment,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        return Child(process, log)


@dataclass
class Child:
    process: subprocess.Popen[bytes]
    log: Path

    def kill(self) -> None:
        """At once, with the JVM and the workers under it: as if the machine had gone."""
        family = self._family()
        for member in family:
            with suppress(psutil.Error, ProcessLookupError):
                member.send_signal(signal.SIGKILL)
        self.process.wait(30)
        psutil.wait_procs(family, 30)

    def kill_driver(self) -> None:
        """Only the driver: the JVM and its workers may live on for a while."""
        self.process.kill()
        self.process.wait(30)

    def stop(self) -> None:
        family = self._family()
        self.process.terminate()
        try:
            self.process.wait(40)
        finally:
            for member in family:
                with suppress(psutil.Error, ProcessLookupError):
                    member.kill()
        assert self.process.returncode == 0, self.log.read_text()[-4000:]

    def ended(self, timeout_s: float = SETTLE_S) -> int:
        return self.process.wait(timeout_s)

    def _family(self) -> list[psutil.Process]:
        found: list[psutil.Process] = []
        for each in psutil.process_iter():
            with suppress(psutil.Error, ProcessLookupError):
                if os.getsid(each.pid) == self.process.pid:
                    found.append(each)
        return found


def _alone(definition: ViewDefinition) -> str:
    """A view's own text, of a file of several."""
    options = ", ".join(f"{name} = '{value}'" for name, value in definition.options.items())
    return f"create materialized view {definition.name} {f'with ({options})' if options else ''} as {definition.sql}"


def limits(**given: Any) -> Limits:
    """Two shards: more than one is what can go wrong."""
    return Limits(**{"shards": 2, "copy_interval_s": 3600.0, **given})

"""Capture as a whole: everything between the source database and the log, brought to what is wanted, in order.

Each step is idempotent and leaves alone what is right already, so `ensure` may run at every start and after any crash.
The publication comes before the slot, the topic and its era before the connector: nothing is captured that cannot be
placed.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import msgspec
import psycopg

from cdc import eras, preflight, topics
from cdc.addresses import ConnectAddress, KafkaAddress, PostgresAddress, Source
from cdc.catalog_reader import describe
from cdc.changelog import ChangeLog
from cdc.connect import PAUSED, STOPPED, ConnectClient
from cdc.connector import RECORD_BYTES_MAX, ConnectorConfig
from cdc.cut_off import SETTLE_LITTLE_S, SETTLE_S_MAX, set_right
from cdc.errors import CaptureError, CaptureGap
from cdc.events import TableName
from cdc.gaps import GapCode, Seen, find
from cdc.position import Lsn
from cdc.postgres import connect, explained
from cdc.publication import ensure_capture_role, ensure_publication
from cdc.relations import OWN_TABLES, PRIVATE
from cdc.slots import observe
from cdc.snapshots import SNAPSHOT_END, SnapshotProgress, SnapshotTracker

RUN_TIMEOUT_S: Final = 90.0
SLOT_POLL_S: Final = 0.2
INDEX_IDENTITY: Final = "i"
BEGINNING_RECORDS: Final = 10

_HISTORY: Final = """
    select (select system_identifier::text from pg_control_system()),
           case when pg_is_in_recovery() then (select timeline_id from pg_control_checkpoint())
                else ('x' || left(pg_walfile_name(pg_current_wal_lsn()), 8))::bit(32)::integer end
"""
_SLOT: Final = "select active, confirmed_flush_lsn::text from pg_replication_slots where slot_name = %s"
_SIGNAL: Final = "insert into headwater.signal (id, type, data) values (%s, 'execute-snapshot', %s)"

Report = Callable[[str], None]
Keys: TypeAlias = tuple[tuple[TableName, tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast and how much; the settings' section [capture]."""

    retention_ms: int = 7 * 24 * 3_600_000
    heartbeat_interval_ms: int = 1_000
    poll_interval_ms: int = 20
    batch_rows_max: int = 2_048
    queue_rows_max: int = 8_192
    snapshot_fetch_rows: int = 10_240


@dataclass(frozen=True, slots=True)
class Capture:
    source: Source
    postgres: PostgresAddress
    """As a user who may publish the tables and make the capture role."""
    capture: PostgresAddress
    """As the capture role, at the address that Kafka Connect sees."""
    kafka: KafkaAddress
    connect: ConnectAddress
    tables: tuple[str, ...]
    pace: Pace = Pace()

    def ensure(self, report: Report = lambda _what: None, *, keep_paused: bool = False) -> bool:
        """Capture is set up and runs; True when the connector was created or changed for it. With `keep_paused` one
        that somebody has paused stays so: Kafka Connect remembers it."""
        report("checking the source database")
        preflight.require(self.postgres, self.source, self.tables)
        with connect(self.postgres) as conn:
            report("publishing the tables")
            published = ensure_publication(conn, self.source, self.tables)
            if self.capture.user != self.postgres.user:
                ensure_capture_role(conn, self.capture.user, self.capture.password, published.tables)
            report("making the log")
            topic_id = topics.ensure_topic(
                self.kafka,
                self.source.changes_topic,
                retention_ms=self.pace.retention_ms,
                config={"max.message.bytes": str(RECORD_BYTES_MAX)},
            )
            fresh = self._ensure_era(conn, topic_id)
            config = self.config(published.tables, _index_keys(conn, published.tables))
            report("starting the connector")
            changed = self._ensure_connector(config, keep_paused=keep_paused and not fresh)
            if fresh:
                self._wait_for_snapshot(self._wait_for_slot(conn))
            elif published.added:
                report(f"reading {len(published.added)} tables that are new to the log")
                request_snapshot(conn, published.added)
        return changed

    def begin_anew(self, report: Report = lambda _what: None) -> None:
        """A fresh slot, a fresh snapshot, a new era; what the old era said stays in the log, but is over. Nothing is
        removed where what follows would be refused."""
        preflight.require(self.postgres, self.source, self.tables, may_be_lost=True)
        self.remove()
        self.ensure(report)

    def config(self, tables: tuple[TableName, ...], keys: Keys = ()) -> ConnectorConfig:
        own = set(OWN_TABLES)
        return ConnectorConfig(
            source=self.source,
            postgres=self.capture,
            tables=tuple(t for t in tables if t not in own),
            keys=keys,
            own_tables=OWN_TABLES,
            excluded=PRIVATE,
            retention_ms=self.pace.retention_ms,
            heartbeat_interval_ms=self.pace.heartbeat_interval_ms,
            poll_interval_ms=self.pace.poll_interval_ms,
            batch_rows_max=self.pace.batch_rows_max,
            queue_rows_max=self.pace.queue_rows_max,
            snapshot_fetch_rows=self.pace.snapshot_fetch_rows,
        )

    def _ensure_era(self, conn: psycopg.Connection, topic_id: str) -> bool:
        """Registers the era; True when a fresh slot is to be made for it.

        An era is named after the slot's incarnation, too: a slot made anew has missed what was committed before.
        """
        found = eras.load(self.kafka, self.source).current
        exists = conn.execute(_SLOT, [self.source.slot]).fetchone() is not None
        if exists and found is None:
            raise _unknown_slot(self.source)
        with explained(conn):
            row = conn.execute(_HISTORY).fetchone()
        assert row is not None
        if exists and found and not self._goes_on(found, topic_id, row):
            self.remove()
            exists = False
        if not exists:
            self._refuse_a_gap()
        slot = found.slot if exists and found else f"{self.source.slot}:{uuid.uuid4().hex[:12]}"
        eras.register(self.kafka, self.source, eras.Identity(topic_id, row[0], row[1], slot), "capture set up")
        return not exists

    def _goes_on(self, era: eras.Era, topic_id: str, history: tuple[str, int]) -> bool:
        """Not where Debezium was cut off before its first row (snapshots.py), the topic is another, or the database is:
        a server that was restored or took over need not have what the log has, even if it has the slot."""
        if era.topic_id != topic_id or (era.system_identifier, era.timeline) != history:
            return False
        progress = self._snapshot_progress()
        return bool(progress.begun) or progress.complete

    def _snapshot_progress(self) -> SnapshotProgress:
        """Of the current era; just its beginning, however long the snapshot is."""
        return SnapshotTracker(ChangeLog(self.kafka, self.source)).look(BEGINNING_RECORDS)

    def _refuse_a_gap(self) -> None:
        with ConnectClient(self.connect) as client:
            if client.offsets(self.source.connector):
                raise CaptureGap(
                    "the replication slot is gone, but the connector has been reading from it",
                    detail=f"slot {self.source.slot}: what was committed since then will never reach the log",
                    hint="headwater recover begins a new era with a fresh snapshot",
                )

    def _ensure_connector(self, wanted: ConnectorConfig, *, keep_paused: bool) -> bool:
        with ConnectClient(self.connect) as client:
            config, name = wanted.to_connect(), self.source.connector
            current = client.config(name)
            if current is None and (wrong := client.validate(name, config)):
                raise CaptureError(
                    "Debezium does not accept its configuration", detail="; ".join(wrong), hint="headwater doctor"
                )
            changed = current != {**config, "name": name}
            if keep_paused and (status := client.status(name)) is not None and status.state == PAUSED:
                client.put(name, config)
                return changed
            if changed and current is not None:
                # Stopped first: else the old task still counts as running, and takes what is meant for the new one.
                client.stop(name)
                client.wait_stopped(name, RUN_TIMEOUT_S)
            client.put(name, config)
            self.resume(client)
            client.wait(name, RUN_TIMEOUT_S)
            return changed

    def resume(self, client: ConnectClient, settle_s_max: float = SETTLE_S_MAX) -> None:
        """Lets a connector that does not run go on, unless that would skip changes: Debezium may not notice."""
        status, reached = client.status(self.source.connector), offset_lsn(client, self.source)
        if status is not None and status.running:
            return
        if reached is not None:
            self._refuse_to_skip(reached)
        if reached is not None and status is not None and status.state == STOPPED:
            set_right(self.kafka, self.source, client, settle_s_max)
        client.resume(self.source.connector)

    def _refuse_to_skip(self, reached: Lsn) -> None:
        """By the rules of gaps.py, for a connector that would go on at that LSN: all up to it is in the log."""
        era = eras.load(self.kafka, self.source).current
        if era is None:
            return
        with connect(self.postgres) as conn:
            slot = replace(observe(conn, self.source), active=False)
        for gap in find(Seen(era, is_begun=True, log_lsn=reached, slot=slot, offset_lsn=reached), time.time()):
            fact = "the replication slot was moved past what the connector has read"
            raise CaptureGap(
                fact if gap.code is GapCode.SLOT_AHEAD else f"capture cannot go on without losing changes: {gap.code}",
                detail=gap.detail,
                hint="headwater recover begins a new era with a fresh snapshot",
            )

    def restart(self, client: ConnectClient) -> None:
        """Not as Connect does it: the connector goes on where nothing is lost or doubled (resuming.py). To be tried
        again when it raises: the connector is stopped then."""
        client.stop(self.source.connector)
        client.wait_stopped(self.source.connector, RUN_TIMEOUT_S)
        self.resume(client, SETTLE_LITTLE_S)

    def _wait_for_slot(self, conn: psycopg.Connection) -> Lsn:
        """Until Debezium has made the slot; where it begins."""
        deadline = time.monotonic() + RUN_TIMEOUT_S
        with ConnectClient(self.connect) as client:
            while (row := conn.execute(_SLOT, [self.source.slot]).fetchone()) is None or row[1] is None:
                client.wait(self.source.connector, RUN_TIMEOUT_S)
                if time.monotonic() > deadline:
                    raise _too_late(f"Debezium made no replication slot within {RUN_TIMEOUT_S:g} s")
                time.sleep(SLOT_POLL_S)
        return Lsn.parse(row[1])

    def _wait_for_snapshot(self, slot_begins: Lsn) -> None:
        """Until the snapshot's first row is in the log, and was read where the slot begins.

        A later one was taken by a second try, after the first was cut off: worthless (snapshots.py), so begin anew.
        """
        deadline = time.monotonic() + RUN_TIMEOUT_S
        with ConnectClient(self.connect) as client:
            while (first_lsn := self._snapshot_progress().first_lsn) is None:
                client.wait(self.source.connector, RUN_TIMEOUT_S)
                if time.monotonic() > deadline:
                    raise _too_late(f"no row of the initial snapshot arrived within {RUN_TIMEOUT_S:g} s")
                time.sleep(SLOT_POLL_S)
        if first_lsn > slot_begins:
            self.begin_anew()

    def remove(self) -> None:
        """The connector, its offsets and the slot; the log, the publication and the schema stay."""
        with ConnectClient(self.connect) as client:
            if client.config(self.source.connector) is not None:
                client.stop(self.source.connector)
                client.wait_stopped(self.source.connector, RUN_TIMEOUT_S)
                client.delete_offsets(self.source.connector)
                client.delete(self.source.connector)
        with connect(self.postgres) as conn:
            _drop_slot(conn, self.source.slot)


def offset_lsn(client: ConnectClient, source: Source) -> Lsn | None:
    """Where the connector has stored that it is; None before it has stored anything."""
    offsets = client.offsets(source.connector)
    if not offsets:
        return None
    return Lsn(max(int(offsets[0]["offset"].get(name) or 0) for name in ("lsn", "lsn_proc", "lsn_commit")))


def request_snapshot(conn: psycopg.Connection, tables: Sequence[TableName]) -> None:
    """Has Debezium read whole tables into the running log, in chunks, beside the changes (an incremental snapshot).

    They are read in their order, and the canary after them: its row in the log says that the others are complete.
    """
    named = [*map(str, tables), str(SNAPSHOT_END)]
    wanted = msgspec.json.encode({"data-collections": named, "type": "incremental"}).decode()
    with explained(conn):
        conn.execute(_SIGNAL, [uuid.uuid4().hex, wanted])


def _unknown_slot(source: Source) -> CaptureError:
    return CaptureError(
        f"there is a slot {source.slot}, but this Kafka has no log of it",
        detail="it was made by another installation, or Kafka lost its data",
        hint="choose another source name, or drop it and begin anew: headwater capture reset",
    )


def _too_late(fact: str) -> CaptureError:
    return CaptureError(fact, hint="headwater logs connect")


def _index_keys(conn: psycopg.Connection, tables: tuple[TableName, ...]) -> Keys:
    """Of tables whose old rows Postgres identifies by a unique index: the log must be keyed by the same columns."""
    rows = describe(conn, tables)
    return tuple(
        (TableName(row["schema_name"], row["table_name"]), tuple(row["key_columns"]))
        for row in rows
        if row["replica_identity"] == INDEX_IDENTITY
    )


def _drop_slot(conn: psycopg.Connection, slot: str) -> None:
    deadline = time.monotonic() + RUN_TIMEOUT_S
    while (row := conn.execute(_SLOT, [slot]).fetchone()) is not None:
        if not row[0]:
            conn.execute("select pg_drop_replication_slot(%s)", [slot])
        elif time.monotonic() > deadline:
            raise CaptureError(f"slot {slot} is still in use", hint="headwater status")
        else:
            time.sleep(SLOT_POLL_S)

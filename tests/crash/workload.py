"""A load that is easy to check: every row carries its version, so each version must be in the log exactly once, but for
changes under a number that their transaction has passed, which every reader leaves out (cdc/repeats.py).

Writers commit COPYs (many rows at one LSN), transactions that interleave on two connections, updates, deletes and
rollbacks, and go on after a lost connection. What Postgres holds in the end is the oracle; whether a particular commit
was acknowledged does not matter.
"""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import psycopg

from cdc.addresses import PostgresAddress
from cdc.events import Record

TABLES = """
create table ledger (id bigint generated always as identity primary key, writer int not null, version int not null, filler text);
create table tally (id bigint primary key, version int not null);
insert into tally select n, 0 from generate_series(1, 50) n;
"""  # noqa: E501


@dataclass
class Load:
    """Writers on threads, until stopped."""

    address: PostgresAddress
    writers: int = 3
    pause_s: float = 0.02
    copy_rows: tuple[int, ...] = (1, 10, 400)
    copy_only: bool = False
    transactions: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._write, args=(n,), daemon=True) for n in range(self.writers)]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive(), "a writer hangs"

    def _write(self, number: int) -> None:
        draw = random.Random(number)
        while not self._stop.is_set():
            try:
                with self._connection() as one, self._connection() as other:
                    while not self._stop.is_set():
                        others = () if self.copy_only else (self._interleave, self._update, self._delete)
                        action = draw.choice((self._copy, *others))
                        action(draw, number, one, other)
                        self.transactions[action.__name__] += 1
                        self._stop.wait(self.pause_s)
            except psycopg.Error:
                self._stop.wait(0.2)

    def _connection(self) -> psycopg.Connection:
        return psycopg.connect(self.address.conninfo(), connect_timeout=3, options="-c statement_timeout=20000")

    def _copy(self, draw: random.Random, number: int, one: psycopg.Connection, _: psycopg.Connection) -> None:
        with one.transaction(), one.cursor().copy("copy ledger (writer, version, filler) from stdin") as copy:
            for _n in range(draw.choice(self.copy_rows)):
                copy.write_row((number, 1, "x" * draw.randrange(200)))

    def _interleave(self, draw: random.Random, number: int, one: psycopg.Connection, other: psycopg.Connection) -> None:
        insert = "insert into ledger (writer, version, filler) values (%s, 1, %s)"
        for _n in range(3):
            one.execute(insert, [number, "one"])
            other.execute(insert, [number, "other"])
        first, second = (one, other) if draw.random() < 0.5 else (other, one)
        first.commit()
        second.rollback() if draw.random() < 0.3 else second.commit()

    def _update(self, draw: random.Random, number: int, one: psycopg.Connection, _: psycopg.Connection) -> None:
        with one.transaction():
            ids = sorted(draw.sample(range(1, 51), 3))  # in order: no deadlocks among the writers
            for id_ in ids:
                one.execute("update tally set version = version + 1 where id = %s", [id_])
            one.execute("insert into ledger (writer, version, filler) values (%s, 1, 'with updates')", [number])

    def _delete(self, draw: random.Random, number: int, one: psycopg.Connection, _: psycopg.Connection) -> None:
        with one.transaction():
            one.execute(
                "delete from ledger where id in (select id from ledger where writer = %s order by id desc limit %s"
                " for update skip locked)",
                [number, draw.choice((1, 5))],
            )


@dataclass(frozen=True)
class Truth:
    """What Postgres holds."""

    ledger: frozenset[int]
    tally: dict[int, int]

    @classmethod
    def read(cls, address: PostgresAddress) -> Truth:
        with psycopg.connect(address.conninfo()) as connection:
            ledger = frozenset(row[0] for row in connection.execute("select id from ledger"))
            return cls(ledger, dict(connection.execute("select id, version from tally").fetchall()))


@dataclass
class Replay:
    """What the log says, and every way in which it can be wrong."""

    ledger: set[int] = field(default_factory=set)
    tally: dict[int, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    inserted: dict[int, str] = field(default_factory=dict)
    """By id, how and where it came into the log."""
    repeated: int = 0
    """Changes that readers leave out (cdc/repeats.py)."""

    @classmethod
    def of(cls, records: Iterable[Record]) -> Replay:
        replay, rows, open_id, order = cls(), 0, "", 0
        for record in records:
            value = json.loads(record.value or b"{}")
            status = value.get("status")
            if status == "BEGIN":
                if open_id:
                    replay.wrong.append(f"{record.position}: BEGIN inside transaction {open_id}")
                open_id, rows, order = value["id"].split(":")[0], 0, 0
            elif status == "END":
                if value["id"].split(":")[0] != open_id or value["event_count"] != rows:
                    replay.wrong.append(f"{record.position}: END {value} after {rows} rows of {open_id}")
                open_id = ""
            elif value.get("transaction") and value["transaction"]["total_order"] <= order:
                replay.repeated += 1
            else:
                rows += 1
                order = value["transaction"]["total_order"] if value.get("transaction") else order
                replay._row(record, value, bool(open_id))
        return replay

    def _row(self, record: Record, value: dict[str, object], inside: bool) -> None:
        source = value["source"]
        assert isinstance(source, dict)
        if not inside and source["snapshot"] in ("false", None):
            self.wrong.append(f"{record.position}: a row outside any transaction")
        before, after, table = value["before"], value["after"], source["table"]
        if table == "ledger":
            self._ledger(record, str(value["op"]), before, after, f"xid {source['txId']}, lsn {source['lsn']}")
        elif table == "tally":
            assert isinstance(after, dict)
            expected = self.tally.get(after["id"], -1) + 1
            if value["op"] == "u" and after["version"] != expected:
                self.wrong.append(f"{record.position}: tally {after['id']} at {after['version']}, expected {expected}")
            self.tally[after["id"]] = after["version"]

    def _ledger(self, record: Record, op: str, before: object, after: object, place: str) -> None:
        if op in ("c", "r"):
            assert isinstance(after, dict)
            how = f"{op} at {record.position} of {place}"
            if after["id"] in self.inserted:
                self.wrong.append(f"ledger {after['id']} twice: {self.inserted[after['id']]}, {how}")
            self.inserted[after["id"]] = how
            self.ledger.add(after["id"])
        elif op == "d":
            assert isinstance(before, dict)
            if before["id"] not in self.ledger:
                self.wrong.append(f"{record.position}: ledger {before['id']} deleted, but not there")
            self.ledger.discard(before["id"])

    def against(self, truth: Truth) -> list[str]:
        missing, extra = truth.ledger - self.ledger, self.ledger - truth.ledger
        found = list(self.wrong)
        if missing:
            found.append(f"{len(missing)} rows lost, such as {sorted(missing)[:5]}")
        if extra:
            found.append(f"{len(extra)} rows too many, such as {sorted(extra)[:5]}")
        if self.tally != truth.tally:
            found.append("tally differs")
        return found

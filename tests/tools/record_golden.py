"""Records the golden files: the zoo on a real Postgres, through the real Debezium, as the log has it.

    python -m tests.tools.record_golden --postgres URI --kafka HOST:PORT --connect URL

makes a database, captures it with Headwater's own migrations and ConnectorConfig, and writes to tests/cdc/golden:
records.jsonl (the raw records), expected.jsonl (each value's text as Postgres prints it) and catalog.json (the tables
before the story changes them). It removes what it made in the servers.
"""

from __future__ import annotations

import argparse
import json
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import psycopg
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient

from cdc.addresses import PostgresAddress, Source
from cdc.catalog_reader import describe
from cdc.connector import ConnectorConfig
from cdc.events import TableName
from cdc.publication import ensure_publication
from headwater.migrate import migrate
from tests.cdc import zoo, zoo_story

GOLDEN = Path(__file__).parents[1] / "cdc" / "golden"
SOURCE = Source("golden")
DATABASE = "headwater_golden"
DEADLINE_S = 120.0
DONE = "the golden recording is done"
DONE_BASE64 = b64encode(DONE.encode()).decode()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("postgres", "kafka", "connect"):
        parser.add_argument(f"--{name}", required=True)
    arguments = parser.parse_args()
    GOLDEN.mkdir(exist_ok=True)
    with database(arguments.postgres) as address, psycopg.connect(address.conninfo(), autocommit=True) as conn:
        prepare(address, conn)
        with connector(arguments.connect, arguments.kafka, address):
            until(lambda: is_streaming(conn))
            (GOLDEN / "catalog.json").write_text(json.dumps(described(conn), indent=1, ensure_ascii=False) + "\n")
            for _, statements in zoo.streamed():
                run(address, statements)
            run(address, (zoo_story.SIGNAL,))
            until(lambda: conn.execute(zoo_story.SIGNAL_DONE).fetchall() == [(True,)])
            texts = expected(conn)
            run(address, (f"select pg_logical_emit_message(true, 'headwater', '{DONE}')",))
            write("records.jsonl", recorded(arguments.kafka))
    write("expected.jsonl", ({"table": t, "id": i, "text": text} for (t, i), text in sorted(texts.items())))


def write(name: str, rows: Any) -> None:
    with (GOLDEN / name).open("w") as file:
        for row in rows:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


@contextmanager
def database(server: str) -> Iterator[PostgresAddress]:
    admin = psycopg.connect(server, autocommit=True)
    admin.execute(f"drop database if exists {DATABASE} with (force)")
    admin.execute(f"create database {DATABASE}")
    info = admin.info
    try:
        yield PostgresAddress(info.host, info.port, DATABASE, info.user, info.password)
    finally:
        until(lambda: dropped(admin))
        admin.execute(f"drop database {DATABASE} with (force)")
        admin.close()


def dropped(admin: psycopg.Connection[Any]) -> bool:
    slots = admin.execute("select active from pg_replication_slots where slot_name = %s", [SOURCE.slot]).fetchall()
    if slots == [(False,)]:
        admin.execute("select pg_drop_replication_slot(%s)", [SOURCE.slot])
    return not slots


def prepare(address: PostgresAddress, conn: psycopg.Connection[Any]) -> None:
    for statement in zoo.create_sql() + zoo.before_sql():
        conn.execute(statement)
    migrate(address)
    ensure_publication(conn, SOURCE, ["zoo.*"])


@contextmanager
def connector(connect: str, kafka: str, address: PostgresAddress) -> Iterator[None]:
    tables = tuple(TableName(*name) for name in zoo.tables())
    config = ConnectorConfig(SOURCE, replace(address), tables, keys=((TableName("zoo", "by_index"), ("code",)),))
    url = f"{connect}/connectors/{SOURCE.connector}"
    remove(url, kafka)
    answer = httpx.put(f"{url}/config", json=config.to_connect(), timeout=60)
    assert answer.is_success, answer.text
    until(lambda: bool(tasks(url)))
    try:
        yield
        assert tasks(url)[0]["state"] == "RUNNING", tasks(url)[0]["trace"]
    finally:
        remove(url, kafka)


def tasks(url: str) -> list[dict[str, Any]]:
    answer = httpx.get(f"{url}/status", timeout=10)
    return answer.json()["tasks"] if answer.is_success else []


def remove(url: str, kafka: str) -> None:
    if httpx.put(f"{url}/stop", timeout=30).is_success:
        until(lambda: httpx.delete(f"{url}/offsets", timeout=30).is_success)
        httpx.delete(url, timeout=30)
    admin = AdminClient({"bootstrap.servers": kafka})
    present = set(admin.list_topics(timeout=10).topics) & {SOURCE.changes_topic, SOURCE.heartbeat_topic}
    for done in admin.delete_topics(list(present)).values() if present else ():
        done.result(30)


def is_streaming(conn: psycopg.Connection[Any]) -> bool:
    """The snapshot is over when the heart beats through the slot."""
    found = conn.execute(
        "select active and confirmed_flush_lsn > restart_lsn from pg_replication_slots where slot_name = %s",
        [SOURCE.slot],
    ).fetchone()
    return found is not None and bool(found[0])


def run(address: PostgresAddress, statements: tuple[str, ...]) -> None:
    with psycopg.connect(address.conninfo()) as conn:
        for statement in statements:
            conn.execute(statement)


def described(conn: psycopg.Connection[Any]) -> list[dict[str, Any]]:
    rows = describe(conn, [TableName(*name) for name in zoo.tables()])
    return sorted(rows, key=lambda row: row["table_name"])


def expected(conn: psycopg.Connection[Any]) -> dict[tuple[str, int], str | None]:
    """Postgres' own text of every value of the specimens, and of the large ones."""
    for setting in ("timezone = 'UTC'", "datestyle = 'ISO'", "intervalstyle = 'postgres'", "bytea_output = 'hex'"):
        conn.execute(f"set {setting}")
    tables = [s.table for s in zoo.SPECIMENS] + [s.big_table for s in (*zoo.BIG, *zoo.BLIND)]
    return {
        (table, row_id): text
        for table in tables
        for row_id, text in conn.execute(
            f"select id, case when num_nonnulls(v) = 1 then format('%s', v) end from {table}"
        )
    }


def recorded(kafka: str) -> list[dict[str, Any]]:
    consumer = Consumer({
        "bootstrap.servers": kafka, "group.id": "golden", "enable.auto.commit": False,
        "isolation.level": "read_committed",
    })  # fmt: skip
    consumer.assign([TopicPartition(SOURCE.changes_topic, 0, 0)])
    rows: list[dict[str, Any]] = []
    is_done = False
    deadline = time.monotonic() + DEADLINE_S
    while not is_done or '"status":"END"' not in rows[-1]["value"]:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(rows)} records, and not the last")
        message = consumer.poll(1.0)
        if message is None or message.error():
            continue
        key, value = message.key(), message.value()
        rows.append({
            "offset": message.offset(), "written_at_ms": message.timestamp()[1],
            "key": None if key is None else key.decode(), "value": value.decode(),
        })  # fmt: skip
        is_done = is_done or DONE_BASE64 in rows[-1]["value"]
    consumer.close()
    return rows


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            raise TimeoutError("waited too long")
        time.sleep(0.2)


if __name__ == "__main__":
    main()

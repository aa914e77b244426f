"""The connector's configuration: what must never change unseen, and no secrets in what is printed."""

from __future__ import annotations

import re

import httpx
import psycopg
import pytest
from confluent_kafka.admin import AdminClient

from cdc.addresses import ConnectAddress, PostgresAddress, Source
from cdc.capture import Capture
from cdc.connector import HEARTBEAT_QUERY, PLACEHOLDER, ConnectorConfig, redacted
from cdc.errors import ConfigurationError
from cdc.events import TableName
from tests.waiting import eventually

PASSWORD = "s3cret & more"
POSTGRES = PostgresAddress("db", 5432, "app", "capture", PASSWORD)


def config(**changes: object) -> ConnectorConfig:
    settings: dict[str, object] = {
        "source": Source("shop"),
        "postgres": POSTGRES,
        "tables": (TableName("public", "items"),),
        **changes,
    }
    return ConnectorConfig(**settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("plugin.name", "pgoutput"),
        ("publication.autocreate.mode", "disabled"),
        ("slot.drop.on.stop", "false"),
        ("offset.mismatch.strategy", "trust_offset"),
        ("provide.transaction.metadata", "true"),
        ("skipped.operations", "none"),
        ("tombstones.on.delete", "false"),
        ("exactly.once.support", "required"),
        ("event.processing.failure.handling.mode", "fail"),
        ("event.converting.failure.handling.mode", "fail"),
        ("errors.tolerance", "none"),
        ("value.converter.replace.null.with.default", "false"),
        ("key.converter.replace.null.with.default", "false"),
        ("decimal.handling.mode", "string"),
        ("time.precision.mode", "microseconds"),
        ("binary.handling.mode", "bytes"),
        ("include.unknown.datatypes", "true"),
        ("unavailable.value.placeholder", PLACEHOLDER),
        ("topic.creation.default.partitions", "1"),
        ("snapshot.mode", "initial"),
        ("heartbeat.action.query", HEARTBEAT_QUERY),
    ],
)
def test_what_nothing_lost_and_nothing_bent_rests_on(name: str, value: str) -> None:
    assert config().to_connect()[name] == value


def test_everything_but_the_heartbeat_goes_into_one_topic() -> None:
    settings = config().to_connect()
    routed = re.compile(settings["transforms.one_log.regex"])
    for topic in ("shop.public.items", "shop.transaction", "shop.message", "shop.headwater.heartbeat"):
        assert routed.fullmatch(topic)
    heartbeat = f"{settings['topic.heartbeat.prefix']}.{settings['topic.prefix']}"
    assert heartbeat == Source("shop").heartbeat_topic
    assert not routed.fullmatch(heartbeat)
    assert not routed.fullmatch("shopping.public.items")
    assert settings["transforms.one_log.replacement"] == Source("shop").changes_topic


def patterns(text: str) -> list[re.Pattern[str]]:
    """Java's regular expressions, as Python's: it splits at commas, and writes \\x{2c} where we write \\x2c."""
    return [
        re.compile(re.sub(r"\\x\{(\w+)\}", lambda m: re.escape(chr(int(m[1], 16))), part)) for part in text.split(",")
    ]


@pytest.mark.parametrize("name", ["items", "Items", "a.b", "a,b", "a:b", "a b", "Näme", "x+", "(y)"])
def test_tables_are_named_exactly(name: str) -> None:
    table = TableName("public", name)
    included = patterns(config(tables=(table,)).to_connect()["table.include.list"])
    assert [p.fullmatch(f"public.{name}") is not None for p in included].count(True) == 1
    for other in (f"public.{name.swapcase()}", f"public.{name}2", f"publicx{name}"):
        assert not any(p.fullmatch(other) for p in included)


def test_headwaters_own_tables_are_captured_once() -> None:
    own = TableName("headwater", "catalog")
    included = config(tables=(own, TableName("public", "items"))).to_connect()["table.include.list"]
    assert included.count("catalog") == 1
    assert "heartbeat" in included
    assert "signal" in included


def test_keys_and_columns_that_are_left_out() -> None:
    items = TableName("public", "items")
    settings = config(keys=((items, ("code", "lot")),), excluded=((items, "tz"),)).to_connect()
    assert settings["message.key.columns"] == "public\\.items:code,lot"
    assert settings["column.exclude.list"] == "(?-i:public\\.items\\.tz)"
    assert "message.key.columns" not in config().to_connect()


def test_tls_goes_to_the_driver() -> None:
    postgres = PostgresAddress("db", 5432, "app", "u", "p", (("sslmode", "verify-full"), ("sslrootcert", "/ca.pem")))
    settings = config(postgres=postgres).to_connect()
    assert (settings["database.sslmode"], settings["database.sslrootcert"]) == ("verify-full", "/ca.pem")


def test_a_parameter_that_would_be_ignored_is_refused() -> None:
    postgres = PostgresAddress("db", 5432, "app", "u", "p", (("passfile", "/x"),))
    with pytest.raises(ConfigurationError, match="passfile"):
        config(postgres=postgres).to_connect()


def test_the_password_is_not_printed() -> None:
    assert PASSWORD not in repr(config())
    assert config().to_connect()["database.password"] == PASSWORD
    assert PASSWORD not in str(redacted(config().to_connect()))
    assert redacted(config().to_connect())["database.user"] == "capture"


def test_settings_are_text() -> None:
    assert {type(value) for value in config().to_connect().values()} == {str}


def test_limits_reach_the_connector() -> None:
    settings = config(batch_rows_max=7, queue_rows_max=9, retention_ms=5, poll_interval_ms=3).to_connect()
    assert settings["max.batch.size"] == "7"
    assert settings["max.queue.size"] == "9"
    assert settings["topic.creation.default.retention.ms"] == "5"
    assert settings["poll.interval.ms"] == "3"


@pytest.mark.stack
def test_connect_finds_no_fault(connect: ConnectAddress, postgres: PostgresAddress, source: Source) -> None:
    settings = config(source=source, postgres=postgres).to_connect()
    answer = httpx.put(
        f"{connect.url}/connector-plugins/PostgresConnector/config/validate",
        json={**settings, "name": source.connector},
        auth=(connect.user, connect.password) if connect.user else None,
        timeout=60,
    ).raise_for_status()
    values = [setting["value"] for setting in answer.json()["configs"]]
    assert {value["name"]: value["errors"] for value in values if value["errors"]} == {}


@pytest.mark.stack
def test_the_heart_beats_where_its_topic_is_said_to_be(capture: Capture) -> None:
    """Debezium ignores a setting that it does not know, and the topic would then be called after Debezium."""
    with psycopg.connect(capture.postgres.conninfo(), autocommit=True) as conn:
        conn.execute("create table items (id int primary key)")
    capture.ensure()
    admin = AdminClient(capture.kafka.client())
    ending = f"-heartbeat.{capture.source.name}"
    found = eventually(lambda: [t for t in admin.list_topics(timeout=10).topics if t.endswith(ending)] or False)
    assert found == [capture.source.heartbeat_topic]

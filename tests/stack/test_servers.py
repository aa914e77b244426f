"""The servers' configuration: what each is told, without starting any."""

from __future__ import annotations

import shlex
import stat
import urllib.parse
from pathlib import Path

import pytest

from headwater.stack.account import Account
from headwater.stack.java import Java
from headwater.stack.process import Command
from headwater.stack.servers import NAMES, SERVERS, Server, connect, elasticsearch, kafka, postgres, redis
from headwater.stack.site import HeapSizes, Site
from headwater.stack.state import StackState

PORTS = {
    "postgres": 20_001, "kafka": 20_002, "kafka_controller": 20_003, "elasticsearch": 20_004,
    "elasticsearch_transport": 20_005, "redis": 20_006, "connect": 20_007,
}  # fmt: skip
SET_UP = (
    "postgres/data/PG_VERSION", "kafka/data/meta.properties", "kafka/data/.kafka_cleanshutdown",
    "elasticsearch/config/password.stored",
)  # fmt: skip
SECRETS = {name: f"s3cret/of {name}?" for name in NAMES}


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """As for a stack that has been set up before: nothing here runs a program, and there is no Kafka to ask."""
    monkeypatch.setattr(connect, "set_all_right", lambda *_: [])
    installed = {
        name: tmp_path / "servers" / name for name in ("postgres", "kafka", "debezium", "elasticsearch", "redis")
    }
    shipped = installed["elasticsearch"] / "config"
    shipped.mkdir(parents=True)
    (shipped / "jvm.options").write_text("## comment\n-XX:+UseG1GC\n-Xlog:gc*:file=logs/gc.log\n-Dkept=1\n")
    for done in SET_UP:
        file = tmp_path / "data" / done
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    state = StackState(ports=dict(PORTS), secrets=dict(SECRETS))
    java = Java(Path("/jre/bin/java"), Path("/jre"), 17)
    return Site(
        tmp_path / "data", tmp_path / "logs", state, Account("me"), java, installed, HeapSizes(300, 301, 302), 64
    )


def properties(file: Path) -> dict[str, str]:
    return dict(line.split("=", 1) for line in file.read_text().splitlines())


def prepared(server: Server, site: Site) -> Command:
    server.prepare(site)
    server.prepare(site)  # also before every restart
    return server.command(site)


def named(name: str) -> Server:
    return next(server for server in SERVERS if server.name == name)


@pytest.mark.parametrize("server", SERVERS, ids=NAMES)
def test_no_secret_is_on_a_command_line_or_in_an_environment(server: Server, site: Site) -> None:
    command = prepared(server, site)
    told = shlex.join(command.argv) + str(command.environment)
    assert not any(secret in told for secret in SECRETS.values())
    assert command.folder is not None
    assert command.folder.is_relative_to(site.data), "so that a leftover can be told from anybody else's process"


def test_each_starts_after_what_it_needs() -> None:
    for number, server in enumerate(SERVERS):
        assert set(server.needs) <= set(NAMES[:number])


def test_postgres_logs_logically_within_a_cap_and_on_loopback_only(site: Site) -> None:
    command = prepared(named("postgres"), site)
    settings = dict(part.split("=", 1) for part in command.argv if "=" in part)
    assert settings["wal_level"] == "logical"
    assert settings["max_slot_wal_keep_size"] == "64MB"
    assert settings["listen_addresses"] == "127.0.0.1"
    assert settings["port"] == "20001"
    assert settings["unix_socket_directories"] == ""
    assert command.account == site.account


def test_the_lock_file_of_a_killed_postgres_is_in_nobodys_way(site: Site) -> None:
    lock = site.folder("postgres") / "data" / "postmaster.pid"
    lock.write_text("1\n")  # the pid of somebody else by now
    named("postgres").prepare(site)
    assert not lock.exists()


def test_kafka_makes_no_topic_by_accident(site: Site) -> None:
    command = prepared(named("kafka"), site)
    told = properties(site.folder("kafka") / "server.properties")
    assert told["auto.create.topics.enable"] == "false"
    assert told["listeners"] == "PLAINTEXT://127.0.0.1:20002,CONTROLLER://127.0.0.1:20003"
    assert told["log.dirs"] == str(site.folder("kafka") / "data")
    assert "-Xmx300m" in command.argv
    assert command.argv[0] == "/jre/bin/java"
    assert kafka.address(site).bootstrap == "127.0.0.1:20002"


def test_only_a_kafka_that_was_killed_has_its_controller_started_alone(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    fenced: list[Site] = []
    monkeypatch.setattr(kafka, "_fence", fenced.append)
    prepared(named("kafka"), site)
    assert fenced == []
    (site.folder("kafka") / "data" / ".kafka_cleanshutdown").unlink()
    named("kafka").prepare(site)
    assert fenced == [site]


def test_a_port_that_was_picked_anew_reaches_the_configuration(site: Site) -> None:
    named("kafka").prepare(site)
    site.state.ports["kafka"] = 20_999
    named("kafka").prepare(site)
    assert "127.0.0.1:20999" in properties(site.folder("kafka") / "server.properties")["listeners"]


def test_connect_writes_exactly_once_through_this_kafka(site: Site) -> None:
    command = prepared(named("connect"), site)
    told = properties(site.folder("connect") / "connect.properties")
    assert told["exactly.once.source.support"] == "enabled"
    assert told["bootstrap.servers"] == kafka.address(site).bootstrap
    assert told["listeners"] == connect.address(site).url == "http://127.0.0.1:20007"
    assert told["plugin.path"] == str(site.installed["debezium"])
    assert "-Xmx301m" in command.argv


def test_elasticsearch_asks_for_a_password_and_leaves_its_shared_files_alone(site: Site) -> None:
    command = prepared(named("elasticsearch"), site)
    config = site.folder("elasticsearch") / "config"
    told = dict(line.split(": ", 1) for line in (config / "elasticsearch.yml").read_text().splitlines())
    assert told["xpack.security.enabled"] == "true"
    assert told["network.host"] == "127.0.0.1"
    assert told["http.port"] == "20004"
    assert told["action.auto_create_index"] == "false"
    options = (config / "jvm.options").read_text()
    assert "-Dkept=1" in options
    assert not any(unwanted in options for unwanted in ("G1GC", "gc.log"))
    assert command.environment["ES_JAVA_OPTS"] == "-Xms302m -Xmx302m"
    assert command.environment["ES_PATH_CONF"] == str(config)
    assert elasticsearch.credentials(site) == ("elastic", SECRETS["elasticsearch"])


def test_redis_keeps_its_password_in_a_file_of_its_own(site: Site) -> None:
    prepared(named("redis"), site)
    file = site.folder("redis") / "redis.conf"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    told = dict(line.split(" ", 1) for line in file.read_text().splitlines())
    assert told["bind"] == "127.0.0.1"
    assert told["appendonly"] == "yes"
    assert shlex.split(told["requirepass"]) == [SECRETS["redis"]]
    assert urllib.parse.unquote(urllib.parse.urlsplit(redis.url(site)).password or "") == SECRETS["redis"]


def test_postgres_is_reached_with_its_password(site: Site) -> None:
    address = postgres.address(site)
    assert (address.host, address.port, address.password) == ("127.0.0.1", 20_001, SECRETS["postgres"])


def test_a_servers_folder_is_its_own(site: Site) -> None:
    assert stat.S_IMODE(site.folder("redis").stat().st_mode) == 0o700

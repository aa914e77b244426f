"""compose.yaml is the embedded stack in containers: same versions, same settings, nothing open to the network."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from headwater.deployment import Deployment, embedded_servers
from headwater.settings import CaptureSettings, Settings, load
from headwater.stack.account import Account
from headwater.stack.artifacts import versions
from headwater.stack.servers import NAMES, connect, elasticsearch, kafka
from headwater.stack.servers.postgres import Postgres
from headwater.stack.servers.redis import Redis
from headwater.stack.site import LOG4J, HeapSizes, Site
from headwater.stack.state import StackState
from tests.containers.container_files import (
    COMPOSE,
    PASSWORDS,
    ROOT,
    Missing,
    interpolated,
    properties,
    read_compose,
    read_dockerfile,
)

SERVICES: dict[str, Any] = read_compose()["services"]
RAW: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
each_service = pytest.mark.parametrize("name", SERVICES)


@pytest.fixture
def site(tmp_path: Path) -> Site:
    """An embedded stack that never runs: only its configuration is asked for."""
    ports = {name: 20_000 + n for n, name in enumerate([*NAMES, "kafka_controller", "elasticsearch_transport"])}
    installed = {name: tmp_path / name for name in (*NAMES, "debezium")}
    state = StackState(ports=ports)
    wal_keep_max_mb = CaptureSettings().wal_keep_max_mb
    return Site(tmp_path, tmp_path, state, Account("me"), None, installed, HeapSizes(), wal_keep_max_mb)


def texts(settings: dict[str, Any], without: set[str]) -> dict[str, str]:
    """The settings as a file has them, less those that differ between one machine and containers."""
    missing = without - set(settings)
    assert not missing, f"no longer a setting of the embedded server: {missing}"
    return {name: str(value) for name, value in settings.items() if name not in without}


def megabytes(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)([mg])", text).groups()  # type: ignore[union-attr]
    return int(number) * (1024 if unit == "g" else 1)


def published(service: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [tuple(port.rsplit(":", 2)) for port in service.get("ports", [])]


# What is run


def test_the_services_are_the_embedded_servers_and_headwater() -> None:
    assert set(SERVICES) == {*NAMES, "headwater"}


def test_images_have_the_locked_versions() -> None:
    images = {name: service["image"] for name, service in SERVICES.items() if "image" in service}
    lock = versions()
    assert images.pop("redis").startswith("redis:6.2.")  # the line is checked against the embedded one in test_health
    assert images == {
        "postgres": f"postgres:{lock['postgres'].removesuffix('.0')}",
        "kafka": f"apache/kafka:{lock['kafka']}",
        "elasticsearch": f"elasticsearch:{lock['elasticsearch']}",
    }


def test_our_own_images_are_built_from_stages_that_exist() -> None:
    stages = read_dockerfile()
    built = {name: service["build"] for name, service in SERVICES.items() if "build" in service}
    assert {name: build["target"] for name, build in built.items()} == {"connect": "connect", "headwater": "headwater"}
    for build in built.values():
        assert (ROOT / build["context"]).resolve() == ROOT
        known = {a.words[0] for stage in stages.values() for a in stage.all("ARG")}
        assert set(build["args"]) <= known


@each_service
def test_a_service_is_watched_restarted_bounded_and_stopped_in_peace(name: str) -> None:
    service = SERVICES[name]
    assert {"test", "interval", "timeout", "retries", "start_period"} <= set(service["healthcheck"])
    assert service["restart"] == "unless-stopped"
    assert megabytes(service["mem_limit"]) <= 2048
    assert re.fullmatch(r"\d+s", service["stop_grace_period"])
    assert "max-size" in service["logging"]["options"]


@each_service
def test_a_service_has_no_more_rights_than_it_needs(name: str) -> None:
    service = SERVICES[name]
    assert not {"privileged", "cap_add", "network_mode", "pid", "ipc", "devices"} & set(service)
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service.get("user") not in ("root", "0")


@each_service
def test_ports_are_published_on_loopback_only(name: str) -> None:
    for host, outside, inside in published(SERVICES[name]):
        assert host == "127.0.0.1", f"{name} publishes {inside} on {host}"
        assert outside.isdigit()
        assert inside.isdigit()


def test_a_server_without_a_password_that_knows_one_is_not_published() -> None:
    assert published(SERVICES["connect"]) == []


def test_no_two_services_publish_the_same_port() -> None:
    ports = [outside for service in SERVICES.values() for _, outside, _ in published(service)]
    assert len(ports) == len(set(ports))


def test_services_wait_for_those_they_need() -> None:
    for service in SERVICES.values():
        for needed, how in service.get("depends_on", {}).items():
            assert needed in SERVICES
            assert how == {"condition": "service_healthy"}
    assert set(SERVICES["connect"]["depends_on"]) == {"kafka"}
    assert set(SERVICES["headwater"]["depends_on"]) == set(NAMES)


def test_data_is_in_named_volumes() -> None:
    mounted = [mount.split(":")[0] for service in SERVICES.values() for mount in service.get("volumes", [])]
    assert sorted(mounted) == sorted(RAW["volumes"])


def test_configuration_files_are_declared_and_used() -> None:
    used = [file["source"] for service in SERVICES.values() for file in service.get("configs", [])]
    assert sorted(used) == sorted(RAW["configs"])


# Passwords


def test_passwords_have_no_default() -> None:
    for name in PASSWORDS:
        with pytest.raises(Missing, match=name):
            read_compose({**PASSWORDS, name: ""})


def test_every_password_comes_from_outside() -> None:
    for name, service in RAW["services"].items():
        for variable, value in service.get("environment", {}).items():
            if re.search("PASSWORD|AUTH|REDIS__URL", variable):
                assert re.search(r"\$\{\w+:\?[^}]+\}", value), f"{name}: {variable}"


# Headwater in it


def container_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Settings:
    monkeypatch.chdir(tmp_path)  # away from any headwater.toml
    return load(environ=SERVICES["headwater"]["environment"])


def test_headwater_is_given_every_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = container_settings(monkeypatch, tmp_path)
    assert embedded_servers(settings) == ()
    deployment = Deployment.resolve(settings)
    postgres = SERVICES["postgres"]["environment"]
    assert (deployment.postgres.host, deployment.postgres.database) == ("postgres", postgres["POSTGRES_DB"])
    assert (deployment.postgres.user, deployment.postgres.password) == (postgres["POSTGRES_USER"], "pg0")
    assert (deployment.capture_postgres.user, deployment.capture_postgres.password) == ("headwater_capture", "capture0")
    assert deployment.elasticsearch.password == SERVICES["elasticsearch"]["environment"]["ELASTIC_PASSWORD"]
    assert deployment.redis.url == "redis://:redis0@redis:6379/0"
    listeners = SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert f"PLAINTEXT://{deployment.kafka.bootstrap}" in listeners.split(",")
    assert deployment.connect.url == "http://connect:8083"


def test_headwater_keeps_its_state_in_its_volume(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = container_settings(monkeypatch, tmp_path)
    assert SERVICES["headwater"]["volumes"] == [f"headwater:{settings.data_folder}"]
    assert read_dockerfile()["headwater"].all("WORKDIR")[0].rest == str(settings.data_folder)


def test_the_page_is_reachable_from_outside_the_container(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    settings = container_settings(monkeypatch, tmp_path)
    assert settings.http.host == "0.0.0.0"
    assert [inside for _, _, inside in published(SERVICES["headwater"])] == [str(settings.http.port)]


def test_kafka_tells_outside_clients_the_port_that_is_published() -> None:
    services = read_compose({**PASSWORDS, "KAFKA_PORT": "7777"})["services"]
    listeners = services["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"]
    assert listeners == "PLAINTEXT://kafka:9092,HOST://127.0.0.1:7777"
    assert published(services["kafka"]) == [("127.0.0.1", "7777", "29092")]


# The servers' settings are the embedded ones


def test_postgres_runs_with_the_embedded_settings(site: Site) -> None:
    site.state.secret("postgres")
    argv = Postgres().command(site).argv
    embedded = properties("\n".join(argv[n + 1] for n, word in enumerate(argv) if word == "-c"))
    command = SERVICES["postgres"]["command"]
    assert set(command[1::2]) == {"-c"}
    elsewhere = {"listen_addresses", "port", "unix_socket_directories"}
    assert properties("\n".join(command[2::2])) == texts(embedded, elsewhere)


def broker_properties(environment: dict[str, str]) -> dict[str, str]:
    """What the image makes of its environment: KAFKA_LOG_DIRS is log.dirs."""
    names = [name for name in environment if name.startswith("KAFKA_") and name != "KAFKA_HEAP_OPTS"]
    return {name.removeprefix("KAFKA_").lower().replace("_", "."): environment[name] for name in names}


def test_kafka_runs_with_the_embedded_settings(site: Site) -> None:
    found = broker_properties(SERVICES["kafka"]["environment"])
    elsewhere = {"controller.quorum.voters", "listeners", "log.dirs"}
    # Nobody starts the controller alone there after a kill: it has to find out by itself that the broker is dead.
    wanted = texts(kafka._properties(site), {*elsewhere, "broker.session.timeout.ms"})
    assert {name: found.get(name) for name in wanted} == wanted
    networked = {"advertised.listeners", "listener.security.protocol.map", "inter.broker.listener.name"}
    assert set(found) == {*wanted, *elsewhere, *networked}
    assert SERVICES["kafka"]["volumes"] == [f"kafka:{found['log.dirs']}"]


def test_connect_runs_with_the_embedded_settings(site: Site) -> None:
    found = properties(RAW["configs"]["connect"]["content"])
    elsewhere = {"bootstrap.servers", "listeners", "plugin.path"}
    wanted = texts(connect._properties(site), elsewhere)
    assert {name: found.get(name) for name in wanted} == wanted
    assert set(found) == {*wanted, *elsewhere, "rest.advertised.host.name"}
    assert found["bootstrap.servers"] == "kafka:9092"


def test_connect_finds_its_files_and_the_plugin() -> None:
    stage = read_dockerfile()["connect"]
    content = properties(RAW["configs"]["connect"]["content"])
    assert stage.all("COPY")[0].words[-1] == content["plugin.path"]
    mounted = {file["source"]: file["target"] for file in SERVICES["connect"]["configs"]}
    assert mounted["connect"] in stage.all("CMD")[0].rest
    assert SERVICES["connect"]["environment"]["KAFKA_LOG4J_OPTS"].endswith(f"={mounted['connect_log4j']}")
    assert RAW["configs"]["connect_log4j"]["content"] == LOG4J


def test_elasticsearch_runs_with_the_embedded_settings(site: Site) -> None:
    found = SERVICES["elasticsearch"]["environment"]
    elsewhere = {"node.name", "network.host", "http.port", "transport.port", "path.data", "path.logs"}
    wanted = texts(elasticsearch._settings(site), elsewhere)
    assert {name: found.get(name) for name in wanted} == wanted


def test_redis_runs_with_the_embedded_settings(site: Site) -> None:
    Redis().prepare(site)
    embedded = properties((site.folder("redis") / "redis.conf").read_text(), " ")
    content = interpolated(RAW["configs"]["redis"]["content"], PASSWORDS)
    found = properties(content, " ")
    elsewhere = {"bind", "dir", "port", "requirepass"}
    wanted = texts(embedded, elsewhere)
    assert {name: found.get(name) for name in wanted} == wanted
    assert found["requirepass"] == SERVICES["redis"]["environment"]["REDISCLI_AUTH"] == "redis0"
    assert SERVICES["redis"]["command"][-1] == SERVICES["redis"]["configs"][0]["target"]


def test_heaps_are_the_embedded_ones_and_fit_the_limits() -> None:
    heaps = HeapSizes()
    for name, variable, heap_mb in (
        ("kafka", "KAFKA_HEAP_OPTS", heaps.kafka_mb),
        ("connect", "KAFKA_HEAP_OPTS", heaps.connect_mb),
        ("elasticsearch", "ES_JAVA_OPTS", heaps.elasticsearch_mb),
    ):
        assert f"-Xmx{heap_mb}m" in SERVICES[name]["environment"][variable].split()
        assert megabytes(SERVICES[name]["mem_limit"]) >= 2 * heap_mb


# The file itself


def test_the_documentation_names_every_variable() -> None:
    page = (ROOT / "docs" / "containers.md").read_text()
    named = set(re.findall(r"\$\{(\w+)", COMPOSE.read_text()))
    assert named == {name for name in named if f"`{name}`" in page}


def test_compose_itself_accepts_the_file() -> None:
    docker = shutil.which("docker")
    if not docker or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker compose is not installed")
    command = [docker, "compose", "--file", str(COMPOSE), "--env-file", "/dev/null", "config", "--quiet"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, **PASSWORDS})
    assert answer.returncode == 0, answer.stderr

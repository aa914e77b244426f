"""Checks of the user's own servers: reachable, the right kind, let us in. An embedded one has nothing to check here.

No finding repeats a password: errors of client libraries pass through `_told`.
"""

from __future__ import annotations

import ssl
from dataclasses import replace
from typing import Any, Final

from cdc.findings import Finding
from headwater.settings import Settings

TIMEOUT_S: Final = 5.0
DEBEZIUM_CLASS: Final = "io.debezium.connector.postgresql.PostgresConnector"
DETAIL_CHARACTERS_MAX: Final = 300


def postgres(settings: Settings) -> list[Finding]:
    """What capture needs of the database: version, wal_level, privileges, replica identity, slots, publication."""
    from cdc.preflight import check

    address = settings.postgres.address()
    if address is None:
        return []
    found = check(address, settings.named_source, settings.tables)
    return [replace(finding, name=f"postgres {finding.name}") for finding in found]


def kafka(settings: Settings) -> list[Finding]:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient

    address = settings.kafka.address()
    if address is None:
        return []
    heard: list[str] = []
    # log_level 0: the reasons come by error_cb, and belong into the finding, not onto the terminal.
    config: dict[str, Any] = {**address.client(), "error_cb": lambda error: heard.append(error.str()), "log_level": 0}
    try:
        cluster = AdminClient(config).list_topics(timeout=TIMEOUT_S)
    except KafkaException as error:
        reason = _told(heard[-1] if heard else str(error), settings)
        hint = "check kafka.bootstrap and kafka.security_protocol; headwater config show"
        return [Finding("fail", "kafka", f"{address.bootstrap} does not answer: {reason}", hint)]
    return [Finding("ok", "kafka", f"{address.bootstrap}, brokers: {len(cluster.brokers)}", "")]


def connect(settings: Settings) -> list[Finding]:
    address = settings.connect.address()
    if address is None:
        return []
    login = (address.user, address.password) if address.user else None
    plugins = _get(f"{address.url}/connector-plugins", settings, "connect", login=login, ca_file=address.ca_file)
    if isinstance(plugins, Finding):
        return [plugins]
    return [judge_plugins(address.url, plugins)]


def judge_plugins(url: str, plugins: object) -> Finding:
    listed = plugins if isinstance(plugins, list) else []
    found = [plugin for plugin in listed if isinstance(plugin, dict) and plugin.get("class") == DEBEZIUM_CLASS]
    if not found:
        hint = "install debezium-connector-postgres in the plugin.path of that Connect, and restart it"
        return Finding("fail", "connect", f"{url} has no Debezium connector for Postgres", hint)
    return Finding("ok", "connect", f"{url} with Debezium {found[0].get('version', 'of an unknown version')}", "")


def elasticsearch(settings: Settings) -> list[Finding]:
    section = settings.elasticsearch
    if section.embedded:
        return []
    url = section.url.get_secret_value().rstrip("/")
    login = (section.user, section.password.get_secret_value()) if section.user else None
    key = section.api_key.get_secret_value()
    headers = {"Authorization": f"ApiKey {key}"} if key else {}
    health = _get(
        f"{url}/_cluster/health", settings, "elasticsearch", login=login, ca_file=section.ca_file, headers=headers
    )
    return [health if isinstance(health, Finding) else judge_health(url, health)]


def judge_health(url: str, health: object) -> Finding:
    status = health.get("status") if isinstance(health, dict) else None
    if status in ("green", "yellow"):
        return Finding("ok", "elasticsearch", f"{url} is {status}", "")
    return Finding(
        "fail", "elasticsearch", f"{url} is {status or 'no Elasticsearch'}", "GET /_cluster/allocation/explain says why"
    )


def redis(settings: Settings) -> list[Finding]:
    from redis import Redis, RedisError

    section = settings.redis
    if section.embedded:
        return []
    tls = {"ssl_ca_certs": section.ca_file} if section.ca_file else {}
    limits = {"socket_timeout": TIMEOUT_S, "socket_connect_timeout": TIMEOUT_S}
    try:
        with Redis.from_url(section.url.get_secret_value(), **limits, **tls) as client:
            version = client.info("server")["redis_version"]
    except (RedisError, OSError, ValueError) as error:
        hint = "check redis.url; headwater config show"
        return [Finding("fail", "redis", f"{section.url} does not answer: {_told(str(error), settings)}", hint)]
    return [Finding("ok", "redis", f"{version} at {section.url}", "")]


def _get(
    url: str,
    settings: Settings,
    name: str,
    *,
    login: tuple[str, str] | None,
    ca_file: str,
    headers: dict[str, str] | None = None,
) -> object:
    """The JSON that the server answers, or the finding that says why there is none."""
    import httpx

    hint = f"check {name}.url, {name}.user and {name}.ca_file; headwater config show"
    try:
        verify = ssl.create_default_context(cafile=ca_file or None)
        answer = httpx.get(url, auth=login, headers=headers, timeout=TIMEOUT_S, verify=verify)
        answer.raise_for_status()
        return answer.json()
    except httpx.HTTPStatusError as error:
        return Finding("fail", name, f"{url} answers HTTP {error.response.status_code}", hint)
    except (httpx.HTTPError, OSError, ValueError) as error:
        told = _told(str(error) or type(error).__name__, settings)
        return Finding("fail", name, f"{url} does not answer: {told}", hint)


def _told(message: str, settings: Settings) -> str:
    """An error of a library on one line, without any secret of ours in it."""
    sections = (settings.postgres, settings.kafka, settings.connect, settings.elasticsearch, settings.redis)
    secrets = [value for section in sections for value in section.secrets()]
    for secret in sorted(secrets, key=len, reverse=True):
        message = message.replace(secret, "***")
    return " ".join(message.split())[:DETAIL_CHARACTERS_MAX]

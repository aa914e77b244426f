"""The embedded Kafka Connect with the Debezium connector for Postgres: exactly once into the log."""

from __future__ import annotations

from typing import Final

import httpx

from cdc.addresses import ConnectAddress
from cdc.cut_off import set_all_right
from headwater.stack.process import Command
from headwater.stack.servers import kafka
from headwater.stack.site import Site, jvm

GROUP: Final = "headwater-connect"
OFFSETS_TOPIC: Final = "headwater.connect.offsets"


class Connect:
    name = "connect"
    bundles = ("kafka", "debezium")
    needs = ("kafka",)

    def prepare(self, site: Site) -> None:
        # Connect starts its connectors without asking: what was cut off is set right before.
        set_all_right(kafka.address(site), OFFSETS_TOPIC, GROUP)
        properties = site.folder("connect") / "connect.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in _properties(site).items()))

    def command(self, site: Site) -> Command:
        main = "org.apache.kafka.connect.cli.ConnectDistributed"
        properties = str(site.folder("connect") / "connect.properties")
        return Command(jvm(site, "connect", site.heap.connect_mb, main, properties), folder=site.folder("connect"))

    def ready(self, site: Site) -> bool:
        return httpx.get(f"{address(site).url}/connectors", timeout=2).status_code == httpx.codes.OK


def address(site: Site) -> ConnectAddress:
    return ConnectAddress(f"http://127.0.0.1:{site.state.ports['connect']}")


def _properties(site: Site) -> dict[str, object]:
    json = "org.apache.kafka.connect.json.JsonConverter"
    return {
        "bootstrap.servers": kafka.address(site).bootstrap,
        "group.id": GROUP,
        "listeners": address(site).url,
        "key.converter": json,
        "key.converter.schemas.enable": "false",
        "value.converter": json,
        "value.converter.schemas.enable": "false",
        "offset.storage.topic": OFFSETS_TOPIC,
        "config.storage.topic": "headwater.connect.configs",
        "status.storage.topic": "headwater.connect.status",
        "offset.storage.replication.factor": 1,
        "offset.storage.partitions": 1,
        "config.storage.replication.factor": 1,
        "status.storage.replication.factor": 1,
        "status.storage.partitions": 1,
        "exactly.once.source.support": "enabled",
        "connector.client.config.override.policy": "All",
        "plugin.path": site.installed["debezium"],
        "plugin.discovery": "service_load",
        "scheduled.rebalance.max.delay.ms": 0,
        # One worker only. When it is frozen or its broker is gone for a while it must keep its task: Connect would
        # start it again without asking. It gives its task up when it finds no broker for as long as a heartbeat.
        "session.timeout.ms": 1_800_000,
        "heartbeat.interval.ms": 600_000,
        # After kill -9 its former self must not be waited for longer than a restart takes.
        "rebalance.timeout.ms": 6_000,
        "task.shutdown.graceful.timeout.ms": 4_000,
    }

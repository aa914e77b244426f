"""The embedded Kafka: one KRaft node, no topic comes into being by accident."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from cdc.addresses import KafkaAddress
from cdc.connector import RECORD_BYTES_MAX
from cdc.errors import StackError
from headwater.stack.process import Command
from headwater.stack.site import Site, jvm

FORMAT_TIMEOUT_S: Final = 120


class Kafka:
    name = "kafka"
    bundles = ("kafka",)
    needs = ()

    def prepare(self, site: Site) -> None:
        folder = site.folder("kafka")
        properties = folder / "server.properties"
        properties.write_text("".join(f"{k}={v}\n" for k, v in _properties(site).items()))
        if not (folder / "data" / "meta.properties").exists():
            _format(site, properties)

    def command(self, site: Site) -> Command:
        properties = str(site.folder("kafka") / "server.properties")
        return Command(jvm(site, "kafka", site.heap.kafka_mb, "kafka.Kafka", properties), folder=site.folder("kafka"))

    def ready(self, site: Site) -> bool:
        client = AdminClient({**address(site).client(), "log_level": 0})
        return bool(client.list_topics(timeout=2).brokers)


def address(site: Site) -> KafkaAddress:
    return KafkaAddress(f"127.0.0.1:{site.state.ports['kafka']}")


def _properties(site: Site) -> dict[str, object]:
    broker, controller = site.state.ports["kafka"], site.state.ports["kafka_controller"]
    return {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listeners": f"PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": site.folder("kafka") / "data",
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": 1,
        "offsets.topic.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "transaction.state.log.num.partitions": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
        "log.segment.bytes": 256 << 20,
        "message.max.bytes": RECORD_BYTES_MAX,
    }


def _format(site: Site, properties: Path) -> None:
    cluster = _storage_tool(site, "random-uuid").split()[-1]
    _storage_tool(site, "format", "-t", cluster, "-c", str(properties))


def _storage_tool(site: Site, *arguments: str) -> str:
    command = jvm(site, "kafka", 128, "kafka.tools.StorageTool", *arguments)
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=FORMAT_TIMEOUT_S)
    if answer.returncode:
        raise StackError(
            "the embedded Kafka could not format its data folder",
            detail=(answer.stdout + answer.stderr).strip()[-800:],
            hint="headwater doctor",
        )
    return answer.stdout

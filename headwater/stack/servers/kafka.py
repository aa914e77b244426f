"""The embedded Kafka: one KRaft node, no topic comes into being by accident.

It is broker and controller in one. After kill -9 its controller still takes the dead broker for the leader of every
partition, until its session is over. A broker that starts meanwhile leads them at once, and is put off again when the
session ends; the markers of transactions that were committed but not yet marked are thrown away then, as if their
topics were deleted. Nobody reads past such a transaction, ever: capture would stand still. So the controller is started
alone first, to learn that the broker is dead.
"""

from __future__ import annotations

import math
import subprocess
import time
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from cdc.addresses import KafkaAddress
from cdc.connector import RECORD_BYTES_MAX
from cdc.errors import StackError
from headwater.stack.process import Child, Command
from headwater.stack.site import Site, jvm

FORMAT_TIMEOUT_S: Final = 120
FENCING_S_MAX: Final = 120.0
FENCING_POLL_S: Final = 0.05
FENCING_STOP_S: Final = 10.0
DEAD_AFTER_MS: Final = 500
"""While the controller is alone: nobody sends it a heartbeat then."""
KEPT_AFTER_GROWTHS: Final = 2
"""What the controller says is not yet in its log. It writes in order, so the second write after its word is behind it;
one that is stopped before that forgets what it said, and refuses the broker until its session is over."""
KNOWN_DEAD_GROWTHS: Final = 30
"""A controller that has written so often since it took over, and said nothing, knew already that the broker is dead.
Counted in its own writes, not in seconds: a machine that is slow is slow with both."""
IDLE_WRITE_MS: Final = 100
"""While the controller is alone it writes so often, whether or not there is anything to write."""
SESSION_MS: Final = 30 * 60_000
"""Whoever is frozen with its own controller (a machine that sleeps) is not to be taken for dead by it afterwards."""
_TOOK_OVER: Final = "Becoming the active controller"
_FENCED: Final = "Fencing broker"
_ENOUGH: Final = {_FENCED: KEPT_AFTER_GROWTHS, _TOOK_OVER: KNOWN_DEAD_GROWTHS}


class Kafka:
    name = "kafka"
    bundles = ("kafka",)
    needs = ()

    def prepare(self, site: Site) -> None:
        folder = site.folder("kafka")
        properties, data = folder / "server.properties", folder / "data"
        _write(properties, _properties(site))
        if not (data / "meta.properties").exists():
            _format(site, properties)
        elif not (data / ".kafka_cleanshutdown").exists():
            _fence(site)

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
        "broker.session.timeout.ms": SESSION_MS,
        "log.segment.bytes": 256 << 20,
        "message.max.bytes": RECORD_BYTES_MAX,
    }


def _write(file: Path, properties: dict[str, object]) -> None:
    file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))


def _fence(site: Site) -> None:
    """Has the controller learn that the broker is dead. Where it does not even start, the server will say why."""
    folder = site.folder("kafka")
    properties, log = folder / "controller.properties", folder / "controller.log"
    _write(properties, _properties(site) | _alone(site))
    log.unlink(missing_ok=True)
    command = jvm(site, "kafka", site.heap.kafka_mb, "kafka.Kafka", str(properties))
    child = Child("kafka", Command(command, folder=folder), log)
    try:
        _wait_until_fenced(child, folder / "data" / "__cluster_metadata-0")
    finally:
        child.stop(FENCING_STOP_S)


def _alone(site: Site) -> dict[str, object]:
    return {
        "process.roles": "controller",
        "listeners": f"CONTROLLER://127.0.0.1:{site.state.ports['kafka_controller']}",
        "broker.session.timeout.ms": DEAD_AFTER_MS,
        "broker.heartbeat.interval.ms": DEAD_AFTER_MS // 2,
        "metadata.max.idle.interval.ms": IDLE_WRITE_MS,
    }


def _wait_until_fenced(controller: Child, metadata: Path) -> None:
    """Until its log holds that the broker is dead."""
    deadline = time.monotonic() + FENCING_S_MAX
    phase, growths, size = "", 0, 0
    while controller.exit_code() is None and time.monotonic() < deadline:
        told, before = _phase(controller.log.read_text(errors="replace")), size
        size = sum(file.stat().st_size for file in metadata.glob("*.log"))
        growths = growths + (size > before) if told == phase else 0
        phase = told
        if growths >= _ENOUGH.get(phase, math.inf):
            return
        time.sleep(FENCING_POLL_S)


def _phase(told: str) -> str:
    return next((phase for phase in _ENOUGH if phase in told), "")


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

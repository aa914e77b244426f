"""Writes headwater/stack/artifacts.lock: every server file with its SHA-256 and size, resolved once, by hand.

    make lock

Run it after changing a version below; it asks Maven itself for the dependency closure, so it needs `mvn`. What it
writes is what every machine fetches and checks; nothing is resolved at run time.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import httpx
from jgo.maven import Artifact, MavenContext

LOCK = Path(__file__).parents[1] / "headwater" / "stack" / "artifacts.lock"

KAFKA = "4.3.1"
LOG4J = "2.25.3"
DEBEZIUM = "3.7.0.Beta1"
"""Chosen by trial: 3.6.3.Final loses rows of a COPY when it is killed inside one (tests/crash); this one does not."""
POSTGRES = "18.6.0"
ELASTICSEARCH = "8.19.21"
REDIS = "1.4.4"
REDIS_SERVER = "6.2"
"""The line of the servers inside embedded-redis; which patch differs by platform."""

KAFKA_ROOTS = (
    f"org.apache.kafka:kafka_2.13:{KAFKA}",
    f"org.apache.kafka:connect-runtime:{KAFKA}",
    f"org.apache.kafka:connect-json:{KAFKA}",
    f"org.apache.kafka:connect-transforms:{KAFKA}",
    f"org.apache.kafka:kafka-tools:{KAFKA}",
    f"org.apache.logging.log4j:log4j-slf4j-impl:{LOG4J}",
)
POSTGRES_PLATFORMS = ("linux-amd64", "linux-arm64v8", "darwin-amd64", "darwin-arm64v8")


def kafka_jars(maven: MavenContext) -> list[Artifact]:
    """The closure as Maven itself sees it: nearest version wins, as in Kafka's own build."""
    dependencies = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *root.split(":")
        )
        for root in KAFKA_ROOTS
    )
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion><groupId>lock</groupId><artifactId>lock</artifactId>"
            f"<version>1</version><dependencies>{dependencies}</dependencies></project>"
        )
        command = ["mvn", "-q", "-B", "dependency:list", "-DincludeScope=runtime", "-DoutputFile=list.txt"]
        subprocess.run(command, cwd=folder, check=True)
        listed = re.findall(r"([\w.-]+):([\w.-]+):jar:([\w.-]+):", Path(folder, "list.txt").read_text())
    return [one(maven, group, name, version, "jar") for group, name, version in sorted(listed)]


def one(maven: MavenContext, group: str, name: str, version: str, packaging: str, classifier: str = "") -> Artifact:
    return maven.project(group, name).at_version(version).artifact(classifier=classifier, packaging=packaging)


def entry(maven: MavenContext, artifact: Artifact) -> dict[str, object]:
    path = f"{artifact.component.path_prefix.as_posix()}/{artifact.filename}"
    digest, size = hashlib.sha256(), 0
    for base in maven.remote_repos.values():
        with httpx.stream("GET", f"{base}/{path}", follow_redirects=True, timeout=300) as answer:
            answer.raise_for_status()
            for chunk in answer.iter_bytes(1 << 20):
                digest.update(chunk)
                size += len(chunk)
        break
    print(f"{size:>12,}  {path}", file=sys.stderr)
    return {"path": path, "sha256": digest.hexdigest(), "size_bytes": size}


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        maven = MavenContext(repo_cache=Path(cache))
        zonky = "io.zonky.test.postgres"
        servers: dict[str, list[Artifact]] = {
            "kafka": kafka_jars(maven),
            "debezium": [one(maven, "io.debezium", "debezium-connector-postgres", DEBEZIUM, "tar.gz", "plugin")],
            "elasticsearch": [
                one(maven, "org.elasticsearch.distribution.integ-test-zip", "elasticsearch", ELASTICSEARCH, "zip")
            ],
            "redis": [one(maven, "com.github.codemonstur", "embedded-redis", REDIS, "jar")],
        }
        for platform in POSTGRES_PLATFORMS:
            name = f"embedded-postgres-binaries-{platform}"
            servers[f"postgres-{platform}"] = [one(maven, zonky, name, POSTGRES, "jar")]
        lock = {
            "versions": {
                "kafka": KAFKA, "debezium": DEBEZIUM, "postgres": POSTGRES,
                "elasticsearch": ELASTICSEARCH, "redis": REDIS_SERVER,
            },
            "files": {server: [entry(maven, a) for a in artifacts] for server, artifacts in servers.items()},
        }  # fmt: skip
    LOCK.write_text(json.dumps(lock, indent=1) + "\n")


if __name__ == "__main__":
    main()

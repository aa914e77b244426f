"""The health checks of compose.yaml are commands: they say yes to the real servers and no to anything else."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import pytest

from headwater.deployment import Deployment
from headwater.stack.artifacts import bundle
from headwater.stack.cache import Cache, default_folder
from tests.containers.container_files import read_compose

SERVICES = read_compose()["services"]
CHECK_S_MAX = 10.0
PORTS = {"kafka": "9092", "connect": "8083", "elasticsearch": "9200", "headwater": "8321"}


def passes(service: str, port: int, **environment: str) -> bool:
    """Runs the service's check as the engine does, against another port."""
    kind, *words = SERVICES[service]["healthcheck"]["test"]
    inside = PORTS[service]
    if kind == "CMD-SHELL":
        words = ["sh", "-c", *words]
    assert any(inside in word for word in words), words
    command = [re.sub(rf"\b{inside}\b", str(port), word) for word in words]
    answer = subprocess.run(
        command, capture_output=True, check=False, timeout=CHECK_S_MAX, env={**os.environ, **environment}
    )
    return answer.returncode == 0


def closed_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def answering(status: int, path: str = "/") -> Iterator[int]:
    """An HTTP server that knows one path."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path == path else 404)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None:
            """Nothing on the tests' output."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port
        server.shutdown()


@pytest.mark.parametrize(("service", "path"), [("connect", "/connectors"), ("headwater", "/readyz")])
def test_a_check_over_http_follows_the_status(service: str, path: str) -> None:
    with answering(200, path) as port:
        assert passes(service, port)
    with answering(503, path) as port:
        assert not passes(service, port)


@pytest.mark.parametrize("service", ["kafka", "connect", "headwater"])
def test_a_check_fails_where_nobody_listens(service: str) -> None:
    assert not passes(service, closed_port())


def test_kafkas_check_is_not_content_with_any_server() -> None:
    with answering(200) as port:
        assert not passes("kafka", port)


@pytest.mark.stack
def test_the_real_kafka_and_connect_pass(deployment: Deployment) -> None:
    assert passes("kafka", int(deployment.kafka.bootstrap.rpartition(":")[2]))
    assert passes("connect", urlsplit(deployment.connect.url).port or 0)


@pytest.mark.stack
def test_the_real_elasticsearch_passes_with_its_password_only(deployment: Deployment) -> None:
    if not shutil.which("curl"):
        pytest.skip("curl is not installed")
    port = urlsplit(deployment.elasticsearch.url).port or 0
    assert passes("elasticsearch", port, ELASTIC_PASSWORD=deployment.elasticsearch.password)
    assert not passes("elasticsearch", port, ELASTIC_PASSWORD="wrong")


@pytest.mark.stack
def test_redis_is_of_the_embedded_line() -> None:
    binary = Cache(default_folder()).ensure(bundle("redis")) / "redis-server"
    told = subprocess.run([binary, "--version"], capture_output=True, text=True, check=True).stdout
    embedded = re.search(r"v=(\d+\.\d+)\.(\d+)", told)
    image = re.fullmatch(r"redis:(\d+\.\d+)\.(\d+)", SERVICES["redis"]["image"])
    assert embedded
    assert image
    assert image[1] == embedded[1]
    assert int(image[2]) >= int(embedded[2])

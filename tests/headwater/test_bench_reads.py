"""`bench reads` against a server that answers as it is told: what is counted as what. No figure is judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from cdc.errors import StackError
from headwater.bench import conditions, reads

MACHINE = conditions.machine(frozenset(), "")
PLAN = reads.ReadsPlan("odd view", rate_per_s=50, seconds=1)


@contextmanager
def server(statuses: dict[str, int]) -> Iterator[str]:
    """Answers each path with its status, and others with 500."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self.send_response(statuses.get(self.path, 500))
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as made:
        made.daemon_threads = True
        Thread(target=made.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{made.server_address[1]}"
        made.shutdown()


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "WARM_UP_S", 0.0)


def test_only_rows_are_timed_and_the_rest_is_counted() -> None:
    where = "/v1/views/odd%20view"
    with server({f"{where}/1": 200, f"{where}/a%2Fb": 404, f"{where}/2": 429}) as url:
        found = reads.run(url, ["1", "a/b", "2"], MACHINE, PLAN)
    assert found["samples"] + found["missing"] + found["failed"] == 50
    assert min(found["samples"], found["missing"], found["failed"]) > 0
    assert {"p50_ms", "p99_ms", "requests_per_s", "conditions"} <= set(found)


def test_a_server_that_answers_no_row_gives_no_figure() -> None:
    with server({}) as url, pytest.raises(StackError, match="no row of odd view was answered") as caught:
        reads.run(url, ["1"], MACHINE, PLAN)
    assert caught.value.detail == "50 times 500"


def test_nobody_there() -> None:
    with pytest.raises(StackError, match="the API does not answer"):
        reads.run("http://127.0.0.1:9", ["1"], MACHINE, PLAN)

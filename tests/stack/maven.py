"""A Maven repository on loopback that can misbehave: cut connections, ignore Range, be out of order for a while."""

from __future__ import annotations

import hashlib
import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from headwater.stack.artifacts import Artifact, Bundle


@dataclass
class Repository:
    """The files it has, how it behaves, and what it was asked."""

    files: dict[str, bytes] = field(default_factory=dict)
    cuts: list[int] = field(default_factory=list)
    """The next answers end after so many bytes of their body."""
    refusals: list[int] = field(default_factory=list)
    """The next answers have these status codes."""
    ranges: bool = True
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    """(path, Range) of each request."""
    url: str = ""

    def artifact(self, path: str, content: bytes) -> Artifact:
        self.files[path] = content
        return Artifact(path, hashlib.sha256(content).hexdigest(), len(content))


def redis_bundle(repository: Repository, binary: bytes = b"not really a server") -> Bundle:
    """A bundle that the unpacker of Redis takes: the smallest of them."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as jar:
        for system in ("linux", "darwin"):
            for machine in ("amd64", "arm64"):
                jar.writestr(f"redis-server-6.2.11-{system}-{machine}", binary)
    return Bundle("redis", "1.0", (repository.artifact("com/example/redis/1.0/redis-1.0.jar", packed.getvalue()),))


def jars_bundle(repository: Repository, *contents: bytes) -> Bundle:
    """A bundle whose files are only copied."""
    files = (repository.artifact(f"org/example/jar{n}/1/jar{n}-1.jar", content) for n, content in enumerate(contents))
    return Bundle("kafka", "1.0", tuple(files))


@contextmanager
def serving(repository: Repository) -> Iterator[Repository]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            wanted = self.headers.get("Range")
            repository.asked.append((self.path.lstrip("/"), wanted))
            content = repository.files.get(self.path.lstrip("/"))
            code = repository.refusals.pop(0) if repository.refusals else 200 if content is not None else 404
            if code != 200 or content is None:
                self.send_error(code)
                return
            start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted and repository.ranges else 0
            body = content[start:]
            self.send_response(206 if start else 200)
            self.send_header("Content-Length", str(len(body)))
            if start:
                self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
            self.end_headers()
            self.wfile.write(body[: repository.cuts.pop(0)] if repository.cuts else body)

        def log_message(self, format: str, *args: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    repository.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield repository
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

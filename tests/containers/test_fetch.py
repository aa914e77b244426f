"""`headwater fetch`: what the image of Kafka Connect is built with."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import typer

from cdc.errors import ConfigurationError, StackError
from headwater.cli import fetch
from headwater.stack import artifacts

PLUGIN = "plugin/connector.jar"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Nothing on the tests' output."""


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A repository with one plugin in it, the only one that is locked; and a cache of its own."""
    folder = tmp_path / "repository"
    folder.mkdir()
    handler = partial(_Quiet, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.chdir(tmp_path)
        monkeypatch.setenv("HEADWATER_STACK__REPOSITORY", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("HEADWATER_STACK__CACHE_FOLDER", str(tmp_path / "cache"))
        content = tarball({PLUGIN: b"a jar"})
        (folder / "plugin.tar.gz").write_bytes(content)
        locked = artifacts.Artifact("plugin.tar.gz", hashlib.sha256(content).hexdigest(), len(content))
        monkeypatch.setattr(artifacts, "bundle", lambda name: artifacts.Bundle(name, "7.0", (locked,)))
        yield folder
        server.shutdown()


def tarball(files: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        for name, content in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return out.getvalue()


def run(*words: str) -> None:
    app = typer.Typer()
    app.callback()(lambda: None)
    fetch.register(app)
    app(args=["fetch", *words], standalone_mode=False)


@pytest.mark.usefixtures("repository")
def test_into_a_folder(tmp_path: Path) -> None:
    run("debezium", "--to", str(tmp_path / "plugins"))
    assert (tmp_path / "plugins" / PLUGIN).read_bytes() == b"a jar"


@pytest.mark.usefixtures("repository")
def test_into_the_cache(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run("debezium", "--json")
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["name"], told["version"]) == ("debezium", "7.0")
    assert Path(told["folder"]).is_relative_to(tmp_path / "cache")
    assert (Path(told["folder"]) / PLUGIN).exists()


def test_a_file_that_is_not_the_locked_one_is_refused(repository: Path, tmp_path: Path) -> None:
    content = bytearray((repository / "plugin.tar.gz").read_bytes())
    content[-1] ^= 1
    (repository / "plugin.tar.gz").write_bytes(content)
    with pytest.raises(StackError, match="not the file that was locked"):
        run("debezium", "--to", str(tmp_path / "plugins"))
    assert not (tmp_path / "plugins").exists()


@pytest.mark.usefixtures("repository")
def test_what_the_caller_wrote_is_checked_before_anything_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    for words, fact in (
        (["debezum"], "no server 'debezum'"),
        (["debezium", "redis", "--to", "new"], "takes one server"),
        (["debezium", "--to", "full"], "is there already"),
    ):
        with pytest.raises(ConfigurationError, match=fact):
            run(*words)
    assert not (tmp_path / "cache").exists()

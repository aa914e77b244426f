"""The artifact cache against a repository on loopback that cuts, refuses and lies."""

from __future__ import annotations

import shutil
import stat
import subprocess
import sys
from collections import namedtuple
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cdc.errors import StackError
from headwater.stack import cache as cache_module
from headwater.stack import unpack as unpack_module
from headwater.stack.artifacts import Bundle, bundle, versions
from headwater.stack.cache import Cache
from headwater.stack.servers import SERVERS
from tests.stack.maven import Repository, jars_bundle, redis_bundle, serving

LARGE = bytes(range(256)) * 4_000
"""More than a few chunks and socket buffers."""


@pytest.fixture
def repository() -> Iterator[Repository]:
    with serving(Repository()) as running:
        yield running


@pytest.fixture
def cache(tmp_path: Path, repository: Repository) -> Cache:
    return Cache(tmp_path / "cache", repository.url)


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "BACKOFF_S", 0.0)
    monkeypatch.setattr(cache_module, "CHUNK_BYTES", 4_096)


def parts(cache: Cache) -> list[Path]:
    return sorted((cache.folder / "files").glob("*.part"))


def test_a_bundle_is_fetched_checked_and_unpacked_with_progress(cache: Cache, repository: Repository) -> None:
    wanted = jars_bundle(repository, LARGE, b"small")
    assert cache.missing_bytes(wanted) == len(LARGE) + 5
    arrived: list[int] = []
    folder = cache.ensure(wanted, arrived.append)
    assert (folder / "jar0-1.jar").read_bytes() == LARGE
    assert (folder / "jar1-1.jar").read_bytes() == b"small"
    assert sum(arrived) == len(LARGE) + 5
    assert len([size for size in arrived if size]) > 2, "a bar that moves once is no bar"
    assert cache.missing_bytes(wanted) == 0
    assert list((cache.folder / "files").iterdir()) == [], "unpacked files need not be kept"


def test_once_cached_nothing_is_asked_of_the_network(tmp_path: Path) -> None:
    with serving(Repository()) as repository:
        wanted = redis_bundle(repository)
        cache = Cache(tmp_path / "cache", repository.url)
        folder = cache.ensure(wanted)
        asked = len(repository.asked)
    assert cache.ensure(wanted) == folder  # the repository is gone
    assert len(repository.asked) == asked == 1


def test_a_cut_download_goes_on_where_it_stopped(cache: Cache, repository: Repository) -> None:
    wanted = jars_bundle(repository, LARGE)
    repository.cuts = [300_000, 200_000]
    arrived: list[int] = []
    folder = cache.ensure(wanted, arrived.append)
    assert (folder / "jar0-1.jar").read_bytes() == LARGE
    ranges = [asked for _, asked in repository.asked]
    assert ranges[0] is None
    assert len(ranges) == 3
    starts = [int(asked.removeprefix("bytes=").rstrip("-")) for asked in ranges[1:] if asked]
    assert 0 < starts[0] <= 300_000
    assert starts[0] < starts[1] <= 500_000
    assert sum(arrived) == len(LARGE)


def test_another_run_goes_on_too_and_its_bar_reaches_the_end(
    cache: Cache, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = jars_bundle(repository, LARGE)
    monkeypatch.setattr(cache_module, "ATTEMPTS_MAX", 1)
    repository.cuts = [300_000]
    with pytest.raises(StackError, match=r"could not fetch jar0-1\.jar") as raised:
        cache.ensure(wanted)
    assert "it goes on where it stopped" in raised.value.hint
    kept = parts(cache)[0].stat().st_size
    assert kept > 0
    arrived: list[int] = []
    cache.ensure(wanted, arrived.append)
    assert repository.asked[-1][1] == f"bytes={kept}-"
    assert sum(arrived) == len(LARGE) == cache.missing_bytes(wanted) + len(LARGE)


def test_a_server_that_ignores_range_is_read_from_the_beginning(cache: Cache, repository: Repository) -> None:
    wanted = jars_bundle(repository, LARGE)
    repository.ranges, repository.cuts = False, [300_000]
    arrived: list[int] = []
    folder = cache.ensure(wanted, arrived.append)
    assert (folder / "jar0-1.jar").read_bytes() == LARGE
    assert sum(arrived) == len(LARGE)


def test_a_file_that_is_not_the_locked_one_is_thrown_away(cache: Cache, repository: Repository) -> None:
    wanted = jars_bundle(repository, LARGE)
    repository.files[wanted.artifacts[0].path] = b"x" * len(LARGE)
    with pytest.raises(StackError, match="is not the file that was locked") as raised:
        cache.ensure(wanted)
    assert wanted.artifacts[0].sha256 in raised.value.detail
    assert not cache.has(wanted)
    assert list((cache.folder / "files").iterdir()) == []
    repository.files[wanted.artifacts[0].path] = LARGE
    assert cache.ensure(wanted).is_dir(), "the next run starts afresh"


def test_a_file_without_an_end_is_not_read_to_its_end(cache: Cache, repository: Repository) -> None:
    wanted = jars_bundle(repository, b"short")
    repository.files[wanted.artifacts[0].path] = LARGE * 4
    arrived: list[int] = []
    with pytest.raises(StackError, match="is not the file that was locked"):
        cache.ensure(wanted, arrived.append)
    assert sum(arrived) <= 2 * cache_module.CHUNK_BYTES


@pytest.mark.parametrize(("code", "requests"), [(404, 1), (403, 1), (429, 2), (503, 2)])
def test_what_may_pass_is_tried_again_and_what_will_not_is_told(
    cache: Cache, repository: Repository, code: int, requests: int
) -> None:
    wanted = redis_bundle(repository)
    repository.refusals = [code]
    if requests > 1:
        cache.ensure(wanted)
    else:
        with pytest.raises(StackError, match=r"could not fetch redis-1\.0\.jar") as raised:
            cache.ensure(wanted)
        assert str(code) in raised.value.detail
        assert "stack.repository" in raised.value.hint
    assert len(repository.asked) == requests


def test_a_repository_that_is_not_there_is_given_up_on(tmp_path: Path, repository: Repository) -> None:
    wanted = redis_bundle(repository)
    with pytest.raises(StackError, match="could not fetch"):
        Cache(tmp_path, "http://127.0.0.1:1").ensure(wanted)


def test_no_room_is_told_before_anything_is_fetched(
    cache: Cache, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = jars_bundle(repository, LARGE)
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(1 << 30, 1 << 30, 3 * len(LARGE)))
    with pytest.raises(StackError, match="no room for kafka") as raised:
        cache.ensure(wanted)
    assert str(cache.folder) in raised.value.detail
    assert "stack.cache_folder" in raised.value.hint
    assert repository.asked == []


def test_two_processes_at_once_fetch_it_once(cache: Cache, repository: Repository) -> None:
    wanted = redis_bundle(repository, LARGE)
    program = (
        "import sys; from pathlib import Path;"
        "from headwater.stack.artifacts import Artifact, Bundle; from headwater.stack.cache import Cache;"
        "folder, url, path, sha, size = sys.argv[1:];"
        "bundle = Bundle('redis', '1.0', (Artifact(path, sha, int(size)),));"
        "print(Cache(Path(folder), url).ensure(bundle))"
    )
    one = wanted.artifacts[0]
    words = [str(cache.folder), repository.url, one.path, one.sha256, str(one.size_bytes)]
    both = [
        subprocess.Popen([sys.executable, "-c", program, *words], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    told = {process.communicate(timeout=60)[0].strip() for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert told == {str(cache.unpacked(wanted))}
    assert len(repository.asked) == 1


def test_a_server_that_could_not_be_unpacked_is_not_there(
    cache: Cache, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = redis_bundle(repository)

    def torn(files: object, folder: Path) -> None:
        (folder / "redis-server").write_bytes(b"half")
        raise OSError("the disk went away")

    with monkeypatch.context() as patched:
        patched.setitem(unpack_module._UNPACKERS, "redis", torn)
        with pytest.raises(OSError, match="the disk went away"):
            cache.ensure(wanted)
    assert not cache.has(wanted)
    assert list((cache.folder / "servers").iterdir()) == []
    assert (cache.ensure(wanted) / "redis-server").read_bytes() == b"not really a server"
    assert len(repository.asked) == 1, "what was fetched is still good"


def test_what_a_killed_unpacking_left_behind_is_in_nobodys_way(cache: Cache, repository: Repository) -> None:
    wanted = redis_bundle(repository)
    leftover = cache.unpacked(wanted).with_name(f"{cache.unpacked(wanted).name}.tmp")
    leftover.mkdir(parents=True)
    (leftover / "rubbish").write_text("x")
    folder = cache.ensure(wanted)
    assert [file.name for file in folder.iterdir()] == ["redis-server"]
    assert not leftover.exists()


def test_other_accounts_may_read_it_whatever_our_umask(tmp_path: Path, repository: Repository) -> None:
    wanted = redis_bundle(repository)
    program = (
        "import os, sys; os.umask(0o077); from pathlib import Path;"
        "from headwater.stack.artifacts import Artifact, Bundle; from headwater.stack.cache import Cache;"
        "bundle = Bundle('redis', '1.0', (Artifact(sys.argv[3], sys.argv[4], int(sys.argv[5])),));"
        "print(Cache(Path(sys.argv[1]), sys.argv[2]).ensure(bundle))"
    )
    one = wanted.artifacts[0]
    words = [str(tmp_path / "cache"), repository.url, one.path, one.sha256, str(one.size_bytes)]
    told = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=True)
    binary = Path(told.stdout.strip(), "redis-server")
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (binary, *binary.parents)]
    assert modes[:4] == [0o755] * 4  # the binary, its server, servers/, the cache


def test_a_changed_file_is_another_bundle(repository: Repository) -> None:
    one = jars_bundle(repository, b"one")
    other = replace(one, artifacts=(replace(one.artifacts[0], sha256="0" * 64),))
    assert Cache(Path("/c")).unpacked(one) != Cache(Path("/c")).unpacked(other)


@pytest.mark.parametrize("server", sorted({name for server in SERVERS for name in server.bundles}))
def test_every_server_is_locked_by_content(server: str) -> None:
    locked: Bundle = bundle(server)
    assert locked.version == versions()[server]
    assert locked.artifacts
    for artifact in locked.artifacts:
        assert len(artifact.sha256) == 64
        assert artifact.size_bytes > 0
        assert not artifact.path.startswith(("http", "/")), "a path inside whatever repository is configured"

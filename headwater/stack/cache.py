"""The artifact cache, shared by all checkouts of a user: fetched once, checked by SHA-256, then offline.

A download that was cut off goes on where it stopped. Two processes may fetch at the same time: one waits for the other.
An unpacked server appears under its final name only when it is whole.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import platformdirs

from cdc.errors import StackError
from headwater.stack.artifacts import Artifact, Bundle
from headwater.stack.unpack import unpack

ATTEMPTS_MAX: Final = 5
BACKOFF_S: Final = 1.0
CHUNK_BYTES: Final = 1 << 18
TIMEOUT_S: Final = 60.0
ROOM_FACTOR: Final = 4
"""Room for the files and for the server unpacked from them, as a multiple of the files."""
_TRY_AGAIN: Final = (httpx.codes.REQUEST_TIMEOUT, httpx.codes.TOO_MANY_REQUESTS)

Progress = Callable[[int], None]
"""Called with the number of bytes that have just arrived; with a negative one when bytes had to be thrown away."""


def default_folder() -> Path:
    """Per user; for root a system-wide one, since the unprivileged accounts of the servers cannot enter root's home."""
    if os.geteuid() == 0:
        return Path(platformdirs.site_cache_dir("headwater"))
    return Path(platformdirs.user_cache_dir("headwater"))


def default_repository() -> str:
    """The repository that Maven clients use when nothing else is configured."""
    from jgo.maven import MavenContext

    return str(next(iter(MavenContext().remote_repos.values())))


@dataclass(frozen=True, slots=True)
class Cache:
    folder: Path
    repository: str = ""

    def unpacked(self, bundle: Bundle) -> Path:
        return self.folder / "servers" / f"{bundle.server}-{bundle.version}-{bundle.digest}"

    def has(self, bundle: Bundle) -> bool:
        return self.unpacked(bundle).is_dir()

    def missing_bytes(self, bundle: Bundle) -> int:
        """How much a fetch of the bundle would have to download."""
        if self.has(bundle):
            return 0
        return sum(a.size_bytes for a in bundle.artifacts if not self._file(a).exists())

    def ensure(self, bundle: Bundle, progress: Progress = lambda _: None) -> Path:
        """The folder of the unpacked server, fetched and unpacked first where needed."""
        target = self.unpacked(bundle)
        if target.is_dir():
            return target
        with self._locked(bundle.server):
            if not target.is_dir():
                self._check_room(bundle)
                _make(target.parent)
                files = [self._fetch(artifact, progress) for artifact in bundle.artifacts]
                unpack(bundle.server, files, target)
                for file in files:
                    file.unlink(missing_ok=True)
        return target

    def _file(self, artifact: Artifact) -> Path:
        return self.folder / "files" / f"{artifact.sha256[:16]}-{artifact.filename}"

    def _check_room(self, bundle: Bundle) -> None:
        needed = ROOM_FACTOR * bundle.size_bytes
        free = shutil.disk_usage(self.folder).free
        if free < needed:
            raise StackError(
                f"no room for {bundle.server} in the artifact cache",
                detail=f"{self.folder} has {free >> 20} MB free, {needed >> 20} MB are needed to fetch and unpack it",
                hint="free some disk, or set stack.cache_folder to a larger one",
            )

    def _fetch(self, artifact: Artifact, progress: Progress) -> Path:
        file = self._file(artifact)
        if file.exists():
            return file
        part = file.with_suffix(file.suffix + ".part")
        _make(part.parent)
        base = (self.repository or default_repository()).rstrip("/")
        progress(_size(part))
        _download(f"{base}/{artifact.path}", part, artifact, progress)
        _check(part, artifact)
        part.replace(file)
        return file

    @contextmanager
    def _locked(self, name: str) -> Iterator[None]:
        _make(self.folder)
        with (self.folder / f"{name}.lock").open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


def _download(url: str, part: Path, artifact: Artifact, progress: Progress) -> None:
    failure = ""
    for attempt in range(ATTEMPTS_MAX):
        if attempt:
            time.sleep(BACKOFF_S * 2 ** (attempt - 1))
        try:
            _download_rest(url, part, artifact, progress)
        except httpx.HTTPStatusError as error:
            failure = f"the repository answered {error.response.status_code}"
            if error.response.status_code < 500 and error.response.status_code not in _TRY_AGAIN:
                break
        except (httpx.HTTPError, OSError) as error:
            failure = str(error) or type(error).__name__
        else:
            return
    raise StackError(
        f"could not fetch {artifact.filename}",
        detail=failure,
        hint="check the network or a proxy (HTTPS_PROXY), or name a mirror in stack.repository; then run it again, "
        "it goes on where it stopped",
    )


def _download_rest(url: str, part: Path, artifact: Artifact, progress: Progress) -> None:
    have = _size(part)
    if have >= artifact.size_bytes:
        return
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with httpx.stream("GET", url, headers=headers, timeout=TIMEOUT_S, follow_redirects=True) as answer:
        answer.raise_for_status()
        resumed = answer.status_code == httpx.codes.PARTIAL_CONTENT
        if not resumed:  # the server sends it from the beginning
            progress(-have)
        with part.open("ab" if resumed else "wb") as out:
            for chunk in answer.iter_bytes(CHUNK_BYTES):
                out.write(chunk)
                progress(len(chunk))
                if out.tell() > artifact.size_bytes:  # something else, and perhaps without an end
                    return
    if _size(part) < artifact.size_bytes:
        raise OSError(f"the connection closed after {_size(part)} of {artifact.size_bytes} bytes")


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


def _make(folder: Path) -> None:
    """Open to the accounts of the servers, whatever our umask."""
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)


def _check(part: Path, artifact: Artifact) -> None:
    with part.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    if digest != artifact.sha256:
        part.unlink()
        raise StackError(
            f"{artifact.filename} is not the file that was locked",
            detail=f"SHA-256 is {digest}, expected {artifact.sha256}; the file was thrown away",
            hint="run it again; if it repeats, the repository or a proxy on the way serves something else",
        )

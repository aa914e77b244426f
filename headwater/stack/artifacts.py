"""What the embedded servers are made of: the locked files, by server and platform. cache.py fetches them."""

from __future__ import annotations

import hashlib
import platform
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Final

import msgspec

from cdc.errors import StackError

_ARCHITECTURES: Final = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64v8", "arm64": "arm64v8"}
_SYSTEMS: Final = {"Linux": "linux", "Darwin": "darwin"}


@dataclass(frozen=True, slots=True)
class Artifact:
    """One file of a Maven repository, known by its content."""

    path: str
    sha256: str
    size_bytes: int

    @property
    def filename(self) -> str:
        return self.path.rsplit("/", 1)[-1]


@dataclass(frozen=True, slots=True)
class Bundle:
    """All files of one server for this platform."""

    server: str
    version: str
    artifacts: tuple[Artifact, ...]

    @property
    def size_bytes(self) -> int:
        return sum(a.size_bytes for a in self.artifacts)

    @property
    def digest(self) -> str:
        """Changes whenever any file of the bundle does, so an unpacked folder named by it is never stale."""
        return hashlib.sha256("".join(a.sha256 for a in self.artifacts).encode()).hexdigest()[:16]


class _Lock(msgspec.Struct):
    versions: dict[str, str]
    files: dict[str, list[Artifact]]


@cache
def _lock() -> _Lock:
    text = resources.files("headwater.stack").joinpath("artifacts.lock").read_bytes()
    return msgspec.json.decode(text, type=_Lock)


def versions() -> dict[str, str]:
    """The pinned version of each server."""
    return dict(_lock().versions)


def platform_name() -> str:
    """Such as linux-amd64. Refuses a platform for which no server binaries are published."""
    system, machine = platform.system(), platform.machine().lower()
    if system not in _SYSTEMS or machine not in _ARCHITECTURES:
        raise StackError(
            f"the embedded stack does not run on {system} {machine}",
            detail="server binaries exist for Linux and macOS on amd64 and arm64",
            hint="point headwater.toml at servers of your own, or use compose.yaml",
        )
    return f"{_SYSTEMS[system]}-{_ARCHITECTURES[machine]}"


def bundle(server: str) -> Bundle:
    files = _lock().files
    key = server if server in files else f"{server}-{platform_name()}"
    return Bundle(server, _lock().versions[server], tuple(files[key]))

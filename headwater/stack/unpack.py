"""Turns the fetched files of a server into its folder, which appears under its name only when it is whole."""

from __future__ import annotations

import io
import lzma
import shutil
import stat
import tarfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from cdc.errors import StackError
from headwater.stack.artifacts import platform_name


def _jars(files: Sequence[Path], folder: Path) -> None:
    for file in files:
        shutil.copy(file, folder / file.name.split("-", 1)[1])


def _tarball(files: Sequence[Path], folder: Path) -> None:
    for file in files:
        with tarfile.open(file) as archive:
            archive.extractall(folder, filter="tar")


def _elasticsearch(files: Sequence[Path], folder: Path) -> None:
    """A zip with one top folder; the executable bits are in the zip's attributes, which zipfile ignores."""
    with zipfile.ZipFile(files[0]) as archive:
        for member in archive.infolist():
            relative = member.filename.split("/", 1)[1]
            if not relative or member.is_dir():
                continue
            target = folder / relative
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(archive.read(member))
            mode = member.external_attr >> 16
            target.chmod(0o755 if mode & stat.S_IXUSR or relative.startswith("bin/") else 0o644)


def _postgres(files: Sequence[Path], folder: Path) -> None:
    """A jar around one .txz of the installation."""
    with zipfile.ZipFile(files[0]) as jar:
        inner = next(n for n in jar.namelist() if n.endswith(".txz"))
        with tarfile.open(fileobj=io.BytesIO(lzma.decompress(jar.read(inner)))) as archive:
            archive.extractall(folder, filter="tar")


def _redis(files: Sequence[Path], folder: Path) -> None:
    """A jar with one server binary a platform."""
    wanted = platform_name().replace("arm64v8", "arm64")
    with zipfile.ZipFile(files[0]) as jar:
        names = [n for n in jar.namelist() if n.startswith("redis-server") and n.endswith(wanted)]
        if not names:
            raise StackError(
                f"no Redis binary for {wanted}", hint="set redis.url in headwater.toml to a server of your own"
            )
        target = folder / "redis-server"
        target.write_bytes(jar.read(names[0]))
        target.chmod(0o755)


_UNPACKERS: Final[dict[str, Callable[[Sequence[Path], Path], None]]] = {
    "kafka": _jars,
    "lucene-monitor": _jars,
    "debezium": _tarball,
    "elasticsearch": _elasticsearch,
    "postgres": _postgres,
    "redis": _redis,
}


def unpack(server: str, files: Sequence[Path], target: Path) -> None:
    """Whoever calls this holds the cache's lock: what another left half-done under the working name is thrown away."""
    working = target.with_name(f"{target.name}.tmp")
    shutil.rmtree(working, ignore_errors=True)
    working.mkdir(parents=True)
    try:
        _UNPACKERS[server](files, working)
        _open_to_all(working)
        working.replace(target)
    finally:
        shutil.rmtree(working, ignore_errors=True)


def _open_to_all(folder: Path) -> None:
    """As root the servers run under another account, which must read them whatever our umask."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & stat.S_IXUSR else 0o644)

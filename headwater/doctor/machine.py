"""Checks of this machine: Python, packages, Java, cores, memory, disk, ports, the servers' account, named files."""

from __future__ import annotations

import os
import shutil
import socket
import sys
from importlib import metadata
from pathlib import Path
from typing import Final

from cdc.findings import Finding
from headwater.settings import Settings
from headwater.settings.fields import fields
from headwater.units import bytes_text

PYTHON_MIN: Final = (3, 11)
CPUS_MIN: Final = 2
DATA_FREE_MIN_BYTES: Final = 500 * 10**6
DATA_FREE_GOOD_BYTES: Final = 3 * 10**9
CACHE_FREE_GOOD_BYTES: Final = 10**9
BESIDE_HEAP: Final = 1.4
"""What a JVM takes in all, as a multiple of its heap."""
NATIVE_BYTES: Final = 300 * 10**6
"""Postgres and Redis together, at rest."""
_CGROUP_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")
_CGROUP_USED: Final = Path("/sys/fs/cgroup/memory.current")


def python(_: Settings) -> list[Finding]:
    return [judge_python(sys.version_info[:3])]


def judge_python(version: tuple[int, ...]) -> Finding:
    text = ".".join(str(part) for part in version)
    if version[:2] < PYTHON_MIN:
        return Finding("fail", "python", f"{text} is too old", "install Python 3.11 or later")
    return Finding("ok", "python", text, "")


def packages(_: Settings) -> list[Finding]:
    """The installed packages against what the distribution asks for."""
    wrong = [told for line in metadata.requires("headwater") or [] if (told := wrong_package(line))]
    if wrong:
        return [Finding("fail", "packages", "; ".join(wrong), "make install puts the locked versions in place")]
    named = ", ".join(f"{name} {metadata.version(name)}" for name in ("pyspark", "confluent-kafka", "psycopg"))
    return [Finding("ok", "packages", named, "")]


def wrong_package(requirement: str) -> str:
    """What is wrong with one requirement here; empty when it is met, or not meant for a plain installation."""
    from packaging.requirements import Requirement

    wanted = Requirement(requirement)
    if wanted.marker is not None and not wanted.marker.evaluate({"extra": ""}):
        return ""
    try:
        found = metadata.version(wanted.name)
    except metadata.PackageNotFoundError:
        return f"{wanted.name} is not installed"
    return (
        ""
        if wanted.specifier.contains(found, prereleases=True)
        else f"{wanted.name} is {found}, not {wanted.specifier}"
    )


def java(settings: Settings) -> list[Finding]:
    """Spark needs it even when no server is embedded."""
    from headwater.stack.java import find

    found = find(settings.stack.java)
    return [Finding("ok", "java", f"{found.version} at {found.binary}", "")]


def cpus(_: Settings) -> list[Finding]:
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if count < CPUS_MIN:
        return [Finding("warn", "cpus", f"{count}, at least {CPUS_MIN} are advised", "expect slow starts and more lag")]
    return [Finding("ok", "cpus", str(count), "")]


def memory(settings: Settings) -> list[Finding]:
    import psutil

    available = psutil.virtual_memory().available
    limit = _cgroup_available()
    return [judge_memory(min(available, limit) if limit is not None else available, needed_bytes(settings))]


def _cgroup_available() -> int | None:
    """What the container may still use; None without a limit."""
    if not _CGROUP_LIMIT.exists() or not _CGROUP_USED.exists():
        return None
    limit = _CGROUP_LIMIT.read_text().strip()
    return int(limit) - int(_CGROUP_USED.read_text()) if limit.isdigit() else None


def needed_bytes(settings: Settings) -> int:
    """About what the embedded servers and the Spark driver take."""
    stack, heap_mb = settings.stack, settings.spark.driver_memory_mb
    embedded = (
        (settings.kafka.embedded, stack.kafka_heap_mb),
        (settings.connect.embedded, stack.connect_heap_mb),
        (settings.elasticsearch.embedded, stack.elasticsearch_heap_mb),
    )
    heap_mb += sum(size for here, size in embedded if here)
    return int(heap_mb * 2**20 * BESIDE_HEAP) + NATIVE_BYTES


def judge_memory(available: int, needed: int) -> Finding:
    detail = f"{bytes_text(available)} available, about {bytes_text(needed)} needed to start everything"
    hint = "stop other programs, or lower stack.*_heap_mb and spark.driver_memory_mb"
    if available < needed / 2:
        return Finding("fail", "memory", detail, hint)
    return Finding("warn" if available < needed else "ok", "memory", detail, hint)


def disk(settings: Settings) -> list[Finding]:
    from headwater.stack.cache import default_folder

    cache = Path(settings.stack.cache_folder) if settings.stack.cache_folder else default_folder()
    return [
        judge_disk("data folder", settings.data_folder, free_bytes(settings.data_folder), DATA_FREE_GOOD_BYTES),
        judge_disk("artifact cache", cache, free_bytes(cache), CACHE_FREE_GOOD_BYTES),
    ]


def free_bytes(folder: Path) -> int:
    """Free space where the folder is or will be."""
    nearest = next(path for path in (folder.absolute(), *folder.absolute().parents) if path.exists())
    return shutil.disk_usage(nearest).free


def judge_disk(name: str, folder: Path, free: int, good: int) -> Finding:
    detail = f"{bytes_text(free)} free at {folder}"
    hint = f"free some disk: {bytes_text(good)} are advised; or set data_folder or stack.cache_folder to a larger one"
    if free < DATA_FREE_MIN_BYTES:
        return Finding("fail", name, detail, hint)
    return Finding("warn" if free < good else "ok", name, detail, hint)


def http_port(settings: Settings) -> list[Finding]:
    """The embedded servers take any free port; only this one is chosen by a person."""
    host, port = settings.http.host, settings.http.port
    try:
        with socket.create_server((host, port)):
            pass
    except OSError as error:
        hint = "headwater status tells whether it is Headwater itself; else set http.port to a free one"
        return [Finding("warn", "http port", f"{host}:{port} cannot be listened on: {error.strerror or error}", hint)]
    return [Finding("ok", "http port", f"{host}:{port} is free", "")]


def account(settings: Settings) -> list[Finding]:
    """Who the embedded servers run as."""
    from headwater.stack.account import unprivileged

    if not (settings.postgres.embedded or settings.elasticsearch.embedded):
        return []
    return [
        Finding("ok", "account", f"Postgres and Elasticsearch run as {unprivileged(settings.stack.account).name}", "")
    ]


def files(settings: Settings) -> list[Finding]:
    """Certificates and keys that the settings name can be read. (stack.java has its own check.)"""
    unreadable = [(name, path) for name, path in _named_files(settings) if not os.access(path, os.R_OK)]
    return [
        Finding(
            "fail", "files", f"{name}: {path} cannot be read", f"ls -l {path} shows whether it is there, and for whom"
        )
        for name, path in unreadable
    ]


def _named_files(settings: Settings) -> list[tuple[str, str]]:
    named: list[tuple[str, str]] = []
    for field in fields().values():
        if field.is_path and field.section not in ("", "stack"):
            value = getattr(getattr(settings, field.section), field.name.rpartition(".")[2])
            named += [(field.name, value)] if value and Path(value).is_absolute() else []
    return named

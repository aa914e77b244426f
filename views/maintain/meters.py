"""What epochs take, for people and Prometheus: counters since the start, and the last minutes in percentiles."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from views.maintain.registry import Epochs
from views.maintain.runner import Measured

KEPT: Final = 600
RATE_S: Final = 10.0
MEMORY_S: Final = 3.0
_KINDS: Final = {"java": "jvm", "python": "workers"}
"""By the beginning of a process' name. What else a process has under it, such as servers, is not of the views."""
_PAGE_MB: Final = os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class Meters:
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last: deque[tuple[float, Measured]] = deque(maxlen=KEPT)
        self._came: deque[tuple[float, int]] = deque(maxlen=KEPT)
        """When the log was first seen to end there."""
        self._count = self._records = self._changes = 0
        self._looked_at, self._memory_mb = float("-inf"), dict[str, float]()

    def add(self, measured: Measured) -> None:
        with self._lock:
            self._last.append((time.monotonic(), measured))
            self._count += 1
            self._records += measured.records
            self._changes += measured.changes

    @property
    def records_per_s(self) -> float:
        since = time.monotonic() - RATE_S
        with self._lock:
            return sum(m.records for at, m in self._last if at >= since) / RATE_S

    def summary(self, spark_ms: dict[str, float]) -> Epochs:
        rate = self.records_per_s
        with self._lock:
            behind = sorted(m.behind_ms for _, m in self._last if m.behind_ms is not None and m.changes)
            jobs = sorted(m.job_ms for _, m in self._last)
            publishing = sorted(m.publish_ms for _, m in self._last)
            return Epochs(
                self._count,
                self._records,
                self._changes,
                rate,
                _at(jobs, 0.5),
                _at(publishing, 0.5),
                _at(behind, 0.5),
                _at(behind, 0.99),
                spark_ms,
            )

    def lately_behind_ms(self, lately_s: float) -> float:
        """How far behind the log what was published in the last seconds was, at worst but one in ten."""
        since = time.monotonic() - lately_s
        with self._lock:
            return _at(sorted(m.behind_ms for at, m in self._last if at >= since and m.behind_ms is not None), 0.9)

    def came(self, end: int) -> None:
        """The log ends there now."""
        with self._lock:
            if not self._came or end > self._came[-1][1]:
                self._came.append((time.monotonic(), end))
            elif end < self._came[-1][1]:
                self._came.clear()  # another topic

    def waiting_ms(self, offsets: Iterable[int]) -> float:
        """How long what is in the log has waited, at the least, for the last of those who have read up to there: who
        gets to nothing publishes nothing that could be late."""
        read_to = min(offsets, default=None)
        if read_to is None:
            return 0.0
        with self._lock:
            came_at = next((at for at, end in self._came if end > read_to), None)
        return 0.0 if came_at is None else (time.monotonic() - came_at) * 1000

    def memory_mb(self) -> dict[str, float]:
        """Resident, of this process, its JVM and the Python workers under that; looked at now and then."""
        if time.monotonic() - self._looked_at < MEMORY_S:
            return self._memory_mb
        self._looked_at = time.monotonic()
        found: dict[str, float] = {}
        for pid in _descendants(os.getpid()):
            kind = "driver" if pid == os.getpid() else _KINDS.get(_name(pid)[:6], "")
            if kind:
                found[kind] = found.get(kind, 0.0) + _resident_mb(pid)
        self._memory_mb = {kind: round(size, 1) for kind, size in found.items()}
        return self._memory_mb


def _at(values: list[float], share: float) -> float:
    return round(values[min(len(values) - 1, int(len(values) * share))], 1) if values else 0.0


def _descendants(root: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = entry.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(fields[1]), []).append(int(entry.parent.name))
    found, left = [], [root]
    while left:
        pid = left.pop()
        found.append(pid)
        left.extend(parents.get(pid, ()))
    return found


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except OSError:
        return ""


def _resident_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_MB
    except (OSError, IndexError):
        return 0.0

"""Rates and latencies as figures: pure arithmetic, the same for every bench."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from cdc.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Rate:
    """So many rows within so many seconds."""

    rows: int
    took_s: float

    @property
    def rows_per_s(self) -> float:
        return self.rows / self.took_s if self.took_s > 0 else 0.0


@dataclass(frozen=True, slots=True)
class Latencies:
    """The shape of many single measurements, in milliseconds."""

    samples: int
    min_ms: float
    p50_ms: float
    p90_ms: float
    p99_ms: float
    max_ms: float

    @classmethod
    def of(cls, samples_ms: Sequence[float]) -> Latencies:
        ordered = sorted(samples_ms)
        p50, p90, p99 = (percentile(ordered, share) for share in (50, 90, 99))
        return cls(len(ordered), ordered[0], p50, p90, p99, ordered[-1])


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest sample that at least `share` percent of the samples do not exceed (nearest rank): always a value
    that was measured, and with few samples the worst one rather than a guess between two."""
    if not ordered:
        raise ConfigurationError("no samples to take a percentile of", hint="headwater bench capture --commits 300")
    rank = math.ceil(len(ordered) * share / 100)
    return ordered[max(0, min(rank, len(ordered)) - 1)]


def median_rows_per_s(rates: Sequence[Rate]) -> float:
    return round(median(rate.rows_per_s for rate in rates), 1)

"""Lucene Monitor beside the matcher: the same subscriptions as its queries, tuned, in a JVM of its own.

What it is given to find candidates by: terms of cities, kinds, features and stems; cells of the map that a circle lies
in; bands of prices; products; each weighed by how rare it is. Several must be met at once (multipass presearcher).
Distance and price are then compared exactly, from doc values, by one cheap query. The harness is one Java file; it
tries rows by themselves and in batches, and warms up and measures all threads with what was best.
"""

from __future__ import annotations

import math
import shutil
import subprocess
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

import msgspec
import numpy as np
import numpy.typing as npt

from alerts.matcher.cells import SIZES_DEGREES, cell, covers
from alerts.matcher.literals import Within
from cdc.errors import StackError
from headwater.bench.alert_workload import LISTING, Workload
from headwater.stack import java
from headwater.stack.artifacts import Artifact, Bundle
from headwater.stack.cache import Cache, default_folder
from search.analysis import analyse
from search.index import IndexDefinition, decode_row
from search.query import And, AnyOf, Equals, Near, Not, Or, Query, Range, Text

VERSION: Final = "9.11.1"
"""The newest that runs on Java 17."""
THREADS: Final = 2
PASSES: Final = 3
SECONDS: Final = 10.0
"""Of warming up, and of measuring, at the least; batches are tried before."""
HEAP_MB: Final = 14_000
TIMEOUT_S: Final = 3_600
TUNING: Final = f"Lucene Monitor {VERSION}, {THREADS} threads, {PASSES} passes, cell and band terms, rarest terms first"
HARNESS: Final = Path(__file__).parents[2] / "tests" / "benchmarks" / "LuceneMonitorHarness.java"
BANDS: Final = 6
"""Levels of price bands: 64 of the finest."""
_BEDROOMS_MAX: Final = 6
_EVERYWHERE: Final = "0,0,-1"
_LOWEST, _HIGHEST = -(2**62), 2**62


_FILES: Final = (
    ("lucene-monitor", "7d5b948b1cf77c3f50ecbdaaa86047b2f68cf7b3e21e68e1eaab62e7b7c6a704", 137_206),
    ("lucene-core", "cb7a9b121bce4ce054ab690ab43ac13ee11ae516d6cef67650130066beee7c9b", 4_218_654),
    ("lucene-memory", "3ed0343383ae05a27adba87a841856a7c4ff230ae6d3c388d21e49e03c0524de", 58_068),
    ("lucene-analysis-common", "8dfda34e75bc53906a611bae1b5870b38fd5aa3779a390565da40aa71e98d5d9", 1_723_718),
)
JARS: Final = Bundle(
    "lucene-monitor",
    VERSION,
    tuple(Artifact(f"org/apache/lucene/{n}/{VERSION}/{n}-{VERSION}.jar", digest, size) for n, digest, size in _FILES),
)


class Failed(StackError):
    """It could not be run to its end: what was measured without it stands."""


@dataclass(frozen=True, slots=True)
class Ran:
    build_s: float
    events_per_s: float
    cpu_ms_per_event: float
    batch: int
    """What took the least processor time: on a busy machine it is distorted less than the rate."""
    tried: dict[int, float]
    """By batch, milliseconds of processor time for an event, in a shorter time."""
    rows: npt.NDArray[np.int32]
    """Twice the event's number, one more for the row after it. Each row once, however often it was matched."""
    subscriptions: npt.NDArray[np.int32]


class _Told(msgspec.Struct):
    """The harness' last line."""

    build_s: float
    rows_per_s: float
    cpu_ms_per_row: float
    batch: int
    tried: dict[int, float]


def why_not() -> str:
    """Why it cannot be run here; empty when it can."""
    if not HARNESS.exists():
        return "Lucene Monitor left out: its harness is in the repository only"
    binary = java.find().binary
    if not (binary.resolve().parent / "javac").exists() and not shutil.which("javac"):
        return "Lucene Monitor left out: it needs a JDK, and there is a JRE only"
    return ""


def run(workload: Workload, events: int, seconds: float = SECONDS, batches: Sequence[int] = ()) -> Ran:
    """On all events, again and again for so long; at the least on the first so many, which are told. Raises
    StackError."""
    written = of(workload)
    rows = [
        (2 * at + side, row)
        for at, change in enumerate(workload.changes)
        for side, row in enumerate(change)
        if row is not None
    ]
    with TemporaryDirectory(prefix="headwater-lucene-") as folder:
        written.weights(Path(folder, "weights"))
        _write(Path(folder, "subscriptions"), (written.subscription(e.id, e.query) for e in workload.entries))
        _write(Path(folder, "rows"), (f"{number}\t{written.row(row)}" for number, row in rows))
        told = _harness(folder, events, seconds, batches or written.batches)
        found = np.fromfile(Path(folder, "matches"), ">i4").astype(np.int32).reshape(-1, 2)
    rows_per_event = len(rows) / len(workload.changes)
    return Ran(
        told.build_s,
        told.rows_per_s / rows_per_event,
        told.cpu_ms_per_row * rows_per_event,
        told.batch,
        {batch: cpu_ms * rows_per_event for batch, cpu_ms in told.tried.items()},
        found[:, 0],
        found[:, 1],
    )


def _harness(folder: str, events: int, seconds: float, batches: Sequence[int]) -> _Told:
    jars = Cache(default_folder()).ensure(JARS)
    command = [
        str(java.find().binary), f"-Xmx{HEAP_MB}m", "-XX:+UseParallelGC", "-cp", f"{jars}/*", str(HARNESS),
        folder, str(THREADS), str(PASSES), ",".join(map(str, batches)), str(seconds),
        str(events),
    ]  # fmt: skip
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        raise Failed("Lucene Monitor's harness failed", detail=str(error.stderr or error)[-2000:]) from error
    return msgspec.json.decode(answer.stdout.splitlines()[-1], type=_Told)


def told_of(batch: int) -> str:
    return f"the rows of {batch:,} changes at once" if batch else "each row by itself"


def _write(file: Path, lines: Iterable[str]) -> None:
    with file.open("w") as out:
        out.writelines(f"{line}\n" for line in lines)


class Written(ABC):
    """Subscriptions and rows of a workload in the harness' form."""

    batches: ClassVar[tuple[int, ...]]
    """Changes whose rows are matched at once, to be tried; 0: each row by itself."""

    def __init__(self, definition: IndexDefinition, rows: Sequence[Any]) -> None:
        self._definition = definition
        self._counts = Counter(term for row in rows for term in self._terms(row))
        self._rows = len(rows)

    @abstractmethod
    def _terms(self, row: Any) -> list[str]: ...

    @abstractmethod
    def _place(self, row: Any) -> tuple[float, float]: ...

    @abstractmethod
    def subscription(self, id_: int, query: Query) -> str: ...

    def weights(self, file: Path) -> None:
        _write(file, (f"{term}\t{math.log((self._rows + 1) / count):.4f}" for term, count in self._counts.items()))

    def row(self, row: bytes) -> str:
        found = decode_row(self._definition, row)
        lat, lon = self._place(found)
        return f"{lat!r},{lon!r},{_cents(found['price'])}\t{' '.join(self._terms(found))}"


class MarketWritten(Written):
    batches = (0, 1, 2, 8, 32)

    def __init__(self, definition: IndexDefinition, rows: Sequence[Any]) -> None:
        prices = sorted(_cents(row["price"]) for row in rows)
        self._edges = sorted({prices[len(prices) * band >> BANDS] for band in range(1, 1 << BANDS)})
        super().__init__(definition, rows)

    def _place(self, row: Any) -> tuple[float, float]:
        return float(row["lat"]), float(row["lon"])

    def _terms(self, row: Any) -> list[str]:
        band = bisect_right(self._edges, _cents(row["price"]))
        lat, lon = self._place(row)
        texts = (row["title"], row["description"], row["city"], *row["features"])
        stems = {stem for text in texts for stem in analyse(text, self._definition.language).stems}
        return [
            f"kind:{row['kind']}",
            f"city:{row['city']}",
            f"bedrooms:{row['bedrooms']}",
            *(f"features:{feature}" for feature in row["features"]),
            *(f"stem:{stem}" for stem in sorted(stems)),
            *(f"cell:{level}_{cell(lat, lon, size)}" for level, size in enumerate(SIZES_DEGREES)),
            *(f"price:{level}_{band >> level}" for level in range(BANDS + 1)),
        ]

    def subscription(self, id_: int, query: Query) -> str:
        clauses = query.clauses if isinstance(query, And) else (query,)
        where = next((clause for clause in clauses if isinstance(clause, Or)), None)
        ways = where.clauses if where else (None,)
        others = [clause for clause in clauses if clause is not where]
        return "\t".join([str(id_), *(self._conjunction([*others, way] if way else others) for way in ways)])

    def _conjunction(self, clauses: Sequence[Query]) -> str:
        circle, low, high = _EVERYWHERE, _LOWEST, _HIGHEST
        made: list[str] = []
        for clause in clauses:
            if isinstance(clause, Near):
                circle = f"{clause.lat!r},{clause.lon!r},{clause.radius_m!r}"
                cover = covers(Within(False, clause.lat, clause.lon, clause.radius_m))[0]
                made.append("+cell:" + "|".join(f"{cover.level}_{number}" for number in cover.cells))
            elif isinstance(clause, Range) and clause.field == "price":
                low = _LOWEST if clause.low is None else _cents(clause.low)
                high = _HIGHEST if clause.high is None else _cents(clause.high)
                made.append("+price:" + "|".join(self._bands(low, high)))
            else:
                made.append(_literal(clause))
        return " ".join([*made, f"={circle},{low},{high}"])

    def _bands(self, low: int, high: int) -> Iterator[str]:
        """The fewest bands, of all levels, that hold the prices."""
        first, last = bisect_right(self._edges, low), bisect_right(self._edges, high)
        while first <= last:
            level = 0
            while level < BANDS and first & ((2 << level) - 1) == 0 and first + (2 << level) - 1 <= last:
                level += 1
            yield f"{level}_{first >> level}"
            first += 1 << level


class ShopWritten(Written):
    batches = (0, 1, 2, 8, 32, 128, 256)
    """Larger ones pay here, where a row has two terms."""

    def _place(self, row: Any) -> tuple[float, float]:
        return 0.0, 0.0

    def _terms(self, row: Any) -> list[str]:
        return [f"sku:{row['sku']}", "stock:" + ("some" if row["stock"] >= 1 else "none")]

    def subscription(self, id_: int, query: Query) -> str:
        made, high = [], _HIGHEST
        for clause in query.clauses if isinstance(query, And) else (query,):
            if isinstance(clause, Equals) and clause.field == "sku":
                made.append(f"+sku:{clause.value}")
            elif isinstance(clause, Range) and clause.field == "stock" and (clause.low, clause.high) == (1, None):
                made.append("+stock:some")
            elif isinstance(clause, Range) and clause.field == "price" and clause.low is None:
                high = _cents(clause.high)
            else:
                raise ValueError(f"{clause} is not of the shop")
        exact = [] if high == _HIGHEST else [f"={_EVERYWHERE},{_LOWEST},{high}"]
        return f"{id_}\t{' '.join([*made, *exact])}"


_WRITTEN: Final[dict[str, type[Written]]] = {"property": MarketWritten, "product_watch": ShopWritten}


def of(workload: Workload) -> Written:
    definition = workload.definition
    return _WRITTEN[workload.name](definition, [decode_row(definition, row) for row in workload.seen])


def _literal(clause: Query) -> str:
    if isinstance(clause, Not):
        return "-" + _literal(clause.clause)[1:]
    if isinstance(clause, Equals):
        return f"+{clause.field}:{clause.value}"
    if isinstance(clause, AnyOf):
        return f"+{clause.field}:{'|'.join(map(str, clause.values))}"
    if isinstance(clause, Text):
        (stem,) = analyse(clause.text, LISTING.language).stems
        return f"+stem:{stem}"
    if isinstance(clause, Range) and isinstance(clause.low, int):
        return "+bedrooms:" + "|".join(map(str, range(clause.low, _BEDROOMS_MAX + 1)))
    raise ValueError(f"{clause} is not of the property market")


def _cents(price: Any) -> int:
    return int(price * 100)

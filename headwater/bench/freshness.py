"""`headwater bench freshness`: from a commit to what a reader of a sink sees, commit by commit, while others flow.

A probe changes one order and looks for its new text where an application would: the row in Redis by its key, the
document in Elasticsearch by a search. The time is from the middle of the commit's round trip to the answer that has it.
Places are asked every ASK_S, so a figure has half of that on average on top. The warehouse is written at an interval
of its own (`warehouse.interval_s`): few commits, each at a random moment of it, are timed until its table has them.
"""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.dataset as ds

from cdc.capture import Capture
from cdc.catalog_reader import describe
from cdc.errors import SinkUnavailable, ViewError
from cdc.postgres import connect
from headwater.bench import conditions
from headwater.bench.conditions import Machine, Versions
from headwater.bench.figures import Latencies
from headwater.bench.view_workload import CARD, TABLES, Shop, flow
from headwater.bench.views import Bench, database
from headwater.maintain import limits
from headwater.sinks import sink_kinds
from search.engine import SearchEngine
from views.maintain.maintainer import Maintainer
from views.maintain.registry import Registry, Wanted, WantedView
from views.sinks.cache_keys import CacheKeys
from views.sinks.lane import LaneState
from views.sinks.warehouse import WarehouseKind
from views.sinks.warehouse_folders import CURRENT, live_generation, view_folder

if TYPE_CHECKING:
    from views.sinks.sink import ViewShape

ASK_S: Final = 0.005
PROBED: Final = 1
PAUSE_S: Final = 0.05
WARM_UP: Final = 10
SEEN_S_MAX: Final = 60.0
READY_S_MAX: Final = 600.0
SINKS: Final = ("cache", "search")
WAREHOUSE: Final = "warehouse"
WAREHOUSE_ASK_S: Final = 0.2
VIEW: Final = "order_card"

Sees = Callable[[str], bool]
"""Whether a reader sees the probe's text."""


@dataclass(frozen=True, slots=True)
class FreshnessPlan:
    rows: int = 20_000
    commits: int = 100
    rates_per_s: tuple[int, ...] = (50, 500)
    warehouse_commits: int = 4


@dataclass(frozen=True, slots=True)
class FreshnessConditions:
    machine: Machine
    versions: Versions
    plan: FreshnessPlan
    spark_master: str
    view: str
    warehouse_interval_s: float


def run(bench: Bench, plan: FreshnessPlan) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {name: {} for name in (*SINKS, WAREHOUSE)}
    interval_s = float(bench.deployment.settings.warehouse.interval_s)
    with database(bench, plan.rows) as (capture, shop):
        versions = conditions.versions(bench.deployment, capture)
        with _kept(bench, capture) as (shape, tables), ExitStack() as closing:
            readers: dict[str, Sees] = {name: closing.enter_context(_READERS[name](bench, shape)) for name in SINKS}
            for rate in plan.rates_per_s:
                bench.progress.step(f"single commits while {rate} a second flow")
                with flow(capture.postgres, plan.rows, rate):
                    for name, latencies in probed(shop, readers, plan.commits).items():
                        found[name][str(rate)] = asdict(latencies)
                    if plan.warehouse_commits:
                        bench.progress.step(f"the warehouse, every {interval_s:g} s, while {rate} a second flow")
                        took = _warehoused(shop, _warehouse(shape, tables), plan.warehouse_commits, interval_s)
                        found[WAREHOUSE][str(rate)] = asdict(took)
    master = bench.deployment.settings.spark.master
    told = FreshnessConditions(bench.machine, versions, plan, master, _definition(), interval_s)
    return {**found, "conditions": told}


def _definition() -> str:
    return CARD.replace("as\n", f"with (key = 'id', sinks = '{', '.join((*SINKS, WAREHOUSE))}', text = 'note') as\n", 1)


@contextmanager
def _kept(bench: Bench, capture: Capture) -> Iterator[tuple[ViewShape, WarehouseKind]]:
    """The view, kept in its sinks; its shape, and where its tables are."""
    from views.maintain.group import Group

    with tempfile.TemporaryDirectory(prefix="headwater-bench-freshness-") as folder:
        registry = Registry(Path(folder))
        with connect(capture.postgres) as conn:
            registry.want(Wanted({VIEW: WantedView(_definition(), describe(conn, TABLES), time.time(), "bench")}))
        kinds = dict(sink_kinds(replace(bench.deployment, source=capture.source)))
        tables = kinds[WAREHOUSE] = WarehouseKind(
            f"{folder}/tables", float(bench.deployment.settings.warehouse.interval_s)
        )
        maintainer = Maintainer(
            bench.spark, capture.kafka, capture.source, registry, limits(bench.deployment.settings), kinds
        )
        thread = threading.Thread(target=maintainer.run, name="maintainer", daemon=True)
        thread.start()
        try:
            bench.progress.step("filling the sinks")
            _ready(registry, thread)
            group = Group.load(registry.groups / registry.state().views[VIEW].group)
            yield group.shape(VIEW, capture.source), tables
            registry.want(Wanted())
            until(lambda: not registry.state().views, thread, "the view was not removed")
        finally:
            maintainer.stop.set()
            thread.join(60)


def _ready(registry: Registry, thread: threading.Thread) -> None:
    until(lambda: is_riding(registry, 1 + len(SINKS)), thread, "the sinks were not filled")


def is_riding(registry: Registry, sinks: int = 1) -> bool:
    """Whether that many sinks at least are kept, and each keeps up."""
    states = [status.state for status in registry.state().sinks]
    return len(states) >= sinks and all(state is LaneState.RIDING for state in states)


def until(is_so: Callable[[], bool], thread: threading.Thread, otherwise: str, timeout_s: float = READY_S_MAX) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_so():
        if not thread.is_alive() or time.monotonic() > deadline:
            raise ViewError(otherwise, hint="headwater bench freshness --rows 1000")
        time.sleep(0.2)


@contextmanager
def _cache(bench: Bench, shape: ViewShape) -> Iterator[Sees]:
    keys = CacheKeys(shape.source, shape.view)
    with bench.deployment.redis.client() as client:
        generation: Any = client.get(keys.pointer)
        place = keys.row(int(generation), f'{{"id":{PROBED}}}')

        def sees(text: str) -> bool:
            found: Any = client.get(place)
            return found is not None and text.encode() in found

        yield sees


@dataclass
class SearchReader:
    """One that was refused an answer asks again, as an application would; how often that was is counted."""

    engine: SearchEngine
    refused: int = 0

    def __call__(self, text: str) -> bool:
        try:
            return self.engine.count(f'"{text}"') > 0
        except SinkUnavailable:
            self.refused += 1
            return False


@contextmanager
def search_reader(bench: Bench, shape: ViewShape) -> Iterator[SearchReader]:
    engine = SearchEngine.open(bench.deployment.elasticsearch, shape)
    try:
        yield SearchReader(engine)
    finally:
        engine.close()


def _warehouse(shape: ViewShape, kind: WarehouseKind) -> Sees:
    folder = view_folder(kind.folder, shape.source, shape.view)

    def sees(text: str) -> bool:
        from deltalake import DeltaTable

        table = DeltaTable(folder / f"g{live_generation(folder)}" / CURRENT).to_pyarrow_dataset()
        return text in table.to_table(columns=["note"], filter=ds.field("id") == PROBED)["note"].to_pylist()

    return sees


_READERS: Final[dict[str, Callable[[Bench, ViewShape], AbstractContextManager[Sees]]]] = {
    "cache": _cache,
    "search": search_reader,
}


def probed(shop: Shop, readers: dict[str, Sees], commits: int) -> dict[str, Latencies]:
    timed(shop, readers, WARM_UP)
    return {name: Latencies.of(each) for name, each in timed(shop, readers, commits).items()}


def timed(
    shop: Shop, readers: dict[str, Sees], commits: int, text_of: Callable[[], str] = lambda: f"probe {time.time_ns()}"
) -> dict[str, list[float]]:
    """By reader, how long each commit took to be seen, in milliseconds. Each brings a text that no other has."""
    took: dict[str, list[float]] = {name: [] for name in readers}
    for _ in range(commits):
        text = text_of()
        began = time.monotonic()
        shop.conn.execute("update orders set note = %s where id = %s", [text, PROBED])
        middle = (began + time.monotonic()) / 2
        for name, at in _seen(readers, text).items():
            took[name].append((at - middle) * 1000)
        time.sleep(PAUSE_S)
    return took


def _warehoused(shop: Shop, sees: Sees, commits: int, interval_s: float) -> Latencies:
    draw, took = random.Random(7), []
    for _ in range(commits):
        time.sleep(draw.uniform(0, interval_s))
        text = f"probe {time.time_ns()}"
        began = time.monotonic()
        shop.conn.execute("update orders set note = %s where id = %s", [text, PROBED])
        middle = (began + time.monotonic()) / 2
        seen = _seen({WAREHOUSE: sees}, text, WAREHOUSE_ASK_S, SEEN_S_MAX + 2 * interval_s)
        took.append((seen[WAREHOUSE] - middle) * 1000)
    return Latencies.of(took)


def _seen(
    readers: dict[str, Sees], text: str, ask_s: float = ASK_S, seen_s_max: float = SEEN_S_MAX
) -> dict[str, float]:
    """When each reader saw it. They look side by side: one does not wait for the other."""
    found: dict[str, float] = {}

    def look(name: str, sees: Sees) -> None:
        deadline = time.monotonic() + seen_s_max
        while time.monotonic() < deadline:
            if sees(text):
                found[name] = time.monotonic()
                return
            time.sleep(ask_s)

    _side_by_side([threading.Thread(target=look, args=item) for item in readers.items()])
    missing = [name for name in readers if name not in found]
    if missing:
        raise ViewError(f"a commit did not reach the {missing[0]}", detail=text, hint="headwater status")
    return found


def _side_by_side(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

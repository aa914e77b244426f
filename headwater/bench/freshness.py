"""`headwater bench freshness`: from a commit to what a reader of a sink sees, commit by commit, while others flow.

A probe changes one order and looks for its new text where an application would: the row in Redis by its key, the
document in Elasticsearch by a search. The time is from the middle of the commit's round trip to the answer that has it.
Places are asked every ASK_S, so a figure has half of that on average on top.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdc.capture import Capture
from cdc.catalog_reader import describe
from cdc.errors import ViewError
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

if TYPE_CHECKING:
    from views.sinks.sink import ViewShape

ASK_S: Final = 0.005
PROBED: Final = 1
PAUSE_S: Final = 0.05
WARM_UP: Final = 10
SEEN_S_MAX: Final = 60.0
READY_S_MAX: Final = 600.0
SINKS: Final = ("cache", "search")
VIEW: Final = "order_card"

Sees = Callable[[str], bool]
"""Whether a reader sees the probe's text."""


@dataclass(frozen=True, slots=True)
class FreshnessPlan:
    rows: int = 20_000
    commits: int = 100
    rates_per_s: tuple[int, ...] = (50, 500)


@dataclass(frozen=True, slots=True)
class FreshnessConditions:
    machine: Machine
    versions: Versions
    plan: FreshnessPlan
    spark_master: str
    view: str


def run(bench: Bench, plan: FreshnessPlan) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {name: {} for name in SINKS}
    with database(bench, plan.rows) as (capture, shop):
        versions = conditions.versions(bench.deployment, capture)
        with _kept(bench, capture) as shape, ExitStack() as closing:
            readers = {name: closing.enter_context(_READERS[name](bench, shape)) for name in SINKS}
            for rate in plan.rates_per_s:
                bench.progress.step(f"single commits while {rate} a second flow")
                with flow(capture.postgres, plan.rows, rate):
                    for name, latencies in _probed(shop, readers, plan.commits).items():
                        found[name][str(rate)] = asdict(latencies)
    master = bench.deployment.settings.spark.master
    return {**found, "conditions": FreshnessConditions(bench.machine, versions, plan, master, _definition())}


def _definition() -> str:
    return CARD.replace("as\n", f"with (key = 'id', sinks = '{', '.join(SINKS)}', text = 'note') as\n", 1)


@contextmanager
def _kept(bench: Bench, capture: Capture) -> Iterator[ViewShape]:
    """The view, kept in its sinks; its shape."""
    from dataclasses import replace

    from views.maintain.group import Group

    with tempfile.TemporaryDirectory(prefix="headwater-bench-freshness-") as folder:
        registry = Registry(Path(folder))
        with connect(capture.postgres) as conn:
            registry.want(Wanted({VIEW: WantedView(_definition(), describe(conn, TABLES), time.time(), "bench")}))
        kinds = sink_kinds(replace(bench.deployment, source=capture.source))
        maintainer = Maintainer(
            bench.spark, capture.kafka, capture.source, registry, limits(bench.deployment.settings), kinds
        )
        thread = threading.Thread(target=maintainer.run, name="maintainer", daemon=True)
        thread.start()
        try:
            bench.progress.step("filling the sinks")
            _ready(registry, thread)
            group = Group.load(registry.groups / registry.state().views[VIEW].group)
            yield group.shape(VIEW, capture.source)
            registry.want(Wanted())
            _until(lambda: not registry.state().views, thread, "the view was not removed")
        finally:
            maintainer.stop.set()
            thread.join(60)


def _ready(registry: Registry, thread: threading.Thread) -> None:
    def riding() -> bool:
        states = [status.state for status in registry.state().sinks if status.sink in SINKS]
        return len(states) == len(SINKS) and all(state is LaneState.RIDING for state in states)

    _until(riding, thread, "the sinks were not filled")


def _until(is_so: Callable[[], bool], thread: threading.Thread, otherwise: str) -> None:
    deadline = time.monotonic() + READY_S_MAX
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


@contextmanager
def _search(bench: Bench, shape: ViewShape) -> Iterator[Sees]:
    engine = SearchEngine.open(bench.deployment.elasticsearch, shape)
    try:
        yield lambda text: engine.count(f'"{text}"') > 0
    finally:
        engine.close()


_READERS: Final = {"cache": _cache, "search": _search}


def _probed(shop: Shop, readers: dict[str, Sees], commits: int) -> dict[str, Latencies]:
    took: dict[str, list[float]] = {name: [] for name in readers}
    for number in range(commits + WARM_UP):
        text = f"probe {time.time_ns()}"
        began = time.monotonic()
        shop.conn.execute("update orders set note = %s where id = %s", [text, PROBED])
        middle = (began + time.monotonic()) / 2
        for name, at in _seen(readers, text).items():
            if number >= WARM_UP:
                took[name].append((at - middle) * 1000)
        time.sleep(PAUSE_S)
    return {name: Latencies.of(each) for name, each in took.items()}


def _seen(readers: dict[str, Sees], text: str) -> dict[str, float]:
    """When each reader saw it. They look side by side: one does not wait for the other."""
    found: dict[str, float] = {}

    def look(name: str, sees: Sees) -> None:
        deadline = time.monotonic() + SEEN_S_MAX
        while time.monotonic() < deadline:
            if sees(text):
                found[name] = time.monotonic()
                return
            time.sleep(ASK_S)

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

"""`headwater bench rebuild`: an index filled anew from its view's log, beside the one that is read.

Twice: once while nothing else happens, for the rate beside the raw bulk rate of the place's own client as the limit;
once while changes flow, for what readers of the live index notice. Both are verified row by row against Postgres and
switched; then readers go back, which is timed from the order to its answer. Of documents with an object and a list in
them the rate alone: from the log when their view is new, and rebuilt.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from cdc.addresses import KafkaAddress, PostgresAddress, Source
from cdc.capture import Capture
from cdc.catalog_reader import describe
from cdc.errors import ViewError
from cdc.events import TableName
from cdc.postgres import connect
from headwater.bench import conditions, nested_workload
from headwater.bench.conditions import Machine, Versions
from headwater.bench.figures import Latencies
from headwater.bench.freshness import VIEW, is_riding, probed, search_reader, timed, until
from headwater.bench.sinks import raw_search
from headwater.bench.view_workload import CARD, TABLES, Shop, flow
from headwater.bench.views import Bench, database, loaded
from headwater.maintain import limits
from headwater.sinks import sink_kinds
from headwater.views.checking import check
from views.maintain.maintainer import Maintainer
from views.maintain.orders import Order, Orders, Verb
from views.maintain.publisher import view_topic
from views.maintain.registry import Registry, Wanted, WantedView
from views.rebuild import Checked, Rebuild, RebuildState, Stage
from views.sinks.following import ViewTopic
from views.sinks.sink import Change, SinkKind

if TYPE_CHECKING:
    from views.sinks.sink import ViewShape

SINK: Final = "search"
OVER_S_MAX: Final = 7_200.0
RAW_ROWS_MAX: Final = 1_000_000
ROLLBACKS: Final = 5
_POLL_S: Final = 0.02
_LOOK_S: Final = 0.2


@dataclass(frozen=True, slots=True)
class RebuildPlan:
    rows: int = 1_000_000
    rate_per_s: int = 200
    commits: int = 100
    nested: int = 100_000
    """Documents with others in them; none when 0."""


@dataclass(frozen=True, slots=True)
class RebuildConditions:
    machine: Machine
    versions: Versions
    plan: RebuildPlan
    spark_master: str
    view: str
    nested_view: str
    live_lag_ms_max: int


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What is kept, in the index alone."""

    view: str
    definition: str
    tables: tuple[TableName, ...]

    @classmethod
    def of(cls, view: str, select: str, tables: tuple[TableName, ...], text: str) -> _Wanted:
        options = f"with (key = 'id', sinks = '{SINK}', text = '{text}') as\n"
        return cls(view, select.replace("as\n", options, 1), tables)


@dataclass(frozen=True, slots=True)
class _Kept:
    registry: Registry
    shape: ViewShape
    first_s: float
    """From the view as it was wanted to its index as it keeps up, the log being whole before."""


ORDERS: Final = _Wanted.of(VIEW, CARD, TABLES, "note")
PAGES: Final = _Wanted.of(nested_workload.VIEW, nested_workload.PAGE, nested_workload.TABLES, "title")


def run(bench: Bench, plan: RebuildPlan) -> dict[str, Any]:
    settings, versions, found = bench.deployment.settings, *_orders(bench, plan)
    told = RebuildConditions(
        bench.machine,
        versions,
        plan,
        settings.spark.master,
        ORDERS.definition,
        PAGES.definition,
        settings.rebuild.live_lag_ms_max,
    )
    return {**found, **_nested(bench, plan.nested), "conditions": told}


def _orders(bench: Bench, plan: RebuildPlan) -> tuple[Versions, dict[str, Any]]:
    with database(bench, plan.rows) as (capture, shop):
        versions = conditions.versions(bench.deployment, capture)
        with _kept(bench, capture, ORDERS) as kept:
            registry, shape = kept.registry, kept.shape
            bench.progress.step("rebuilding while nothing else happens")
            still = _rebuilt(registry, VIEW)
            bench.progress.step("the raw bulk rate")
            raw_per_s = raw_search(bench.deployment, shape, _rows(capture, VIEW, min(plan.rows, RAW_ROWS_MAX)))
            with search_reader(bench, shape) as sees, flow(capture.postgres, plan.rows, plan.rate_per_s):
                bench.progress.step(f"single commits while {plan.rate_per_s} a second flow")
                before = probed(shop, {SINK: sees}, plan.commits)[SINK]
                bench.progress.step("the same while it is rebuilt")
                moving, during = _rebuilt_beside(registry, shop, sees, plan.commits)
                bench.progress.step("going back and forth")
                took_ms = sorted(_rolled_back(registry) for _ in range(ROLLBACKS))
    return versions, {
        "rows_per_s": round(_rate(still)),
        "raw_rows_per_s": round(raw_per_s),
        "ratio": round(_rate(still) / raw_per_s, 2),
        "rows_per_s_while_changes_flow": round(_rate(moving)),
        "verify_s": round(still.began[Stage.SWITCH] - still.began[Stage.VERIFY], 1),
        "live_p50_ms_before": before.p50_ms,
        "live_p50_ms_during": during.p50_ms,
        "live_p99_ms_before": before.p99_ms,
        "live_p99_ms_during": during.p99_ms,
        "reads_refused": sees.refused,
        "rollback_ms": round(took_ms[len(took_ms) // 2], 1),
        "rollback_ms_max": round(took_ms[-1], 1),
    }


def _nested(bench: Bench, rows: int) -> dict[str, Any]:
    names = ("nested_rows_per_s", "nested_raw_rows_per_s", "nested_ratio", "nested_first_rows_per_s")
    if not rows:
        return dict.fromkeys(names)
    bench.progress.step(f"a database of {rows:,} listings with {nested_workload.PHOTOS} photos each")
    load, records = partial(nested_workload.load, listings=rows), rows * (1 + nested_workload.PHOTOS)
    with (
        loaded(bench, nested_workload.DDL, PAGES.tables, load, records) as (capture, _),
        _kept(bench, capture, PAGES) as kept,
    ):
        bench.progress.step("rebuilding documents with others in them")
        rate = _rate(_rebuilt(kept.registry, PAGES.view))
        bench.progress.step("the raw bulk rate of the same")
        raw_per_s = raw_search(bench.deployment, kept.shape, _rows(capture, PAGES.view, min(rows, RAW_ROWS_MAX)))
    figures = (round(rate), round(raw_per_s), round(rate / raw_per_s, 2), round(rows / kept.first_s))
    return dict(zip(names, figures, strict=True))


@dataclass(frozen=True)
class _Check:
    """As the product does it: in a process of its own."""

    postgres: PostgresAddress
    kafka: KafkaAddress
    source: Source
    folder: Path
    kind: SinkKind

    def __call__(self, view: str, sink: str, number: int, stop: threading.Event) -> Checked:
        with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
            return apart.submit(self._here, view, number).result()

    def _here(self, view: str, number: int) -> Checked:
        return check(self.postgres, self.kafka, self.source, Registry(self.folder), self.kind, view, number)


@contextmanager
def _kept(bench: Bench, capture: Capture, wanted: _Wanted) -> Iterator[_Kept]:
    from views.maintain.group import Group

    with tempfile.TemporaryDirectory(prefix="headwater-bench-rebuild-") as folder:
        registry = Registry(Path(folder))
        with connect(capture.postgres) as conn:
            view = WantedView(wanted.definition, describe(conn, wanted.tables), time.time(), "bench")
        registry.want(Wanted({wanted.view: view}))
        kinds = sink_kinds(replace(bench.deployment, source=capture.source))
        checked = _Check(capture.postgres, capture.kafka, capture.source, Path(folder), kinds[SINK])
        maintainer = Maintainer(
            bench.spark,
            capture.kafka,
            capture.source,
            registry,
            limits(bench.deployment.settings),
            kinds,
            check=checked,
        )
        thread = threading.Thread(target=maintainer.run, name="maintainer", daemon=True)
        began = time.monotonic()
        thread.start()
        try:
            bench.progress.step("filling the index for the first time")
            until(lambda: is_riding(registry), thread, "the index was not filled", OVER_S_MAX)
            first_s = time.monotonic() - began
            group = Group.load(registry.groups / registry.state().views[wanted.view].group)
            yield _Kept(registry, group.shape(wanted.view, capture.source), first_s)
            registry.want(Wanted())
            until(lambda: not registry.state().views, thread, "the view was not removed")
        finally:
            maintainer.stop.set()
            thread.join(60)


def _asked(registry: Registry, order: Order) -> None:
    Orders(registry.folder).give(order)
    while (answer := registry.book().answer(order.id)) is None:
        time.sleep(_POLL_S)
    if not answer.is_done:
        raise ViewError(answer.fact, detail=answer.detail, hint=answer.hint)


def _rebuilt(registry: Registry, view: str) -> Rebuild:
    order = Order(Verb.REBUILD, view, SINK)
    _asked(registry, order)
    deadline = time.monotonic() + OVER_S_MAX
    while True:
        found = registry.book().rebuild(order.id)
        if found is not None and found.is_over:
            break
        if time.monotonic() > deadline:
            raise ViewError("the index was not rebuilt in time", hint="headwater bench rebuild --rows 100000")
        time.sleep(_LOOK_S)
    if found.state is not RebuildState.DONE:
        raise ViewError(f"the rebuild {found.state}", detail=found.reason, hint="headwater bench rebuild --rows 10000")
    return found


def _rebuilt_beside(registry: Registry, shop: Shop, sees: Any, commits: int) -> tuple[Rebuild, Latencies]:
    """Commits are timed for as long as it takes, and at least so many."""
    ended: list[Rebuild | BaseException] = []

    def work() -> None:
        try:
            ended.append(_rebuilt(registry, VIEW))
        except BaseException as error:
            ended.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    took: list[float] = []
    while not ended or len(took) < commits:
        took += timed(shop, {SINK: sees}, 1)[SINK]
        if ended and isinstance(ended[0], BaseException):
            raise ended[0]
    thread.join()
    assert isinstance(ended[0], Rebuild)
    return ended[0], Latencies.of(took)


def _rolled_back(registry: Registry) -> float:
    began = time.monotonic()
    _asked(registry, Order(Verb.ROLLBACK, VIEW, SINK))
    return (time.monotonic() - began) * 1000


def _rate(rebuild: Rebuild) -> float:
    return rebuild.filled / (rebuild.began[Stage.CATCH_UP] - rebuild.began[Stage.FILL])


def _rows(capture: Capture, view: str, count: int) -> list[Change]:
    topic = ViewTopic(capture.kafka, view_topic(capture.source, view))
    found: dict[bytes, Change] = {}
    for piece in topic.changes(0, topic.end()):
        found |= {change.key: change for change in piece if change.after is not None}
        if len(found) >= count:
            break
    return list(found.values())[:count]

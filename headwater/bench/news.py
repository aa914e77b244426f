"""`headwater bench news`: from a commit to who is told of it, through everything that lies between, while others flow.

    commit ▶ Debezium ▶ Kafka ▶ Spark ▶ view ▶ matcher ▶ outbox (the inbox has it) ▶ notifier ▶ delivery ▶ webhook

Many searches are saved by as many owners. A probe changes one order so that it enters the search of one owner, who has
not been told anything yet: what comes soon after other news is gathered, as it should be, and says nothing about
the way. The endpoint listens in this process. Then the same for a search that is saved a moment before the
commit that it matches: `saved_to_told` is from its saving on.
"""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, LiteralString

from alerts import store
from alerts.saved_search import Wish
from alerts.sink import AlertKind
from cdc.capture import Capture
from cdc.catalog_reader import describe
from cdc.errors import ViewError
from cdc.postgres import connect
from headwater.bench import conditions
from headwater.bench.conditions import Machine, Versions
from headwater.bench.figures import Latencies
from headwater.bench.freshness import ASK_S, PAUSE_S, SEEN_S_MAX, VIEW, WARM_UP, Sees, is_riding, timed, until
from headwater.bench.view_workload import CARD, TABLES, Shop, flow
from headwater.bench.views import Bench, database
from headwater.demo.catcher import LOOPBACK
from headwater.demo.webhook_catcher import CaughtWebhook, WebhookCatcher
from headwater.maintain import limits
from headwater.service.alerting import alerting
from search.query import Text
from search.query_json import to_json
from views.maintain.maintainer import Maintainer
from views.maintain.registry import Registry, Wanted, WantedView

SINK: Final = "alerts"
_SAVE_MANY: Final[LiteralString] = """
    insert into headwater.subscriptions (owner, view, query, events, channel, unsubscribe_token)
    select 'somebody ' || g, %(view)s,
        jsonb_build_object('and', jsonb_build_array(
            jsonb_build_object('equals', jsonb_build_object(
                'field', 'customer', 'value', 'customer ' || 1 + g %% %(customers)s)),
            jsonb_build_object('range', jsonb_build_object(
                'field', 'amount', 'gte', case when g %% 50 = 0 then g %% 1000 + 1 else 100000 + g end)))),
        '{entered}', 'feed', gen_random_uuid()::text
    from generate_series(1, %(searches)s) g
"""
"""Of one customer's orders above an amount, which few of them will reach: with 10,000 of 20,000 orders, one news in ten
changes."""
_IN_THE_INBOX: Final[LiteralString] = "select exists (select from headwater.outbox where owner = %s)"
_TOLD: Final[LiteralString] = "select count(*) from headwater.outbox"


@dataclass(frozen=True, slots=True)
class NewsPlan:
    rows: int = 20_000
    searches: int = 10_000
    commits: int = 100
    rates_per_s: tuple[int, ...] = (0, 200)


@dataclass(frozen=True, slots=True)
class NewsConditions:
    machine: Machine
    versions: Versions
    plan: NewsPlan
    spark_master: str
    view: str


def run(bench: Bench, plan: NewsPlan) -> dict[str, Any]:
    found: dict[str, Any] = {"inbox": {}, "webhook": {}, "saved_to_told": {}}
    with database(bench, plan.rows) as (capture, shop):
        versions = conditions.versions(bench.deployment, capture)
        names = (f"probe{number}x" for number in itertools.count(1))
        probes = [next(names) for _ in range((WARM_UP + plan.commits) * len(plan.rates_per_s))]
        with _listening() as heard, connect(capture.postgres) as conn:
            bench.progress.step(f"{plan.searches:,} saved searches")
            conn.execute(_SAVE_MANY, {"view": VIEW, "customers": shop.customers, "searches": plan.searches})
            for probe in probes:
                heard.save(shop, probe)
            readers: dict[str, Sees] = {"inbox": _Inbox(conn), "webhook": heard}
            with _kept(bench, capture), _told(bench, capture, heard.port):
                waiting = iter(probes)
                for rate in plan.rates_per_s:
                    bench.progress.step(f"single commits while {rate} a second flow")
                    with flow(capture.postgres, plan.rows, rate):
                        timed(shop, readers, WARM_UP, lambda: next(waiting))
                        for name, took in timed(shop, readers, plan.commits, lambda: next(waiting)).items():
                            found[name][str(rate)] = asdict(Latencies.of(took))
                        took = [_saved_and_told(shop, heard, next(names)) for _ in range(plan.commits // 5 or 1)]
                        found["saved_to_told"][str(rate)] = asdict(Latencies.of(took))
            [told] = conn.execute(_TOLD).fetchone() or (0,)
    master = bench.deployment.settings.spark.master
    return {**found, "told": told, "conditions": NewsConditions(bench.machine, versions, plan, master, _definition())}


def _definition() -> str:
    return CARD.replace("as\n", f"with (key = 'id', sinks = '{SINK}', text = 'note') as\n", 1)


@dataclass
class _Heard:
    """Who was told, by an endpoint in this process. An owner's endpoint is its name."""

    port: int = 0

    def __post_init__(self) -> None:
        self._names = set[str]()

    def __call__(self, name: str) -> bool:
        return name in self._names

    def hear(self, caught: CaughtWebhook) -> None:
        self._names.add(caught.path.removeprefix("/"))

    def save(self, shop: Shop, name: str) -> None:
        url = f"http://{LOOPBACK}:{self.port}/{name}"
        store.create(shop.conn, name, Wish(view=VIEW, query=to_json(Text(name)), channel="webhook", target=url))


@dataclass(frozen=True)
class _Inbox:
    conn: Any

    def __call__(self, name: str) -> bool:
        [is_there] = self.conn.execute(_IN_THE_INBOX, [name]).fetchone()
        return bool(is_there)


@contextmanager
def _listening() -> Iterator[_Heard]:
    heard, loop, ready = _Heard(), asyncio.new_event_loop(), threading.Event()
    over = asyncio.Event()

    async def listen() -> None:
        async with WebhookCatcher(on_caught=heard.hear) as catcher:
            heard.port = catcher.port
            ready.set()
            await over.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(listen(),), name="endpoint", daemon=True)
    thread.start()
    ready.wait()
    try:
        yield heard
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()
        loop.close()


@contextmanager
def _kept(bench: Bench, capture: Capture) -> Iterator[None]:
    """The view, and its saved searches in force."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-news-") as folder:
        registry = Registry(Path(folder))
        with connect(capture.postgres) as conn:
            registry.want(Wanted({VIEW: WantedView(_definition(), describe(conn, TABLES), time.time(), "bench")}))
        kinds = {SINK: AlertKind(capture.postgres, capture.kafka, Path(folder) / SINK)}
        settings = bench.deployment.settings
        maintainer = Maintainer(bench.spark, capture.kafka, capture.source, registry, limits(settings), kinds)
        thread = threading.Thread(target=maintainer.run, name="maintainer", daemon=True)
        thread.start()
        try:
            bench.progress.step("building the view")
            until(lambda: is_riding(registry), thread, "the view's saved searches are not in force")
            yield
            registry.want(Wanted())
            until(lambda: not registry.state().views, thread, "the view was not removed")
        finally:
            maintainer.stop.set()
            thread.join(60)


class _NobodyListens:
    def wake_from_thread(self, owner: str) -> None:
        """There is no web feed here."""


@contextmanager
def _told(bench: Bench, capture: Capture, port: int) -> Iterator[None]:
    """Notifier and delivery, as the service has them."""
    settings = bench.deployment.settings
    webhook = settings.webhook.model_copy(update={"openings": f"{LOOPBACK}:{port}"})
    deployment = replace(
        bench.deployment,
        settings=settings.model_copy(update={"webhook": webhook}),
        source=capture.source,
        postgres=capture.postgres,
    )
    with alerting(deployment, _NobodyListens(), settings.http.url):
        yield


def _saved_and_told(shop: Shop, heard: _Heard, name: str) -> float:
    """From the saving of a search to the news of the commit after it, in milliseconds."""
    began = time.monotonic()
    heard.save(shop, name)
    shop.conn.execute("update orders set note = %s where id = 1", [name])
    while not heard(name):
        if time.monotonic() - began > SEEN_S_MAX:
            raise ViewError("a search that was just saved told nothing", detail=name, hint="headwater alerts sweep")
        time.sleep(ASK_S)
    took_ms = (time.monotonic() - began) * 1000
    time.sleep(PAUSE_S)
    return took_ms

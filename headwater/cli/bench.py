"""`headwater bench`: measures what Headwater does on this machine. A bench is one function and one line in BENCHES."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.bench_output import Told, print_capture, print_machine, print_views
from headwater.cli.output import JsonOption, console, line, print_json, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from headwater.bench.conditions import Machine
    from headwater.deployment import Deployment

RowsOption = Annotated[int, typer.Option("--rows", metavar="N", min=1, help="Rows of a backlog.")]
CommitsOption = Annotated[int, typer.Option("--commits", metavar="N", min=1, help="Single commits to time.")]
RoundsOption = Annotated[int, typer.Option("--rounds", metavar="N", min=1, help="The rates are medians of so many.")]
RateOption = Annotated[
    int, typer.Option("--rate", metavar="N", min=0, help="Rows a second committed beside the single commits.")
]
RatesOption = Annotated[str, typer.Option("--rates", help="Changes a second meanwhile, separated by commas.")]
HereOption = Annotated[bool, typer.Option("--here", help="On the running stack, not on one started for it.")]


def capture(
    rows: RowsOption = 200_000,
    commits: CommitsOption = 300,
    rounds: RoundsOption = 3,
    rate: RateOption = 0,
    here: HereOption = False,
    as_json: JsonOption = False,
) -> None:
    """From a commit to the log and into Spark: rows a second and milliseconds, beside the bare slot as the limit."""
    from headwater.bench import capture as bench
    from headwater.bench import place
    from headwater.plain import plain

    plan = bench.CapturePlan(rows, commits, rounds, rate, own_stack=not here)
    with (
        _measuring(here=here, quiet=as_json) as (deployment, spark, machine, progress),
        place.fresh_source(deployment, progress) as captured,
    ):
        found = bench.run(bench.Bench(deployment, captured, spark, machine, progress), plan)
    if as_json:
        print_json(plain(found))
        return
    print_capture(found)


def views(
    rows: Annotated[int, typer.Option("--rows", min=1000, help="Orders in the large database.")] = 1_000_000,
    small: Annotated[int, typer.Option("--small", min=100, help="Orders in the small one.")] = 10_000,
    changes: Annotated[int, typer.Option("--changes", min=1, help="Changes of an epoch.")] = 1_000,
    epochs: Annotated[int, typer.Option("--epochs", min=3, help="Epochs to run; the first half warms up.")] = 20,
    backlog: Annotated[int, typer.Option("--backlog", min=5_000, help="Changes to catch up with.")] = 100_000,
    commits: CommitsOption = 200,
    rate: RateOption = 200,
    here: HereOption = False,
    as_json: JsonOption = False,
) -> None:
    """Keeping views: what an epoch costs as tables grow, catching up, single commits, beside computing them anew."""
    from headwater.bench import views as bench
    from headwater.plain import plain

    plan = bench.ViewsPlan(rows, small, changes, epochs, backlog, commits, rate)
    with _measuring(here=here, quiet=as_json) as (deployment, spark, machine, progress):
        found = bench.run(bench.Bench(deployment, spark, machine, progress), plan)
    if as_json:
        print_json(plain(found))
        return
    print_views(found)


def freshness(
    rows: Annotated[int, typer.Option("--rows", min=100, help="Orders in the database.")] = 20_000,
    commits: CommitsOption = 100,
    rates: RatesOption = "50,500",
    warehouse_commits: Annotated[
        int, typer.Option("--warehouse-commits", min=0, help="Commits timed to the warehouse at each rate; 0: none.")
    ] = 4,
    here: HereOption = False,
    as_json: JsonOption = False,
) -> None:
    """From a commit to what a reader of the cache, the search index and the warehouse sees, while others flow."""
    from headwater.bench import freshness as bench
    from headwater.bench.place import SERVERS, SINKS
    from headwater.bench.views import Bench
    from headwater.plain import plain

    plan = bench.FreshnessPlan(rows, commits, _rates(rates), warehouse_commits)
    with _measuring(here=here, quiet=as_json, servers=SERVERS + SINKS) as (deployment, spark, machine, progress):
        found = bench.run(Bench(deployment, spark, machine, progress), plan)
    if as_json:
        print_json(plain(found))
        return
    names = ("min", "p50", "p90", "p99", "max")
    lines = [
        (sink, rate, *(f"{found[sink][rate][f'{name}_ms']:,.0f}" for name in names))
        for sink in (*bench.SINKS, bench.WAREHOUSE)
        for rate in found[sink]
    ]
    table(("commit to sink, ms", "changes/s", *names), lines)
    print_machine(found["conditions"].machine)


def rebuild(
    rows: Annotated[int, typer.Option("--rows", min=1_000, help="Orders in the database.")] = 1_000_000,
    rate: Annotated[int, typer.Option("--rate", min=1, help="Changes a second while it is rebuilt.")] = 200,
    commits: CommitsOption = 100,
    nested: Annotated[
        int, typer.Option("--nested", min=0, help="Then so many documents with others in them; 0: none.")
    ] = 100_000,
    here: HereOption = False,
    as_json: JsonOption = False,
) -> None:
    """An index filled anew from the view's log beside the one that is read, verified, switched, and gone back to."""
    from headwater.bench import rebuild as bench
    from headwater.bench.place import SERVERS, SINKS
    from headwater.bench.views import Bench
    from headwater.plain import plain

    with _measuring(here=here, quiet=as_json, servers=SERVERS + SINKS) as (deployment, spark, machine, progress):
        found = bench.run(Bench(deployment, spark, machine, progress), bench.RebuildPlan(rows, rate, commits, nested))
    if as_json:
        print_json(plain(found))
        return
    names = [name for name, value in found.items() if isinstance(value, int | float)]
    table(("figure", "value"), [(name, f"{found[name]:,g}") for name in names])
    print_machine(found["conditions"].machine)


def news(
    rows: Annotated[int, typer.Option("--rows", min=1_000, help="Orders in the database.")] = 20_000,
    searches: Annotated[int, typer.Option("--searches", min=0, help="Saved searches beside the timed ones.")] = 10_000,
    commits: CommitsOption = 100,
    rates: RatesOption = "0,200",
    here: HereOption = False,
    as_json: JsonOption = False,
) -> None:
    """From a commit to its news: in the inbox, and by a webhook; also of a search that was saved just before it."""
    from headwater.bench import news as bench
    from headwater.bench.views import Bench
    from headwater.plain import plain

    plan = bench.NewsPlan(rows, searches, commits, _rates(rates))
    with _measuring(here=here, quiet=as_json) as (deployment, spark, machine, progress):
        found = bench.run(Bench(deployment, spark, machine, progress), plan)
    if as_json:
        print_json(plain(found))
        return
    names = ("min", "p50", "p90", "p99", "max")
    lines = [
        (what, rate, *(f"{each[f'{name}_ms']:,.0f}" for name in names))
        for what in ("inbox", "webhook", "saved_to_told")
        for rate, each in found[what].items()
    ]
    table(("ms", "changes/s", *names), lines)
    print_machine(found["conditions"].machine)


def sinks(
    rows: Annotated[int, typer.Option("--rows", min=1_000, help="Rows written into each sink.")] = 100_000,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Ours and raw in turns, so often.")] = 3,
    here: HereOption = False,
    as_json: JsonOption = False,
) -> None:
    """Rows a second into each sink, beside the raw bulk rate of its own client as the limit."""
    from headwater.bench import conditions, place
    from headwater.bench import sinks as bench
    from headwater.plain import plain
    from headwater.settings import load

    settings, progress = load(), Told(console(stderr=True), quiet=as_json)
    with _ended_in_order(), (place.here if here else place.own_stack)(settings, progress, place.SINKS) as deployment:
        machine = conditions.machine(conditions.own_processes(deployment), settings.stack.java)
        found = bench.run(deployment, machine, progress, bench.SinksPlan(rows, rounds))
    if as_json:
        print_json(plain(found))
        return
    machine, figures = found.pop("conditions").machine, ("rows_per_s", "raw_rows_per_s", "ratio")
    lines = [(name, *(f"{each[figure]:,}" for figure in figures)) for name, each in found.items()]
    table(("sink", "rows/s", "raw rows/s", "ratio"), lines)
    print_machine(machine)


def reads(
    view: Annotated[
        str, typer.Option("--view", help="A view in the cache, with one column as its key.")
    ] = "listing_card",
    rate: Annotated[int, typer.Option("--rate", min=1, help="Requests a second.")] = 500,
    seconds: Annotated[int, typer.Option("--seconds", min=1, help="For how long.")] = 20,
    as_json: JsonOption = False,
) -> None:
    """Key lookups through the API of the running `headwater up`, at a steady rate, while changes flow."""
    import json

    from headwater.bench import conditions
    from headwater.bench import reads as bench
    from headwater.plain import plain
    from headwater.views.kept import Frontiers, open_view
    from headwater.views.place import Place

    place = Place.here()
    deployment, http = place.deployment, place.deployment.settings.http
    kept = open_view(place.registry, Frontiers(deployment.kafka, deployment.source).look(), view)
    column = kept.store.key[0]
    keys = [str(json.loads(row)[column]) for chunk in kept.chunks() for _, row in chunk]
    machine = conditions.machine(conditions.own_processes(deployment), deployment.settings.stack.java)
    found = bench.run(f"http://{http.host}:{http.port}", keys, machine, bench.ReadsPlan(view, rate, seconds))
    if as_json:
        print_json(plain(found))
        return
    names = ("min", "p50", "p90", "p99", "max")
    table(("key lookup, ms", *names), [(f"{rate}/s", *(f"{found[f'{name}_ms']:.1f}" for name in names))])
    line(f"{found['samples']:,} rows answered, {found['missing']} gone meanwhile, {found['failed']} failed")
    print_machine(found["conditions"].machine)


def _rates(text: str) -> tuple[int, ...]:
    try:
        rates = tuple(int(rate) for rate in text.split(","))
    except ValueError:
        rates = (-1,)
    if min(rates) < 0:
        raise typer.BadParameter(f"{text!r} is no list of rates like 50,500", param_hint="--rates")
    return rates


def delivery(
    rate: Annotated[int, typer.Option("--rate", min=1, help="Webhooks a second to healthy endpoints.")] = 200,
    seconds: Annotated[int, typer.Option("--seconds", min=1, help="For how long.")] = 20,
    endpoints: Annotated[int, typer.Option("--endpoints", min=2, help="Endpoints on loopback.")] = 100,
    hanging: Annotated[int, typer.Option("--hanging", min=0, help="Of those, how many never answer.")] = 10,
    backlog: Annotated[int, typer.Option("--backlog", min=1, help="Then so many at once.")] = 5_000,
    waiting: Annotated[int, typer.Option("--waiting", min=0, help="Beside it for each that hangs.")] = 0,
    store: Annotated[
        str, typer.Option("--store", help="memory, or postgres: a server of its own, started for it.")
    ] = "memory",
    as_json: JsonOption = False,
) -> None:
    """Webhooks a second to healthy endpoints on loopback while others hang."""
    from headwater.bench import conditions
    from headwater.bench import delivery as bench
    from headwater.bench.delivery_stores import database
    from headwater.channels import delivery_limits
    from headwater.plain import plain
    from headwater.settings import load

    if hanging >= endpoints:
        raise typer.BadParameter("some endpoint must be healthy", param_hint="--hanging")
    if store not in ("memory", "postgres"):
        raise typer.BadParameter("memory or postgres", param_hint="--store")
    settings, progress = load(), Told(console(stderr=True), quiet=as_json)
    plan = bench.DeliveryPlan(rate, seconds, endpoints, hanging, backlog, waiting)
    with _ended_in_order(), database(store, settings, progress) as postgres:
        machine = conditions.machine((), settings.stack.java)
        found = bench.run(machine, progress, delivery_limits(settings), plan, postgres)
    if as_json:
        print_json(plain(found))
        return
    names = ("min", "p50", "p90", "p99", "max")
    lines = [(f"{found['webhooks_per_s']:,}/s", *(f"{found[f'{name}_ms']:.1f}" for name in names))]
    table(("due to delivered, ms", *names), lines)
    line(f"a backlog: {found['backlog_webhooks_per_s']:,}/s; {hanging} of {endpoints} endpoints hang")
    print_machine(found["conditions"].machine)


def alerts(
    sizes: Annotated[
        str, typer.Option("--sizes", help="Numbers of subscriptions, separated by commas.")
    ] = "10000,100000,1000000",
    events: Annotated[int, typer.Option("--events", min=100, help="Events matched against each.")] = 8_000,
    lucene: Annotated[
        str, typer.Option("--lucene", help="Sizes to run Lucene Monitor with as well; empty for none.")
    ] = "10000,100000,1000000",
    lucene_events: Annotated[int, typer.Option("--lucene-events", min=10, help="Events to compare, at least.")] = 1_000,
    lucene_seconds: Annotated[
        int, typer.Option("--lucene-seconds", min=1, help="It warms up for so long, and is measured for so long.")
    ] = 10,
    as_json: JsonOption = False,
) -> None:
    """Deltas a second against many saved searches, beside Lucene Monitor on the same ones. Needs no stack."""
    from headwater.bench import alerts as bench
    from headwater.bench import conditions
    from headwater.plain import plain
    from headwater.settings import load

    def numbers(text: str) -> tuple[int, ...]:
        return tuple(int(number) for number in text.split(",") if number)

    plan = bench.AlertsPlan(numbers(sizes), events, numbers(lucene), lucene_events, lucene_seconds)
    machine = conditions.machine([], load().stack.java)
    found = bench.run(machine, Told(console(stderr=True), quiet=as_json), plan)
    if as_json:
        print_json(plain(found))
        return
    names = ("events_per_s", "p50_ms", "p99_ms", "matches_per_event", "candidates_per_event", "memory_mb", "live_s")
    lines = [
        (workload, f"{int(size):,}", *(_figure(each[name]) for name in names), each["ratio"])
        for workload in ("property", "product_watch")
        for size, each in found[workload].items()
    ]
    table(("workload", "subscriptions", *names, "x Lucene Monitor"), lines)
    line(found["conditions"].lucene)
    print_machine(machine)


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:,}"


BENCHES: Final[tuple[Callable[..., None], ...]] = (
    capture,
    views,
    freshness,
    sinks,
    reads,
    rebuild,
    alerts,
    delivery,
    news,
)


def register(app: typer.Typer) -> None:
    verbs = typer.Typer(no_args_is_help=True, help="Measure what Headwater does on this machine.")
    for bench in BENCHES:
        verbs.command(bench.__name__)(bench)
    app.add_typer(verbs, name="bench")


@contextmanager
def _measuring(
    *, here: bool, quiet: bool, servers: tuple[str, ...] = ()
) -> Iterator[tuple[Deployment, SparkSession, Machine, Told]]:
    """Where a bench runs, Spark, and the machine as it was before."""
    from headwater.bench import conditions, place
    from headwater.settings import load
    from headwater.spark import session

    settings, progress = load(), Told(console(stderr=True), quiet=quiet)
    with ExitStack() as closing:
        closing.enter_context(_ended_in_order())
        where = place.here if here else place.own_stack
        deployment = closing.enter_context(where(settings, progress, servers or place.SERVERS))
        machine = conditions.machine(conditions.own_processes(deployment), settings.stack.java)
        progress.step("starting Spark")
        spark = session(
            name="headwater bench",
            master=settings.spark.master,
            driver_memory_mb=settings.spark.driver_memory_mb,
            extra=settings.spark.properties(),
        )
        closing.callback(spark.stop)
        yield deployment, spark, machine, progress


@contextmanager
def _ended_in_order() -> Iterator[None]:
    """SIGTERM ends it like Ctrl-C: with everything cleaned up."""

    def asked(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, asked)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)

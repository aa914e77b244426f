"""`headwater verify`: every row of a view, and of its sinks, against its SQL in Postgres. Exit code 0: equal."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.output import JsonOption, console, duration_text, line, print_json, table

if TYPE_CHECKING:
    from headwater.views.place import Place
    from headwater.views.verify import OnRows, Verified, Verifier
    from headwater.views.verify_sinks import SinkVerified
    from views.sinks.sink import SinkKind

EXAMPLES: Final = 5
FILLED_S_MAX: Final = 60.0
POLL_S: Final = 0.5
_TEXT_MAX: Final = 400


@dataclass(frozen=True)
class How:
    examples: int
    lock: bool
    as_json: bool


def register(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    views: Annotated[list[str] | None, typer.Argument(metavar="VIEW…", show_default=False)] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every view that is kept.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Build views that differ again, then verify them.")] = False,
    lock: Annotated[
        bool, typer.Option("--lock", help="Hold writers up for a moment to settle rows that never stand still.")
    ] = False,
    sinks: Annotated[bool, typer.Option(help="Compare what is in the sinks, too.")] = True,
    examples: Annotated[int, typer.Option("--examples", metavar="N", min=0, help="Rows to show.")] = EXAMPLES,
    as_json: JsonOption = False,
) -> None:
    """Compare every row with the same SQL in Postgres, while both go on. Exit code 1 when they differ."""
    from headwater.views.place import Place
    from headwater.views.verify import Verifier

    place = Place.here()
    deployment = place.deployment
    verifier = Verifier(deployment.postgres, deployment.kafka, deployment.source, place.registry)
    how = How(examples, lock, as_json)
    names = _names(place, views or [], all_=all_)
    paused = [name for name in names if repair and _is_paused(place, name)]
    found = {name: _one(verifier, name, how) for name in names if name not in paused}
    broken = [*paused, *(name for name, each in found.items() if not each.is_equal)]
    if repair and broken:
        found |= _repaired(place, verifier, broken, how)
    sunk = [each for name in names for each in _sinks(place, name, how)] if sinks else []
    is_equal = all(each.is_equal for each in found.values()) and all(each.is_equal for each in sunk)
    if as_json:
        told = [_object(each) for each in found.values()]
        print_json({"is_equal": is_equal, "views": told, "sinks": [_sink_object(each) for each in sunk]})
    if not is_equal:
        raise typer.Exit(1)


def _names(place: Place, views: list[str], *, all_: bool) -> list[str]:
    from cdc.errors import ConfigurationError

    if all_ == bool(views):
        raise ConfigurationError("name views, or --all", detail="one of the two", hint="headwater verify --all")
    return sorted(place.registry.wanted().views) if all_ else views


def _is_paused(place: Place, view: str) -> bool:
    """What is paused cannot be compared, only built again."""
    status = place.registry.state().views.get(view)
    return status is not None and status.state == "paused"


def _one(verifier: Verifier, view: str, how: How) -> Verified:
    with _progress(view, hidden=how.as_json) as on_rows:
        found = verifier.verify(view, examples=how.examples, lock=how.lock, on_rows=on_rows)
    if not how.as_json:
        _print(found)
    return found


def _sinks(place: Place, view: str, how: How) -> Iterator[SinkVerified]:
    """Every place that the view is written to, against the view's topic."""
    from headwater.sinks import sink_kinds
    from headwater.views.kept import Frontiers, open_view
    from headwater.views.verify_sinks import verify_sink
    from views.maintain.publisher import view_topic
    from views.sinks.following import ViewTopic

    deployment = place.deployment
    kept = open_view(place.registry, Frontiers(deployment.kafka, deployment.source).look(), view)
    topic = ViewTopic(deployment.kafka, view_topic(deployment.source, view))
    for name, kind in sink_kinds(deployment).items():
        if name not in kept.group.declared[view].sinks or not kind.holds_rows:
            continue
        sink = kind.open(kept.group.shape(view, deployment.source), _filled(kind, deployment.source.name, view))
        try:
            found = verify_sink(name, sink, kept.store, topic, how.examples)
        finally:
            sink.close()
        if not how.as_json:
            _print_sink(found)
        yield found


def _filled(kind: SinkKind, source: str, view: str) -> int:
    """The generation that readers use; waits for the first one, which may be on its way."""
    import time

    from cdc.errors import ViewError

    deadline = time.monotonic() + FILLED_S_MAX
    while (generation := kind.current(source, view)) is None:
        if time.monotonic() > deadline:
            raise ViewError(f"the {kind.name} of {view} is not filled", hint=f"headwater views {view}")
        time.sleep(POLL_S)
    return generation


def _sink_object(found: SinkVerified) -> dict[str, object]:
    from dataclasses import asdict

    return {**asdict(found), "is_equal": found.is_equal}


def _print_sink(found: SinkVerified) -> None:
    verdict = ("equal", "green") if found.is_equal else ("DIFFERENT", "bold red")
    line((f"{found.view} in the {found.sink}: ", "bold"), verdict, f", {found.rows:,} rows, up to {found.lsn}")
    if not found.is_equal:
        line(f"  {found.missing:,} missing, {found.extra:,} extra, {found.different:,} different")
        for each in found.examples:
            line(f"  {each}")


def _repaired(place: Place, verifier: Verifier, views: list[str], how: How) -> dict[str, Verified]:
    """Built again from the log, and published as a difference: readers never see a gap."""
    from headwater.cli.apply import follow
    from headwater.views.apply import apply_again, nobody

    if not place.registry.is_kept():
        raise nobody(place.registry.state())
    if not how.as_json:
        line(f"building again: {', '.join(views)}")
    follow(apply_again(place.registry, views), place.registry, quiet=how.as_json)
    return {view: _one(verifier, view, how) for view in views}


@contextmanager
def _progress(view: str, *, hidden: bool) -> Iterator[OnRows]:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    out = console(stderr=True)
    columns = (
        TextColumn(f"comparing {view}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("rows"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=out, transient=True, disable=hidden or not out.is_terminal) as bar:
        task = bar.add_task(view, total=None)
        yield lambda rows: bar.advance(task, rows)


def _print(found: Verified) -> None:
    verdict = _verdict(found)
    rows = f"{found.rows_postgres:,} rows in Postgres, {found.rows_view:,} in the view"
    line((f"{found.view}: ", "bold"), verdict, f", {rows}, up to {found.lsn}, in {duration_text(found.took_s)}")
    if found.is_equal:
        return
    more = " or more" if found.is_cut else ""
    counts = [(kind.value, f"{count:,}{more}") for kind, count in found.counts.items()]
    table(("rows that are", "count"), [*counts, ("not settled", found.unsettled)])
    if found.unsettled:
        line(f"some rows changed too often to be compared: headwater verify {found.view} --lock", stderr=True)
    for each in found.examples:
        line((f"{each.kind} ", "yellow"), each.key)
        for side, row in (("postgres", each.postgres), ("view", each.view)):
            if row is not None:
                line(f"  {side:8} {_shortened(row.decode())}")


def _verdict(found: Verified) -> tuple[str, str]:
    if found.is_equal:
        return "equal", "green"
    return ("DIFFERENT", "bold red") if any(found.counts.values()) else ("NOT SETTLED", "yellow")


def _shortened(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[: _TEXT_MAX - 1]}…"


def _object(found: Verified) -> dict[str, object]:
    return {
        "view": found.view,
        "is_equal": found.is_equal,
        "rows_postgres": found.rows_postgres,
        "rows_view": found.rows_view,
        **{kind.value: count for kind, count in found.counts.items()},
        "unsettled": found.unsettled,
        "is_cut": found.is_cut,
        "examples": [
            {"kind": each.kind, "key": each.key, "postgres": each.postgres, "view": each.view}
            for each in found.examples
        ],
        "lsn": found.lsn,
        "position": found.position,
        "rounds": found.rounds,
        "took_s": round(found.took_s, 3),
    }

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
    from headwater.views.verify import OnRows, Verified
    from headwater.views.verify_sinks import SinkVerified
    from headwater.views.verify_view import ViewVerified
    from views.rebuild import Checked

EXAMPLES: Final = 5
RUNS: Final = 20
_TEXT_MAX: Final = 400


@dataclass(frozen=True)
class How:
    examples: int
    lock: bool
    sinks: bool
    as_json: bool
    why: str
    by: str


def register(app: typer.Typer) -> None:
    app.command("verify")(verify)


def verify(
    views: Annotated[list[str] | None, typer.Argument(metavar="VIEW…", show_default=False)] = None,
    all_: Annotated[bool, typer.Option("--all", help="Every view that is kept.")] = False,
    repair: Annotated[
        bool,
        typer.Option("--repair", help="Write rows again that sinks have wrong; build views again that differ."),
    ] = False,
    lock: Annotated[
        bool, typer.Option("--lock", help="Hold writers up for a moment to settle rows that never stand still.")
    ] = False,
    sinks: Annotated[bool, typer.Option(help="Compare what is in the sinks, too.")] = True,
    sink: Annotated[str, typer.Option("--sink", metavar="SINK", help="With --generation: whose.")] = "",
    generation: Annotated[
        int | None, typer.Option("--generation", metavar="N", min=1, help="One generation of a sink, read or not.")
    ] = None,
    group: Annotated[str, typer.Option("--group", hidden=True, help="What it has computed, read or not.")] = "",
    examples: Annotated[int, typer.Option("--examples", metavar="N", min=0, help="Rows to show.")] = EXAMPLES,
    history: Annotated[bool, typer.Option("--history", help="What was verified, and what is wrong now.")] = False,
    last: Annotated[int, typer.Option("--last", metavar="N", min=1, help="Of the history: how many runs.")] = RUNS,
    why: Annotated[str, typer.Option("--why", hidden=True, help="For the history: who wants it.")] = "on demand",
    by: Annotated[str, typer.Option("--by", hidden=True, help="For the history: by whom.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Compare every row with the same SQL in Postgres, while both go on. Exit code 1 when they differ."""
    from headwater.cli.verify_history import print_history
    from headwater.views.place import Place

    place = Place.here()
    if generation is not None:
        _generation(place, views or [], sink, generation, as_json=as_json)
        return
    if group:
        _computed(place, views or [], group, as_json=as_json)
        return
    if history:
        print_history(place, views or [], last, as_json=as_json)
        return
    how = How(examples, lock, sinks, as_json, why, by)
    names = _names(place, views or [], all_=all_)
    paused = [name for name in names if repair and _is_paused(place, name)]
    found = {name: _one(place, name, how) for name in names if name not in paused}
    if repair:
        broken = [name for name, each in found.items() if each.view is not None and not each.view.is_equal]
        found |= _built_again(place, [*paused, *broken], how)
        found |= {name: _written_again(place, name, each, how) for name, each in found.items() if not each.is_equal}
    is_equal = all(each.is_equal for each in found.values())
    if as_json:
        told = [_object(each.view) for each in found.values() if each.view is not None]
        sunk = [_sink_object(sink) for each in found.values() for sink in each.sinks]
        print_json({"is_equal": is_equal, "views": told, "sinks": sunk})
    if not is_equal:
        if not as_json and not repair:
            line(f"headwater verify {' '.join(names)} --repair", stderr=True)
        raise typer.Exit(1)


def _generation(place: Place, views: list[str], sink: str, number: int, *, as_json: bool) -> None:
    """One generation of one sink of one view, before readers go over to it or after they left it."""
    from cdc.errors import ConfigurationError
    from headwater.rebuild_plans import sinks_of
    from headwater.sinks import sink_kinds
    from headwater.views.checking import check

    if len(views) != 1 or not sink:
        raise ConfigurationError(
            "name one view and its sink", hint="headwater verify listing_card --sink search --generation 2"
        )
    [name] = sinks_of(place, views[0], [sink])
    deployment = place.deployment
    kind = sink_kinds(deployment)[name]
    found = check(deployment.postgres, deployment.kafka, deployment.source, place.registry, kind, views[0], number)
    _print_checked(f"generation {number} of the {sink} of {views[0]}", found, as_json=as_json)


def _computed(place: Place, views: list[str], group: str, *, as_json: bool) -> None:
    """What was computed anew of a view, before readers have it."""
    from cdc.errors import ConfigurationError
    from headwater.views.checking import check_computed

    if len(views) != 1:
        raise ConfigurationError("name one view and the group that computed it", hint="headwater rebuild --list")
    at = place.deployment
    found = check_computed(at.postgres, at.kafka, at.source, place.registry, views[0], group)
    _print_checked(f"{views[0]} as it was computed", found, as_json=as_json)


def _print_checked(what: str, found: Checked, *, as_json: bool) -> None:
    if as_json:
        print_json({"is_equal": found.is_equal, "checked": found})
    else:
        verdict = ("equal", "green") if found.is_equal else ("DIFFERENT", "bold red")
        line((f"{what}: ", "bold"), verdict, f", {found.rows:,} rows")
        if found.detail:
            line(f"  {found.detail}")
    if not found.is_equal:
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


def _one(place: Place, view: str, how: How) -> ViewVerified:
    from contextlib import nullcontext

    from headwater.audit import audited, os_actor
    from headwater.views.verify_history import Why
    from headwater.views.verify_view import Asking, verify_view

    # It holds writers up, as no other comparison does.
    noted = audited(place.deployment, "verify --lock", view=view) if how.lock else nullcontext()
    with noted, _progress(view, hidden=how.as_json) as on_rows:
        return verify_view(
            place,
            view,
            Asking(Why(how.why), how.by or os_actor(), how.examples, how.lock),
            with_sinks=how.sinks,
            on_rows=on_rows,
            on_view=(lambda _: None) if how.as_json else _print,
            on_sink=(lambda _: None) if how.as_json else _print_sink,
        )


def _built_again(place: Place, views: list[str], how: How) -> dict[str, ViewVerified]:
    """From the log, and published as a difference: readers never see a gap."""
    from headwater.audit import audited
    from headwater.cli.apply import follow
    from headwater.views.apply import apply_again, nobody

    if not views:
        return {}
    if not place.registry.is_kept():
        raise nobody(place.registry.state())
    if not how.as_json:
        line(f"building again: {', '.join(views)}")
    with audited(place.deployment, "verify --repair", views=views):
        follow(apply_again(place.registry, views), place.registry, quiet=how.as_json)
    return {view: _one(place, view, how) for view in views}


def _written_again(place: Place, view: str, found: ViewVerified, how: How) -> ViewVerified:
    """Rows that only sinks have wrong, one by one; then all is compared once more."""
    from headwater.audit import audited, os_actor
    from headwater.cli.repair import print_repaired
    from headwater.views.repair import repair_keys

    keys = found.wrong_in_sinks()
    if not keys or (found.view is not None and not found.view.is_equal):
        return found
    with audited(place.deployment, "verify --repair", view=view, rows=len(keys)):
        repaired = repair_keys(place, view, [key.encode() for key in keys], os_actor())
    if not how.as_json:
        print_repaired(repaired)
    return _one(place, view, how)


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

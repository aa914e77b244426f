"""`headwater rebuild`: fill a view's sinks anew beside those that are read, prove them equal, switch.

The work is done by the process that keeps the views; this verb asks for it, shows it, and may be left at any time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.output import JsonOption, console, duration_text, line, print_json, table

if TYPE_CHECKING:
    from headwater.rebuilds import Planned
    from headwater.views.place import Place
    from views.maintain.orders import Verb
    from views.rebuild import Rebuild

POLL_S: Final = 0.3
STYLES: Final = {
    **dict.fromkeys(("done", "live", "verified", "ready"), "green"),
    **dict.fromkeys(("failed",), "bold red"),
    **dict.fromkeys(("running", "paused", "building", "catching up"), "yellow"),
}
ViewsArgument = Annotated[list[str] | None, typer.Argument(metavar="VIEW…", show_default=False)]
SinkOption = Annotated[list[str] | None, typer.Option("--sink", metavar="SINK", help="Only this one; repeatable.")]


def register(app: typer.Typer) -> None:
    app.command("rebuild")(rebuild)


def rebuild(
    views: ViewsArgument = None,
    sink: SinkOption = None,
    all_: Annotated[bool, typer.Option("--all", help="Every view that is kept.")] = False,
    origin: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="ORIGIN",
            help="topic: the view's own log (fastest). mirrors: computed anew from its tables as they are known here. "
            "log: computed anew from the change log. snapshot: computed anew from rows read from the source.",
        ),
    ] = "topic",
    switches: Annotated[bool, typer.Option("--switch/--no-switch", help="Switch readers once it is verified.")] = True,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    plan_only: Annotated[bool, typer.Option("--plan", help="Say what would happen, and stop.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it is over, or waits for a switch.")] = True,
    list_: Annotated[bool, typer.Option("--list", help="Rebuilds that are under way, and the last ones.")] = False,
    pause: Annotated[str, typer.Option("--pause", metavar="ID", help="Hold one that is under way.")] = "",
    resume: Annotated[str, typer.Option("--resume", metavar="ID", help="Let it go on.")] = "",
    cancel: Annotated[str, typer.Option("--cancel", metavar="ID", help="Give it up; no reader has seen it.")] = "",
    as_json: JsonOption = False,
) -> None:
    """Fill sinks anew beside those that are read, verify them row by row, and switch readers over in one step."""
    from headwater.views.place import Place
    from views.maintain.orders import Verb

    place = Place.here()
    for verb, id_ in ((Verb.PAUSE, pause), (Verb.RESUME, resume), (Verb.CANCEL, cancel)):
        if id_:
            _control(place, verb, id_, as_json=as_json)
            return
    if list_:
        _list(place, as_json=as_json)
        return
    plans = [
        each for view in _names(place, views or [], all_=all_) for each in _planned(place, view, sink, origin, switches)
    ]
    if not as_json:
        _print_plan(plans)
    if plan_only:
        if as_json:
            print_json({"plan": plans})
        return
    if not yes and not as_json and sys.stdin.isatty():
        typer.confirm("go on?", default=True, abort=True)
    ids = _begun(place, plans, switches=switches)
    if not wait:
        print_json({"rebuilds": ids}) if as_json else line(f"under way: {', '.join(ids)}; headwater rebuild --list")
        return
    _finish(_followed(place, ids, quiet=as_json), as_json=as_json)


def _names(place: Place, views: list[str], *, all_: bool) -> list[str]:
    from cdc.errors import ConfigurationError

    if all_ == bool(views):
        raise ConfigurationError("name views, or --all", detail="one of the two", hint="headwater rebuild --all")
    return sorted(place.registry.wanted().views) if all_ else views


def _planned(place: Place, view: str, sinks: list[str] | None, origin: str, switches: bool) -> Sequence[Planned]:
    from cdc.errors import ConfigurationError
    from headwater.rebuilds import plan, sinks_of
    from views.rebuild import Origin

    try:
        chosen = Origin(origin)
    except ValueError:
        raise ConfigurationError(
            f"no origin {origin}", detail=f"one of {', '.join(Origin)}", hint="headwater rebuild --help"
        ) from None
    return plan(place, view, sinks_of(place, view, sinks or ()), chosen, switches=switches)


def _print_plan(plans: Sequence[Planned]) -> None:
    for each in plans:
        line((f"{each.view}, {each.sink}", "bold"), f": about {duration_text(each.takes_s)}")
        for number, step in enumerate(each.steps, 1):
            takes = f"  (about {duration_text(step.takes_s)})" if step.takes_s else ""
            line(f"  {number}. {step.text}{takes}")
        if not each.sizes.is_measured:
            line(("  times are assumed: nothing of the kind was rebuilt here yet", "dim"))


def _begun(place: Place, plans: Sequence[Planned], *, switches: bool) -> list[str]:
    from headwater.audit import audited, os_actor
    from headwater.rebuilds import rebuild as begin

    ids: list[str] = []
    for view in dict.fromkeys(each.view for each in plans):
        mine = [each for each in plans if each.view == view]
        sinks, origin = [each.sink for each in mine], mine[0].origin
        with audited(place.deployment, "rebuild", view=view, sinks=sinks, origin=origin.value) as action:
            begun = begin(place, view, sinks, origin, switches=switches, by=os_actor())
            action.result = {"rebuilds": begun}
        ids += begun
    return ids


def _control(place: Place, verb: Verb, id_: str, *, as_json: bool) -> None:
    from headwater.audit import audited, os_actor
    from headwater.rebuilds import control

    with audited(place.deployment, f"rebuild {verb}", rebuild=id_):
        fact = control(place, verb, id_, os_actor())
    print_json({"done": fact}) if as_json else line(fact)


def _followed(place: Place, ids: Sequence[str], *, quiet: bool) -> list[Rebuild]:
    """Shows how far they are, until each is over or waits for somebody."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    from headwater.rebuilds import found, require_kept
    from views.rebuild import RebuildState

    out = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[pace]}"))
    try:
        with Progress(*columns, console=out, transient=True, disable=quiet or not out.is_terminal) as bar:
            bars = {id_: bar.add_task(id_, total=None, pace="") for id_ in ids}
            while True:
                known = found(place, ids)
                for each in known:
                    bar.update(
                        bars[each.id],
                        description=f"{each.view} {each.sink}: {each.stage}",
                        completed=each.done,
                        total=each.total or None,
                        pace=_pace(each),
                    )
                if all(each.is_over or each.state in (RebuildState.READY, RebuildState.PAUSED) for each in known):
                    return known
                require_kept(place)
                time.sleep(POLL_S)
    except KeyboardInterrupt:
        line("it goes on by itself: headwater rebuild --list", stderr=True)
        raise


def _pace(each: Rebuild) -> str:
    left = f", {duration_text(each.left_s)} left" if each.left_s else ""
    rate = f"{each.rows_per_s:,.0f} rows/s" if each.stage == "fill" and each.rows_per_s else ""
    return f"{rate}{left}{f' ({each.reason})' if each.reason else ''}"


def _finish(known: Sequence[Rebuild], *, as_json: bool) -> None:
    if as_json:
        print_json({"rebuilds": known})
    else:
        for each in known:
            _print_end(each)
    if any(each.state == "failed" for each in known):
        raise typer.Exit(1)


def _print_end(each: Rebuild) -> None:
    what = f"{each.view}, {each.sink}: "
    if each.state == "done":
        rows = f"{each.checked.rows:,} rows equal up to {each.checked.lsn}" if each.checked else ""
        line((what, "bold"), ("done", "green"), f", readers use generation {each.number}; {rows}")
        line(f"  generation {each.replaces} is kept fed: headwater rollback {each.view} --sink {each.sink}")
    elif each.state == "ready":
        line((what, "bold"), ("verified", "green"), f": headwater switch {each.view} --sink {each.sink}")
    else:
        line((what, "bold"), (str(each.state), "bold red"), f": {each.reason}")


def _list(place: Place, *, as_json: bool) -> None:
    from headwater.rebuilds import book

    known = sorted(book(place).rebuilds, key=lambda each: each.asked_at_s)[-30:]
    if as_json:
        print_json({"rebuilds": known})
        return
    if not known:
        line("nothing was ever rebuilt: headwater rebuild VIEW")
        return
    columns = ("id", "view", "sink", "generation", "from", "stage", "state", "done", "by", "reason")
    rows = [
        (
            each.id,
            each.view,
            each.sink,
            each.number,
            each.origin,
            each.stage,
            each.state,
            f"{each.done / each.total:.0%}" if each.total else "",
            each.asked_by,
            each.reason,
        )
        for each in known
    ]
    table(columns, rows, styles=STYLES)

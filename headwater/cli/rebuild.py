"""`headwater rebuild`: fill a view's sinks anew beside those that are read, prove them equal, switch.

The work is done by the process that keeps the views; this verb asks for it, shows it, and may be left at any time.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.output import JsonOption, ask, console, duration_text, line, print_json, table

if TYPE_CHECKING:
    from headwater.rebuild_plans import Chosen, Planned
    from headwater.rebuilds import Begun
    from headwater.views.place import Place
    from views.maintain.orders import Verb
    from views.rebuild import Origin, Rebuild

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
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask; needed away from a terminal.")] = False,
    plan_only: Annotated[bool, typer.Option("--plan", help="Say what would happen, and stop.")] = False,
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Until it is over, or waits for a switch.")] = True,
    list_: Annotated[bool, typer.Option("--list", help="Rebuilds that are under way, and the last ones.")] = False,
    pause: Annotated[str, typer.Option("--pause", metavar="ID", help="Hold one that is under way.")] = "",
    resume: Annotated[str, typer.Option("--resume", metavar="ID", help="Let it go on.")] = "",
    cancel: Annotated[
        str, typer.Option("--cancel", metavar="ID", help="Give it up; readers keep what they have.")
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Fill sinks anew beside those that are read, verify them row by row, and switch readers over in one step."""
    from headwater.rebuild_plans import plan
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
    chosen = _chosen(place, views or [], sink or [], _origin(origin), all_=all_)
    plans = [
        each
        for view, sinks in chosen.sinks.items()
        for each in plan(place, view, sinks, _origin(origin), switches=switches)
    ]
    if not as_json:
        _print_plan(plans)
        for view, why in chosen.left_out.items():
            line(f"{view} is left out: {why}", stderr=True)
    if plan_only:
        if as_json:
            print_json({"plan": plans, "left_out": chosen.left_out})
        return
    ask("go on?", yes=yes, as_json=as_json, default=True)
    begun = _begun(place, chosen, _origin(origin), switches=switches)
    _told(begun, wait=wait, as_json=as_json)
    if wait:
        _finish(_followed(place, begun.ids, quiet=as_json), begun, as_json=as_json)
    if begun.refused:
        raise typer.Exit(1)


def _chosen(place: Place, views: list[str], sinks: list[str], origin: Origin, *, all_: bool) -> Chosen:
    """Who names views wants all of them or none; who wants every view is told which are left out."""
    from cdc.errors import ConfigurationError
    from headwater.rebuild_plans import Chosen, all_views, sinks_of

    if all_ == bool(views):
        raise ConfigurationError("name views, or --all", detail="one of the two", hint="headwater rebuild --all")
    return all_views(place, sinks, origin) if all_ else Chosen({v: sinks_of(place, v, sinks) for v in views}, {})


def _origin(text: str) -> Origin:
    from cdc.errors import ConfigurationError
    from views.rebuild import Origin

    try:
        return Origin(text)
    except ValueError:
        raise ConfigurationError(
            f"no origin {text}", detail=f"one of {', '.join(Origin)}", hint="headwater rebuild --help"
        ) from None


def _print_plan(plans: Sequence[Planned]) -> None:
    for each in plans:
        line((f"{each.view}, {each.sink}", "bold"), f": about {duration_text(each.takes_s)}")
        for number, step in enumerate(each.steps, 1):
            takes = f"  (about {duration_text(step.takes_s)})" if step.takes_s else ""
            line(f"  {number}. {step.text}{takes}")
        if not each.sizes.is_measured:
            line(("  times are assumed: nothing of the kind was rebuilt here yet", "dim"))


def _begun(place: Place, chosen: Chosen, origin: Origin, *, switches: bool) -> Begun:
    from headwater.audit import audited, os_actor
    from headwater.rebuilds import rebuild as begin

    with audited(place.deployment, "rebuild", views=chosen.sinks, origin=origin.value) as action:
        begun = begin(place, chosen.sinks, origin, switches=switches, by=os_actor())
        action.result = {"rebuilds": begun.ids, "refused": begun.refusals}
    return begun


def _told(begun: Begun, *, wait: bool, as_json: bool) -> None:
    if as_json:
        if not wait:
            print_json({"rebuilds": begun.ids, "refused": begun.refused})
        return
    for each in begun.refused:
        line((f"{each.sink} of {each.view} is not rebuilt: ", "bold red"), each.why, stderr=True)
    if not wait:
        line(f"under way: {', '.join(begun.ids)}; headwater rebuild --list")


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
    unit = {"compute": "records", "fill": "rows"}.get(each.stage)
    rate = f"{each.rows_per_s:,.0f} {unit}/s" if unit and each.rows_per_s else ""
    return f"{rate}{left}{f' ({each.reason})' if each.reason else ''}"


def _finish(known: Sequence[Rebuild], begun: Begun, *, as_json: bool) -> None:
    if as_json:
        print_json({"rebuilds": known, "refused": begun.refused})
    else:
        for each in known:
            _print_end(each)
    if any(each.state in ("failed", "paused") for each in known):
        raise typer.Exit(1)


def _print_end(each: Rebuild) -> None:
    what = f"{each.view}, {each.sink}: "
    if each.state == "done":
        rows = f"{each.checked.rows:,} rows equal up to {each.checked.lsn}" if each.checked else ""
        line((what, "bold"), ("done", "green"), f", readers use generation {each.number}; {rows}")
        if each.checked and each.checked.detail:
            line(f"  {each.checked.detail}")
        line(f"  generation {each.replaces} is kept fed: headwater rollback {each.view} --sink {each.sink}")
        if each.computed:
            line(f"  so are its rows from before, unless it was rebuilt with others: headwater rollback {each.view}")
    elif each.state == "ready":
        line((what, "bold"), ("verified", "green"), f": headwater switch {each.view} --sink {each.sink}")
    else:
        line((what, "bold"), (str(each.state), "bold red"), f": {each.reason}")
        if each.state == "paused":
            line(f"  headwater rebuild --resume {each.id}")


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

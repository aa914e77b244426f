"""`headwater apply`: the views of the .sql files become the views that are kept."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from headwater.cli.output import JsonOption, ask, console, line, print_json, table
from headwater.cli.plan import EXIT_REFUSED, FolderArgument, OnlyOption, made, plan_object, print_plan

if TYPE_CHECKING:
    from headwater.views.apply import Applied
    from headwater.views.apply import Progress as ViewProgress
    from headwater.views.place import Place
    from headwater.views.plan_views import ViewsPlan
    from views.maintain.registry import Registry

RebuildOption = Annotated[
    list[str] | None, typer.Option("--rebuild", metavar="NAME", help="Build this view again; repeatable.")
]
WaitOption = Annotated[
    bool | None, typer.Option("--wait/--no-wait", help="Until the views are live; by default on a terminal.")
]


def register(app: typer.Typer) -> None:
    app.command("apply")(apply)


def apply(
    folder: FolderArgument = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    drop: Annotated[bool, typer.Option("--drop", help="Drop views that no file declares any more.")] = False,
    only: OnlyOption = None,
    rebuild: RebuildOption = None,
    wait: WaitOption = None,
    review: Annotated[
        bool, typer.Option("--review", help="Build changed views beside those that are read; say what would change.")
    ] = False,
    approve: Annotated[
        list[str] | None, typer.Option("--approve", metavar="NAME", help="Show a view that waits for it; repeatable.")
    ] = None,
    reject: Annotated[
        list[str] | None, typer.Option("--reject", metavar="NAME", help="Keep what is read instead; repeatable.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Keep the views that are declared. All of them or, when one is refused, none."""
    from headwater.views.apply import apply as apply_plan
    from headwater.views.place import Place

    place = Place.here()
    if approve or reject:
        _decided(place, approve or [], reject or [], as_json=as_json)
        return
    plan, sources = made(place, folder, only or (), rebuild or ())
    if plan.is_refused or not as_json:
        _show(plan, as_json=as_json)
    if plan.is_refused:
        line(("nothing was applied: ", "bold red"), "some views are refused", stderr=True)
        raise typer.Exit(EXIT_REFUSED)
    drop = _asked_to_drop(plan, drop=drop, yes=yes, as_json=as_json)
    if as_json:
        _show(plan, as_json=True)
    if not plan.pending and not drop:
        return
    from cdc.postgres import connect
    from headwater.audit import audited

    deployment = place.deployment
    with audited(deployment, "apply", **_acts(plan, drop=drop)), connect(deployment.postgres) as conn:
        applied = apply_plan(
            plan, sources, place.registry, conn, deployment.kafka, deployment.source, drop=drop, review=review
        )
    if not as_json:
        _told(applied)
    _followed(applied, place.registry, wait=wait, as_json=as_json)


def _decided(place: Place, approve: list[str], reject: list[str], *, as_json: bool) -> None:
    from headwater.audit import audited
    from headwater.views.apply import decide

    for views, verb in ((approve, "approve"), (reject, "reject")):
        if views:
            with audited(place.deployment, f"apply {verb}", views=views):
                decide(place.registry, views, approve=verb == "approve")
    if as_json:
        print_json({"approved": approve, "rejected": reject})
        return
    for views, what in ((approve, "readers go over to"), (reject, "readers stay with what they use of")):
        if views:
            line(f"{what} {', '.join(views)}")


def _show(plan: ViewsPlan, *, as_json: bool) -> None:
    if as_json:
        print_json(plan_object(plan))
    else:
        print_plan(plan)


def _acts(plan: ViewsPlan, *, drop: bool) -> dict[str, Any]:
    """What will be done, as the audit log keeps it."""
    from headwater.views.plan_views import Action

    dropped = [change.name for change in plan.having(Action.DROPPED)] if drop else []
    return {"views": [change.name for change in plan.pending], "dropped": dropped}


def _asked_to_drop(plan: ViewsPlan, *, drop: bool, yes: bool, as_json: bool) -> bool:
    from headwater.views.plan_views import Action

    names = [change.name for change in plan.having(Action.DROPPED)]
    if not names:
        return False
    if not drop:
        line(f"kept though no file declares it: {', '.join(names)}; headwater apply --drop drops it", stderr=True)
        return False
    ask(f"drop {', '.join(names)} with its rows and its topic?", yes=yes, as_json=as_json)
    return True


def _told(applied: Applied) -> None:
    if applied.views:
        line(f"applied {', '.join(applied.views)}")
    if applied.dropped:
        line(f"dropped {', '.join(applied.dropped)}")
    if applied.asked:
        line(f"read anew because they changed: {', '.join(applied.asked)}")


def _followed(applied: Applied, registry: Registry, *, wait: bool | None, as_json: bool) -> None:
    from headwater.views.apply import nobody

    if not registry.is_kept():
        if wait:
            raise nobody(registry.state())
        line("no process keeps the views yet: headwater up", stderr=True)
        return
    if applied.views and (sys.stdout.isatty() if wait is None else wait):
        follow(applied, registry, quiet=as_json)


def follow(applied: Applied, registry: Registry, *, quiet: bool = False) -> None:
    """Shows how far the views are until all are live; ends with exit code 1 if one is paused."""
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

    from headwater.views.apply import wait

    out = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    found: list[ViewProgress] = []
    with Progress(*columns, console=out, transient=True, disable=quiet or not out.is_terminal) as bar:
        bars = {view: bar.add_task(f"{view} waiting", total=None) for view in applied.views}
        for found in wait(applied, registry):
            for each in found:
                bar.update(
                    bars[each.view],
                    description=f"{each.view} {each.state}",
                    completed=each.done,
                    total=each.total or None,
                )
    stopped = [each for each in found if each.state not in ("live", "ready")]
    if not quiet:
        table(("view", "state", "reason"), [(each.view, each.state, each.reason) for each in found])
        _print_reviews(registry, [each.view for each in found if each.state == "ready"])
    if stopped:
        line("change what the reason names, then headwater apply", stderr=True)
        raise typer.Exit(1)


def _print_reviews(registry: Registry, views: list[str]) -> None:
    """What readers would see change, of views that wait for somebody to look."""
    known = registry.state().views
    rows = [(view, found) for view in views if (found := known[view].review) is not None]
    if not rows:
        return
    columns = ("view", "rows added", "removed", "changed", "equal", "columns added", "columns removed")
    counts = [
        (
            view,
            f"{found.added:,}",
            f"{found.removed:,}",
            f"{found.changed:,}",
            f"{found.equal:,}",
            ", ".join(found.columns_added),
            ", ".join(found.columns_removed),
        )
        for view, found in rows
    ]
    table(columns, counts)
    for _, found in rows:
        for example in found.examples:
            line(f"  {example}")
    names = " ".join(f"--approve {view}" for view, _ in rows)
    line(f"readers still use what was there: headwater apply {names}, or --reject")

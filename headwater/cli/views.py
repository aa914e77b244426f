"""`headwater views`: which views are kept, how they are, how fresh; with names, these and their sinks."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Final

import typer

from headwater.cli.output import JsonOption, bytes_text, duration_text, line, print_json, table

if TYPE_CHECKING:
    from headwater.views.place import Place
    from headwater.views_status import SinkLine
    from views.maintain.publisher import Frontier
    from views.maintain.staleness import Stale

STYLES: Final = {
    **dict.fromkeys(("live", "riding"), "green"),
    **dict.fromkeys(("paused", "failed", "down"), "bold red"),
    **dict.fromkeys(("building", "waiting", "following", "filling"), "yellow"),
}
SINK_COLUMNS: Final = ("view", "sink", "state", "to come", "commit to view", "view to sink", "incomplete", "reason")


def register(app: typer.Typer) -> None:
    app.command("views")(views)


@dataclass(frozen=True)
class ViewLine:
    view: str
    state: str
    rows: int | None
    bytes: int | None
    behind_s: float | None
    """Since the last commit that it includes."""
    position: str
    lsn: str
    group: str
    reason: str
    stale: Stale | None = None


def views(
    names: Annotated[list[str] | None, typer.Argument(metavar="[VIEW…]", help="Only these, with their sinks.")] = None,
    as_json: JsonOption = False,
) -> None:
    """The views that are kept: state, rows, how fresh, up to which commit. With names, their sinks, too."""
    from headwater.views.place import Place
    from headwater.views_status import SinkLine

    place = Place.here()
    lines = [each for each in look(place) if not names or each.view in names]
    is_kept, state = place.registry.is_kept(), place.registry.state()
    sinks = [SinkLine.of(each) for each in state.sinks if not names or each.view in names]
    if as_json:
        print_json({"is_kept": is_kept, "problem": state.problem, "views": lines, "sinks": sinks})
        return
    if not lines:
        line("no views; declare one in a .sql file, then headwater apply")
        return
    columns = ("view", "state", "rows", "size", "fresh", "position", "commit", "group", "reason")
    table(columns, [_row(each) for each in lines], styles=STYLES)
    if names and sinks:
        line("")
        table(SINK_COLUMNS, [_sink_row(each) for each in sinks], styles=STYLES)
    for each in lines:
        if each.stale is not None:
            line((f"{each.view} is stale", "bold red"), f": {each.stale.reason}")
    if not is_kept:
        line("no process keeps the views: headwater up", stderr=True)


def look(place: Place) -> list[ViewLine]:
    from headwater.views.kept import Frontiers
    from views.maintain.staleness import stale_views

    registry, deployment = place.registry, place.deployment
    state, frontiers = registry.state(), Frontiers(deployment.kafka, deployment.source).look()
    now_s, found = time.time(), []
    stale = stale_views(state, registry.gaps())
    for name in sorted(registry.wanted().views):
        status, frontier = state.views.get(name), frontiers.get(name)
        rows, size = _held(place, frontiers, name)
        found.append(
            ViewLine(
                name,
                status.state if status else "waiting",
                rows,
                size,
                _behind_s(frontier, now_s),
                str(frontier.position) if frontier else "",
                frontier.lsn if frontier else "",
                (frontier.group if frontier else "") or (status.group if status else ""),
                status.reason if status else "",
                stale.get(name),
            )
        )
    return found


def _held(place: Place, frontiers: dict[str, Frontier], view: str) -> tuple[int | None, int | None]:
    from cdc.errors import HeadwaterError
    from headwater.views.kept import open_view

    try:
        held = open_view(place.registry, frontiers, view).occupied()
    except HeadwaterError:  # it is being built or replaced: its state says so
        return None, None
    return held.rows, held.bytes


def _behind_s(frontier: Frontier | None, now_s: float) -> float | None:
    if frontier is None or frontier.committed_at_us is None:
        return None
    return max(0.0, now_s - frontier.committed_at_us / 1e6)


def _sink_row(each: SinkLine) -> tuple[object, ...]:
    view_ms, sink_ms = (("" if ms is None else duration_text(ms / 1000)) for ms in (each.view_ms, each.sink_ms))
    to_come = f"{each.behind_changes:,}"
    return each.view, each.sink, each.state, to_come, view_ms, sink_ms, each.incomplete or "", each.reason or each.stale


def _row(each: ViewLine) -> tuple[object, ...]:
    return (
        each.view,
        each.state,
        "" if each.rows is None else f"{each.rows:,}",
        "" if each.bytes is None else bytes_text(each.bytes),
        "" if each.behind_s is None else duration_text(each.behind_s),
        each.position,
        each.lsn,
        each.group,
        each.reason,
    )

"""Which panels each page of the console has, with what they show and how often they are looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from cdc.errors import HeadwaterError
from headwater import rebuilds
from headwater.feeding import fed
from headwater.pages import questions
from headwater.pages.alert_figures import AlertFigures, alert_figures
from headwater.pages.bars import bars
from headwater.pages.panels import Panel
from headwater.pages.path_picture import lane_kind, picture, view_kind
from headwater.pages.sql_text import difference
from headwater.views.verify_history import VIEW
from headwater.views.verify_view import history_of, verify_history
from views.generation import GenerationState
from views.maintain.registry import Review, ViewState
from views.rebuild import STAGES, Rebuild, first_stage

if TYPE_CHECKING:
    from headwater.pages.console import Console

CHANGES_SHOWN: Final = 20
OVER_SHOWN: Final = 20
RUNS_SHOWN: Final = 5
SLOW_S: Final = 5.0


def panels_of(console: Console, page: str, view: str = "", form_token: str = "") -> list[Panel]:
    """The health line is on every page. Of a page that there is not: that line alone."""
    found = [Panel("health", "panels/health.html", lambda: {"look": console.status})]
    makes = _PAGES.get(page)
    return found + (makes(console, view, form_token) if makes else [])


def _overview(console: Console, _view: str, _token: str) -> list[Panel]:
    return [
        Panel("path", "panels/path.html", lambda: path_values(console)),
        Panel("findings", "panels/findings.html", lambda: {"look": console.status}),
        Panel("servers", "panels/servers.html", lambda: {"look": console.status}, 2.0),
        Panel("changes", "panels/changes.html", lambda: changes_values(console)),
    ]


def _views(console: Console, _view: str, _token: str) -> list[Panel]:
    return [Panel("views", "panels/views.html", lambda: views_values(console), 2.0)]


def _view(console: Console, view: str, token: str) -> list[Panel]:
    return [
        Panel("review", "panels/review.html", lambda: review_values(console, view, token)),
        Panel("view-state", "panels/view_state.html", lambda: view_values(console, view)),
        Panel("generations", "panels/generations.html", lambda: generations_values(console, view, token)),
    ]


def _source(console: Console, _view: str, _token: str) -> list[Panel]:
    return [Panel("source", "panels/source.html", lambda: {"look": console.status}, 2.0)]


def _alerts(console: Console, _view: str, _token: str) -> list[Panel]:
    return [Panel("alerts", "panels/alerts.html", lambda: alerts_values(console), SLOW_S)]


_PAGES: Final[Mapping[str, Callable[[Console, str, str], list[Panel]]]] = {
    "overview": _overview,
    "views": _views,
    "view": _view,
    "source": _source,
    "alerts": _alerts,
}


def path_values(console: Console) -> dict[str, Any]:
    status = console.status
    return {"look": status, "picture": picture(status, console.trail.rates()) if status else None}


def changes_values(console: Console) -> dict[str, Any]:
    _, changes = console.feed.since(0)
    return {"changes": changes[-CHANGES_SHOWN:][::-1]}


def views_values(console: Console) -> dict[str, Any]:
    status = console.status
    views = status.views if status else None
    return {
        "views": views,
        "held": {view.name: console.kept.held(view.name) for view in views.views} if views else {},
        "late": console.kept.late() if views and views.views else None,
        "lane_kind": lane_kind,
        "view_kind": view_kind,
    }


def view_values(console: Console, name: str) -> dict[str, Any]:
    status = console.status
    lines = [view for view in status.views.views if view.name == name] if status else []
    return {
        "line": lines[0] if lines else None,
        "sinks": [sink for sink in status.views.sinks if sink.view == name] if status else [],
        "held": console.kept.held(name),
        "late": console.kept.late(),
        "lane_kind": lane_kind,
        "view_kind": view_kind,
    }


def review_values(console: Console, view: str, form_token: str) -> dict[str, Any]:
    """Of a changed definition that is built beside the one that readers use, until somebody has decided."""
    registry = console.kept.registry
    wanted, known = registry.wanted().views.get(view), registry.state().views.get(view)
    waits = wanted is not None and not wanted.is_reviewed
    is_ready = waits and known is not None and known.state is ViewState.READY
    return {
        "view": view,
        "form_token": form_token,
        "waits": waits,
        "is_ready": is_ready,
        "review": known.review or Review() if is_ready and known else None,
        "question": questions.of_view,
        "applied_at_s": wanted.applied_at_s if wanted else 0.0,
        "difference": difference(wanted.previous.text, wanted.text) if wanted and wanted.previous else [],
    }


@dataclass(frozen=True, slots=True)
class WrongRows:
    place: str
    rows: int
    examples: tuple[str, ...]
    is_view: bool
    """The view itself, not a sink: it has to be computed anew."""


def wrong_rows(console: Console, view: str) -> list[WrongRows]:
    """What was found wrong and not found right since, by place."""
    places = history_of(console.place).wrong().get(view, {})
    return [
        WrongRows(place, len(keys), tuple(f"{each.kind} {key}" for key, each in islice(keys.items(), 3)), place == VIEW)
        for place, keys in sorted(places.items())
    ]


@dataclass(frozen=True, slots=True)
class StageShown:
    name: str
    how: str
    """past, now or to come."""


def stages_of(rebuild: Rebuild) -> list[StageShown]:
    first, now = STAGES.index(first_stage(rebuild.origin)), STAGES.index(rebuild.stage)
    return [
        StageShown(stage.value, "past" if number < now else "now" if number == now else "to come")
        for number, stage in enumerate(STAGES)
        if number >= first
    ]


def generations_values(console: Console, view: str, form_token: str) -> dict[str, Any]:
    book = rebuilds.book(console.place)
    mine = [each for each in book.rebuilds if each.view == view]
    found, state = rebuilds.generations(console.place, view), console.place.registry.state()
    kept_with = rebuilds.kept_with(console.place, view)
    standby = {sink: book.standby(view, sink) for sink in {each.sink for each in found}}
    return {
        "view": view,
        "form_token": form_token,
        "under_way": [each for each in mine if not each.is_over],
        "over": sorted((each for each in mine if each.is_over), key=lambda each: -each.asked_at_s)[:OVER_SHOWN],
        "generations": [each for each in found if each.state is not GenerationState.RETIRED],
        "fed": {each.name: how for each in found if (how := fed(state, each)) is not None},
        "standby": {sink: each.name for sink, each in standby.items() if each is not None},
        "left": rebuilds.standing_by(console.place, view),
        "question": questions.of_view,
        "stages_of": stages_of,
        "paused_sinks": {each.sink for each in book.held if each.view == view and each.sink},
        "is_held": book.is_held(view),
        "together": [name for name in kept_with if book.is_held(name) == book.is_held(view)],
        "verifying": view in console.verifying,
        "repairing": view in console.repairing,
        "failures": {"verification": console.verifying.failed(view), "repair": console.repairing.failed(view)},
        "wrong": wrong_rows(console, view),
        "runs": verify_history(console.place, view, RUNS_SHOWN),
    }


def alerts_values(console: Console) -> dict[str, Any]:
    """A database that is away is told on the page, which goes on asking."""
    try:
        with console.source() as conn:
            figures = alert_figures(conn)
    except HeadwaterError as error:
        return {"figures": None, "problem": error.fact, "chart": None}
    return {"figures": figures, "problem": "", "chart": _chart(figures)}


def _chart(figures: AlertFigures) -> object:
    return bars([(f"{each.ago} min ago: {each.recorded}", each.recorded) for each in figures.minutes])

"""A view's generations in the console: plan a rebuild, begin it, hold it, switch, roll back, verify, pause.

Nothing here touches a sink: what is asked for is obeyed by the process that keeps the views (headwater/rebuilds.py).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from fastapi import APIRouter, Request, Response

from cdc.errors import ConfigurationError, HeadwaterError
from headwater import rebuilds
from headwater.audit import Action, audited
from headwater.events_log import get_log
from headwater.pages.console_actions import done
from headwater.pages.forms import Form
from headwater.pages.page_route import PageRoute
from headwater.views.verify_history import Why
from headwater.views.verify_view import Asking, verify_view
from views.maintain.orders import Verb
from views.rebuild import Origin

if TYPE_CHECKING:
    from headwater.pages.console import Console
    from headwater.pages.sessions import Session

_CONTROLS: Final[Mapping[str, Verb]] = {"hold": Verb.PAUSE, "go on": Verb.RESUME, "cancel": Verb.CANCEL}
"""Of a rebuild that is under way."""
_MOVES: Final[Mapping[str, Callable[..., str]]] = {"switch": rebuilds.switch, "rollback": rebuilds.rollback}


def router(console: Console) -> APIRouter:
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)

    @routes.get("/console/views/{view}/rebuild")
    async def plan(request: Request, view: str, sink: str = "", origin: str = "topic", switches: str = "") -> Response:
        """What would happen, how much is read and how long it should take: nothing has begun."""
        session = await console.gate.admit(request)
        chosen = _origin(origin)

        def planned() -> tuple[rebuilds.Planned, ...]:
            sinks = rebuilds.sinks_of(console.place, view, [sink] if sink else ())
            return rebuilds.plan(console.place, view, sinks, chosen, switches=switches == "on")

        plans = await asyncio.to_thread(planned)
        return console.page(
            request, "console/rebuild.html", session,
            view=view, sink=sink, origin=chosen.value, switches=switches == "on", plans=plans,
        )  # fmt: skip

    @routes.post("/console/views/{view}/rebuild")
    async def begin(request: Request, view: str) -> Response:
        session, form = await console.gate.admit_form(request)
        sink, chosen, switches = form.value("sink"), _origin(form.value("origin")), form.value("switches") == "on"

        def does(action: Action) -> str:
            sinks = rebuilds.sinks_of(console.place, view, [sink] if sink else ())
            ids = rebuilds.rebuild(console.place, view, sinks, chosen, switches=switches, by=session.actor)
            action.result = {"rebuilds": ids}
            return f"{', '.join(sinks)} of {view}: the rebuild is under way"

        return await done(
            console, request, session, "rebuild", does, f"console/views/{view}#generations",
            view=view, sink=sink, origin=chosen.value, switches=switches,
        )  # fmt: skip

    @routes.post("/console/views/{view}/do")
    async def act(request: Request, view: str) -> Response:
        session, form = await console.gate.admit_form(request)
        verb, does = _deed(console, session, view, form)
        return await done(
            console, request, session, verb, does, f"console/views/{view}#generations",
            view=view, sink=form.value("sink"), rebuild=form.value("rebuild"), generation=form.value("number"),
        )  # fmt: skip

    return routes


def _deed(console: Console, session: Session, view: str, form: Form) -> tuple[str, Callable[[Action], str]]:
    """What is asked for, as the audit log names it, and how it is done. Raises ConfigurationError."""
    place, by, asked, sink = console.place, session.actor, form.value("do"), form.value("sink")
    if asked in _CONTROLS:
        verb = _CONTROLS[asked]
        return f"rebuild {verb}", lambda _: rebuilds.control(place, verb, form.value("rebuild"), by)
    if asked in _MOVES:
        return asked, lambda _: _MOVES[asked](place, view, sink, by)
    if asked == "retire" and form.value("number").isdecimal():
        return "retire", lambda _: rebuilds.retire(place, view, sink, int(form.value("number")), by)
    if asked == "pause":
        return "pause", lambda _: rebuilds.pause(place, [view], sink, by)
    if asked == "resume":
        return "resume", lambda _: rebuilds.resume(place, [view], sink, by)
    if asked == "verify":
        return "verify begin", lambda _: _verify(console, session, view)
    raise ConfigurationError(f"there is no such thing to do: {asked!r}", hint="open the page again")


def _verify(console: Console, session: Session, view: str) -> str:
    """On a thread of its own, one at a time for each view: it may take minutes, and its result is in the history."""
    console.kept.view(view)
    if not console.verifying.begin(view):
        return f"{view} is being verified already"

    def run() -> None:
        try:
            with audited(console.deployment, "verify", actor=session.actor, view=view) as action:
                found = verify_view(console.place, view, Asking(Why.ON_DEMAND, session.actor))
                action.result = {"is_equal": found.is_equal}
        except HeadwaterError as error:  # it is in the history and in the audit log
            get_log("console").warning("verify failed", view=view, fact=error.fact, detail=error.detail)
        finally:
            console.verifying.end(view)

    threading.Thread(target=run, name=f"verify-{view}", daemon=True).start()
    return f"{view} is being verified, row by row: the result comes below"


class Verifying:
    """Which views are being verified by this process."""

    def __init__(self) -> None:
        self._lock, self._views = threading.Lock(), set[str]()

    def begin(self, view: str) -> bool:
        with self._lock:
            known = view in self._views
            self._views.add(view)
            return not known

    def end(self, view: str) -> None:
        with self._lock:
            self._views.discard(view)

    def __contains__(self, view: str) -> bool:
        return view in self._views


def _origin(text: str) -> Origin:
    try:
        return Origin(text)
    except ValueError:
        raise ConfigurationError(f"no origin {text}", detail=f"one of {', '.join(Origin)}") from None

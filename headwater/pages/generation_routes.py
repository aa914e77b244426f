"""A view's generations in the console: plan a rebuild, begin it, hold it, switch, roll back, verify, repair, pause; and
what becomes of a changed definition that waits.

Nothing here touches a sink: what is asked for is obeyed by the process that keeps the views (headwater/rebuilds.py).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple

from fastapi import APIRouter, Request, Response

from cdc.errors import ConfigurationError, HeadwaterError, ViewError
from headwater import rebuild_plans, rebuilds
from headwater.audit import Action, audited
from headwater.events_log import get_log
from headwater.pages import questions
from headwater.pages.console_actions import done
from headwater.pages.forms import Form
from headwater.pages.page_route import PageRoute
from headwater.views.apply import decide
from headwater.views.checking import verify_apart
from headwater.views.repair import known_wrong, repair_keys
from headwater.views.verify_history import Why
from headwater.views.verify_view import Asking
from views.maintain.orders import Verb
from views.rebuild import Origin

if TYPE_CHECKING:
    from headwater.pages.console import Console
    from headwater.pages.sessions import Session

_CONTROLS: Final[Mapping[str, Verb]] = {"hold": Verb.PAUSE, "go on": Verb.RESUME, "cancel": Verb.CANCEL}
"""Of a rebuild that is under way."""
_DECISIONS: Final = ("approve", "reject")
DIGITS_MAX: Final = 9
_MOVES: Final[Mapping[str, Callable[..., rebuilds.Moved]]] = {"switch": rebuilds.switch, "rollback": rebuilds.rollback}


def router(console: Console) -> APIRouter:
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)

    @routes.get("/console/views/{view}/rebuild")
    async def plan(request: Request, view: str, sink: str = "", origin: str = "topic", switches: str = "") -> Response:
        """What would happen, how much is read and how long it should take: nothing has begun."""
        session = await console.gate.admit(request)
        chosen = _origin(origin)

        def planned() -> tuple[rebuild_plans.Planned, ...]:
            sinks = rebuild_plans.sinks_of(console.place, view, [sink] if sink else ())
            return rebuild_plans.plan(console.place, view, sinks, chosen, switches=switches == "on")

        plans = await console.away(planned)
        return console.page(
            request, "console/rebuild.html", session,
            view=view, sink=sink, origin=chosen.value, switches=switches == "on", plans=plans,
        )  # fmt: skip

    @routes.post("/console/views/{view}/rebuild")
    async def begin(request: Request, view: str) -> Response:
        session, form = await console.gate.admit_form(request)
        sink, chosen, switches = form.value("sink"), _origin(form.value("origin")), form.value("switches") == "on"

        def does(action: Action) -> str:
            sinks = rebuild_plans.sinks_of(console.place, view, [sink] if sink else ())
            begun = rebuilds.rebuild(console.place, {view: sinks}, chosen, switches=switches, by=session.actor)
            action.result = {"rebuilds": begun.ids, "refused": begun.refusals}
            if begun.refused:
                fact = f"{len(begun.ids)} of {len(sinks)} rebuilds of {view} are under way"
                raise ViewError(fact, detail=begun.refusals, hint="headwater rebuild --list")
            return f"{', '.join(sinks)} of {view}: the rebuild is under way"

        return await done(
            console, request, session, "rebuild", does, f"console/views/{view}#generations",
            view=view, sink=sink, origin=chosen.value, switches=switches,
        )  # fmt: skip

    @routes.post("/console/views/{view}/do")
    async def act(request: Request, view: str) -> Response:
        session, form = await console.gate.admit_form(request)
        verb, does = _deed(console, session, view, form)
        back, others = f"console/views/{view}#generations", form.values("with")
        asks = questions.of_view(form.value("do"), view, form.value("sink"), form.value("number"), others)
        if (page := questions.unasked(console, request, session, form, asks, back)) is not None:
            return page
        return await done(
            console, request, session, verb, does, back,
            view=view, others=others, sink=form.value("sink"), rebuild=form.value("rebuild"),
            generation=form.value("number"),
        )  # fmt: skip

    return routes


def _deed(console: Console, session: Session, view: str, form: Form) -> tuple[str, Callable[[Action], str]]:
    """What is asked for, as the audit log names it, and how it is done. Raises ConfigurationError."""
    place, by, asked, sink = console.place, session.actor, form.value("do"), form.value("sink")
    if asked in _CONTROLS:
        verb = _CONTROLS[asked]
        return f"rebuild {verb}", lambda _: rebuilds.control(place, verb, form.value("rebuild"), by)
    if asked in _MOVES:
        number = _number(form)
        return asked, lambda action: _moved(action, _MOVES[asked](place, view, sink, by, number))
    if asked == "restore":
        return "rollback", lambda _: rebuilds.restore(place, view, form.value("group"))
    if asked == "retire" and (retired := _number(form)) is not None:
        return "generation retire", lambda _: rebuilds.retire(place, view, sink, retired, by)
    if asked == "pause":
        return "pause", lambda _: rebuilds.pause(place, [view, *form.values("with")], sink, by)
    if asked == "resume":
        return "resume", lambda _: rebuilds.resume(place, [view, *form.values("with")], sink, by)
    if asked == "verify":
        return "verify begin", lambda _: _verify(console, session, view)
    if asked == "repair":
        return "repair begin", lambda _: _repair(console, session, view)
    if asked in _DECISIONS:
        seen = _seen(view, form)
        return f"apply {asked}", lambda _: _decide(console, view, seen, approve=asked == "approve")
    raise ConfigurationError(f"there is no such thing to do: {asked!r}", hint="open the page again")


def _moved(action: Action, found: rebuilds.Moved) -> str:
    action.result = {"sinks": found.sinks}
    if found.left is not None:
        raise found.left
    return found.done


def _number(form: Form) -> int | None:
    """Of the generation that the page showed."""
    text = form.value("number")
    if not text:
        return None
    if not text.isdecimal() or len(text) > DIGITS_MAX:
        raise ConfigurationError(f"there is no generation {text[:40]}", hint="open the page again")
    return int(text)


def _seen(view: str, form: Form) -> dict[str, float]:
    """Which application of the view the page showed."""
    text = form.value("applied_at_s")
    try:
        return {view: float(text)} if text else {}
    except ValueError:
        raise ConfigurationError(f"{text[:40]!r} is no moment", hint="open the page again") from None


def _decide(console: Console, view: str, seen: Mapping[str, float], *, approve: bool) -> str:
    decide(console.place.registry, [view], approve=approve, seen=seen)
    return f"readers go over to the new {view}" if approve else f"readers stay with {view} as it was"


def _verify(console: Console, session: Session, view: str) -> str:
    console.kept.view(view)

    def verify(action: Action) -> None:
        niceness = console.deployment.settings.views.niceness
        is_equal = verify_apart(view, Asking(Why.ON_DEMAND, session.actor), niceness)
        action.result = {"is_equal": is_equal}

    if not _begun(console, session, "verify", view, console.verifying, verify):
        return f"{view} is being verified already"
    return f"{view} is being verified, row by row: the result comes below"


def _repair(console: Console, session: Session, view: str) -> str:
    rebuilds.require_kept(console.place)
    keys = known_wrong(console.place, view)
    if not keys:
        return f"nothing of {view} is known to be wrong in a sink"

    def repair(action: Action) -> None:
        found = repair_keys(console.place, view, keys, session.actor)
        action.result = {"is_equal": found.is_equal, "keys": len(found.keys)}

    if not _begun(console, session, "repair", view, console.repairing, repair):
        return f"{view} is being repaired already"
    return f"{len(keys):,} rows of {view} are written again: the result comes below"


def _begun(
    console: Console, session: Session, verb: str, view: str, busy: Busy, does: Callable[[Action], None]
) -> bool:
    """On a thread of its own, one at a time for each view: it may take minutes, and its result is in the history. Of
    one that failed there is none: the page says why until the next begins."""
    if not busy.begin(view):
        return False

    def run() -> None:
        failed: HeadwaterError | None = None
        try:
            with audited(console.deployment, verb, actor=session.actor, view=view) as action:
                does(action)
        except HeadwaterError as error:  # it is in the audit log
            failed = error
            get_log("console").warning(f"{verb} failed", view=view, fact=error.fact, detail=error.detail)
        except Exception as error:
            failed = HeadwaterError(f"{type(error).__name__}: {error}", hint="headwater logs api")
            get_log("console").error(f"{verb} failed", view=view, fact=failed.fact, exc_info=True)
        finally:
            busy.end(view, failed)

    threading.Thread(target=run, name=f"{verb}-{view}", daemon=True).start()
    return True


class Failed(NamedTuple):
    at_us: int
    error: HeadwaterError


class Busy:
    """Views that this process is at work on, and those of which the last work failed."""

    def __init__(self) -> None:
        self._lock, self._views, self._failed = threading.Lock(), set[str](), dict[str, Failed]()

    def begin(self, view: str) -> bool:
        with self._lock:
            known = view in self._views
            self._views.add(view)
            if not known:
                self._failed.pop(view, None)
            return not known

    def end(self, view: str, failed: HeadwaterError | None = None) -> None:
        with self._lock:
            self._views.discard(view)
            if failed is not None:
                self._failed[view] = Failed(time.time_ns() // 1000, failed)

    def failed(self, view: str) -> Failed | None:
        return self._failed.get(view)

    def __contains__(self, view: str) -> bool:
        return view in self._views


def _origin(text: str) -> Origin:
    try:
        return Origin(text)
    except ValueError:
        raise ConfigurationError(f"no origin {text}", detail=f"one of {', '.join(Origin)}") from None

"""What an administrator does in the console: every form of it. Each is traced (headwater/audit.py) under their name,
and leads back to a page that says what became of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from alerts import quiet
from alerts.delivery import listing
from cdc.errors import ConfigurationError, HeadwaterError
from headwater import dead_letters
from headwater.audit import Action, audited
from headwater.pages import questions
from headwater.pages.notices import Notice, leave
from headwater.pages.page_route import PageRoute
from headwater.pages.rendering import see_other

if TYPE_CHECKING:
    from headwater.pages.console import Console
    from headwater.pages.forms import Form
    from headwater.pages.sessions import Session

Does = Callable[[Action], str]
"""Does it, and says what was done."""


def router(console: Console) -> APIRouter:
    routes = APIRouter(route_class=PageRoute, include_in_schema=False)
    for add in (_add_letters, _add_alerts):
        add(routes, console)
    return routes


def _add_letters(routes: APIRouter, console: Console) -> None:
    @routes.post("/console/dead-letters")
    async def letters(request: Request) -> Response:
        session, form = await console.gate.admit_form(request)
        verb, shown = form.value("do"), tuple(form.values("id"))
        ids = [each.partition(dead_letters.VERSION)[0] for each in shown]
        chosen = dead_letters.Chosen(form.value("view"), form.value("sink"), shown)

        def replay(action: Action) -> str:
            found = dead_letters.replay(console.place, dead_letters.open_letters(console.place, chosen))
            action.result = {each.letter.id.short: each.outcome for each in found}
            taken = sum(each.outcome == dead_letters.TAKEN for each in found)
            if taken < len(found):
                wrong = next(each for each in found if each.outcome != dead_letters.TAKEN)
                raise ConfigurationError(f"{taken} of {len(found)} were taken", detail=wrong.reason)
            return f"{taken} taken"

        def drop(_action: Action) -> str:
            found = dead_letters.open_letters(console.place, chosen)
            dropped = dead_letters.drop(console.place, found)
            if len(dropped) < len(found):
                detail = "the others are closed, or about a newer row, by now"
                raise ConfigurationError(f"{len(dropped)} of {len(found)} were dropped", detail=detail)
            return f"{len(found)} dropped"

        does = {"replay": replay, "drop": drop}.get(verb)
        if does is None or not ids:
            raise ConfigurationError("choose letters, and what to do with them", hint="headwater deadletters list")
        if not all(each.partition(dead_letters.VERSION)[2] for each in shown):
            raise ConfigurationError("the form is out of date", detail="it does not say which rows it showed")
        asks = questions.LETTERS.get(verb, "")
        if (page := questions.unasked(console, request, session, form, asks, "console/dead-letters")) is not None:
            return page
        return await done(console, request, session, f"deadletters {verb}", does, "console/dead-letters", ids=ids)


def _add_alerts(routes: APIRouter, console: Console) -> None:
    @routes.post("/console/deliveries")
    async def deliveries(request: Request) -> Response:
        session, form = await console.gate.admit_form(request)
        chosen = _ids(form)

        def replay(action: Action) -> str:
            with console.source() as conn:
                found = listing.replay(conn, chosen)
            action.result = {"replayed": found}
            return f"{len(found)} are tried again"

        if not chosen:
            raise ConfigurationError("choose deliveries", hint="headwater deliveries list --state dead")
        return await done(
            console, request, session, "deliveries replay", replay, "console/alerts?state=dead", ids=chosen
        )

    @routes.post("/console/quiet")
    async def quiet_times(request: Request) -> Response:
        session, form = await console.gate.admit_form(request)
        view, reason = form.value("view") or None, form.value("reason")

        def begin(_action: Action) -> str:
            with console.source() as conn:
                quiet.begin(conn, view, reason)
            return f"{view or 'every view'} is quiet: what is committed from now on is not told"

        if form.value("do") != "end":
            return await done(
                console, request, session, "quiet begin", begin, "console/alerts", view=view, reason=reason
            )
        chosen = _ids(form)

        def end(_action: Action) -> str:
            with console.source() as conn:
                ended = quiet.end(conn, view, chosen[0] if chosen else None)
                told, others = ended.view or "every view", len(quiet.going_on(conn, ended.view or ""))
            return f"{told} stays quiet, by {others} more" if others else f"{told} is told of again"

        return await done(console, request, session, "quiet end", end, "console/alerts", view=view, id=chosen)


def _ids(form: Form) -> list[int]:
    return [int(id_) for id_ in form.values("id") if id_.isascii() and id_.isdigit() and len(id_) < 19]


async def done(
    console: Console, request: Request, session: Session, verb: str, does: Does, page: str, **arguments: object
) -> Response:
    """Does it away from the thread that answers, traced; then the page, with a notice that says how it went."""

    def traced() -> str:
        with audited(console.deployment, verb, actor=session.actor, **arguments) as action:
            return does(action)

    try:
        notice = Notice("ok", await console.away(traced))
    except HeadwaterError as error:
        notice = Notice("bad", error.fact, error.detail, error.hint)
    answer = see_other(request, page)
    leave(request, answer, notice)
    return answer

"""Rebuilds and generations, for the command line and the console alike: ask, look.

What a rebuild would do, rebuild_plans.py says. Everything is asked of the process that keeps the views
(views/maintain/orders.py) and read from its book; nothing here touches a sink.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from cdc.errors import ViewError
from headwater.rebuild_plans import require_beginning
from headwater.views.apply import apply_again, changed_since, go_back, nobody, read_anew, require_decided, wait
from headwater.views.place import Place
from views.generation import Generation, GenerationState
from views.maintain.book import Book
from views.maintain.orders import Answer, Order, Orders, SinkAnswer, Verb
from views.maintain.registry import Standby, ViewState
from views.rebuild import Origin, Rebuild

ANSWER_S_MAX: Final = 30.0
POLL_S: Final = 0.05


@dataclass(frozen=True)
class NotBegun:
    view: str
    sink: str
    why: str


@dataclass(frozen=True)
class Begun:
    """What became of one request, sink by sink."""

    ids: tuple[str, ...]
    """By which they are followed."""
    refused: tuple[NotBegun, ...] = ()

    @property
    def refusals(self) -> str:
        return "; ".join(f"{each.sink} of {each.view}: {each.why}" for each in self.refused)


def rebuild(
    place: Place,
    sinks: Mapping[str, Sequence[str]],
    origin: Origin = Origin.TOPIC,
    *,
    switches: bool = True,
    by: str = "",
) -> Begun:
    """Begins them, by view. Views that are computed anew are computed together, in one reading of the log. One that is
    refused keeps none of the others; raises ViewError when none has begun."""
    require_kept(place)
    chosen = [(view, sink) for view, mine in sinks.items() for sink in mine]
    for view, sink in chosen:
        if (known := book(place).under_way(view, sink)) is not None:  # before anything is computed for it
            raise ViewError(
                f"the {sink} of {view} is being rebuilt already",
                detail=f"rebuild {known.id}: {known.stage}, {known.state}",
                hint=f"headwater rebuild --cancel {known.id}",
            )
    at_s = _applied_at_s(place, list(sinks), origin)
    ids, refused, hint = list[str](), list[NotBegun](), ""
    for view, sink in chosen:
        order = Order(Verb.REBUILD, view, sink, by=by, origin=origin, switches=switches, applied_at_s=at_s)
        try:
            ask(place, order)
            ids.append(order.id)
        except ViewError as error:
            if len(chosen) == 1:
                raise
            refused.append(NotBegun(view, sink, error.summary))
            hint = hint or error.hint
            if book(place).answer(order.id) is None:  # nobody answers: the others are not waited for one by one
                break
    refused += [NotBegun(view, sink, "it was not asked for") for view, sink in chosen[len(ids) + len(refused) :]]
    begun = Begun(tuple(ids), tuple(refused))
    if refused and not ids:
        raise ViewError("no rebuild was begun", detail=begun.refusals, hint=hint)
    return begun


def control(place: Place, verb: Verb, id_: str, by: str = "") -> str:
    """Pauses, resumes or cancels a rebuild."""
    return ask(place, Order(verb, rebuild=id_, by=by)).fact


@dataclass(frozen=True)
class Moved:
    """What became of readers who were to go over, or back."""

    done: str
    sinks: tuple[SinkAnswer, ...] = ()
    """Where they go sink by sink; those of one that could not stay where they are."""
    left: ViewError | None = None
    """Of which sinks, and why."""


def switch(place: Place, view: str, sink: str = "", by: str = "", number: int | None = None) -> Moved:
    """To the generation of that number, if it is named: to no other, and not twice."""
    return _moved(place, Order(Verb.SWITCH, view, sink, by=by, number=number))


def rollback(place: Place, view: str, sink: str = "", by: str = "", number: int | None = None) -> Moved:
    """To what readers left last: the definition of the view, or generations of its sinks. Of a sink a number may be
    named, as for a switch."""
    standby = standing_by(place, view)
    if not sink and standby is not None and standby.since_s > _left_at_s(book(place), view):
        return Moved(restore(place, view))
    return _moved(place, Order(Verb.ROLLBACK, view, sink, by=by, number=number))


def _moved(place: Place, order: Order) -> Moved:
    """Raises ViewError when nobody went anywhere."""
    answer = answered(place, order)
    went = [each.fact for each in answer.sinks if each.is_done]
    if answer.is_done or not went:
        return Moved(done(answer).fact, answer.sinks)
    return Moved(", ".join(went), answer.sinks, refusal(answer))


def restore(place: Place, view: str, group: str = "") -> str:
    """Readers get the definition again that they left last, as soon as what was kept fed is at their position. Who
    names its group means no other, and asks once."""
    require_kept(place)
    if group and _is_asked_for(place, view, group):
        return f"readers of {view} go back to that definition already"
    standby = standing_by(place, view)
    if group and (standby is None or standby.group != group):
        raise changed_since(view, "the definition that was to come back is not the one that readers left last")
    if standby is None:
        raise ViewError(
            f"no earlier definition of {view} is kept",
            detail="one that readers left, and that is still kept fed",
            hint="headwater apply, with the definition as it was",
        )
    applied = go_back(place.registry, standby)
    deadline = time.monotonic() + ANSWER_S_MAX
    for [found] in wait(applied, place.registry):
        if found.state is ViewState.PAUSED:
            raise ViewError(f"view {view} is paused", detail=found.reason, hint=f"headwater views {view}")
        if time.monotonic() > deadline:
            return f"readers of {view} get the definition again that they left, once it is computed"
    return f"readers of {view} have the definition again that they left"


def _is_asked_for(place: Place, view: str, group: str) -> bool:
    """Whether that definition is wanted again, and has not failed to come."""
    wanted, status = place.registry.wanted().views.get(view), place.registry.state().views.get(view)
    if wanted is None or wanted.goes_back_to != group:
        return False
    is_known = status is not None and status.applied_at_s == wanted.applied_at_s
    return not (is_known and status and (status.failed or status.state is ViewState.PAUSED))


def standing_by(place: Place, view: str) -> Standby | None:
    """The definition that readers of a view left last, if it is kept fed."""
    return next((each for each in place.registry.state().standbys if each.view == view), None)


def _left_at_s(known: Book, view: str) -> float:
    """When readers left a generation that they could go back to. Of a rebuild that computed the view anew, when it was
    asked for: the generation that it left has the rows that were computed, too."""
    began = {
        (each.sink, each.replaces): each.asked_at_s
        for each in known.rebuilds
        if each.view == view and each.origin is not Origin.TOPIC
    }
    left = [each for each in known.generations if each.view == view and each.state is GenerationState.STANDBY]
    return max((began.get((each.sink, each.number), each.since_s) for each in left), default=0.0)


def retire(place: Place, view: str, sink: str, number: int, by: str = "") -> str:
    return ask(place, Order(Verb.RETIRE, view, sink, number=number, by=by)).fact


def pause(place: Place, views: Sequence[str], sink: str = "", by: str = "") -> str:
    return _each(place, Verb.HOLD, views, sink, by)


def resume(place: Place, views: Sequence[str], sink: str = "", by: str = "") -> str:
    return _each(place, Verb.RELEASE, views, sink, by)


def kept_with(place: Place, view: str) -> tuple[str, ...]:
    """Views that stand at one position with it, so that they are paused and go on together."""
    known = place.registry.state().views
    group = known[view].read_from if view in known else ""
    return tuple(sorted(name for name, each in known.items() if group and name != view and each.read_from == group))


def book(place: Place) -> Book:
    return place.registry.book()


def found(place: Place, ids: Sequence[str]) -> list[Rebuild]:
    known = book(place)
    return [each for id_ in ids if (each := known.rebuild(id_)) is not None]


def generations(place: Place, view: str = "") -> list[Generation]:
    """Those of the book, and what readers use where nobody has written that down yet."""
    known = list(book(place).generations)
    live = {(each.view, each.sink) for each in known if each.state is GenerationState.LIVE}
    known += [
        Generation(status.view, status.sink, status.generation, GenerationState.LIVE, 0.0)
        for status in place.registry.state().sinks
        if status.generation and status.mark is not None and (status.view, status.sink) not in live
    ]
    return sorted((each for each in known if view in ("", each.view)), key=lambda each: each.name)


def ask(place: Place, order: Order, timeout_s: float = ANSWER_S_MAX) -> Answer:
    """Gives an order and waits for its answer. Raises ViewError when it was refused, or nobody is there to obey."""
    return done(answered(place, order, timeout_s))


def done(answer: Answer) -> Answer:
    if not answer.is_done:
        raise refusal(answer)
    return answer


def refusal(answer: Answer) -> ViewError:
    return ViewError(answer.fact, detail=answer.detail, hint=answer.hint)


def answered(place: Place, order: Order, timeout_s: float = ANSWER_S_MAX) -> Answer:
    """Raises ViewError when nobody is there to obey."""
    require_kept(place)
    Orders(place.registry.folder).give(order)
    deadline = time.monotonic() + timeout_s
    while (answer := place.registry.book().answer(order.id)) is None:
        if time.monotonic() > deadline:
            raise ViewError(
                "the process that keeps the views does not answer",
                detail=f"{order.verb} of {order.view or order.rebuild}, for {timeout_s:g} s; it will be obeyed later",
                hint="headwater logs views",
            )
        time.sleep(POLL_S)
    return answer


def require_kept(place: Place) -> None:
    if not place.registry.is_kept():
        raise nobody(place.registry.state())


def _each(place: Place, verb: Verb, views: Sequence[str], sink: str, by: str) -> str:
    """Whole views together, because they may be kept together; sinks one by one."""
    if not sink:
        return ask(place, Order(verb, views[0], others=tuple(views[1:]), by=by)).fact
    return "; ".join(ask(place, Order(verb, view, sink, by=by)).fact for view in views)


def _applied_at_s(place: Place, views: Sequence[str], origin: Origin) -> float:
    """Has the views computed anew, if that is wanted: which application of them to wait for."""
    if origin is Origin.TOPIC:
        return 0.0
    require_decided(place.registry.wanted(), views)
    require_beginning(place, views, origin)
    if origin in (Origin.LOG, Origin.MIRRORS):
        return apply_again(place.registry, views, from_mirrors=origin is Origin.MIRRORS, is_compared=True).at_s
    from cdc.postgres import connect

    deployment = place.deployment
    with connect(deployment.postgres) as conn:
        return read_anew(place.registry, views, conn, deployment.kafka, deployment.source, is_compared=True).at_s

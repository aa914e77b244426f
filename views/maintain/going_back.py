"""Which generations readers go back to by one request, as the book tells it.

A sink that is named goes to the one that its readers left last; asked again it goes forward. Who names none means the
view: what has gone already stays, so that a request that some of its sinks could not obey is repeated safely. Only when
all have gone back they go forward, together. Who names the generation, too, goes nowhere else: asked again it stays.
"""

from __future__ import annotations

from typing import NamedTuple

from cdc.errors import ViewError
from views.generation import Generation
from views.maintain.book import Book
from views.maintain.orders import Order
from views.rebuild import Origin, Rebuild, RebuildState, Stage

ROLLBACK = "rollback"


class Chosen(NamedTuple):
    back: tuple[Generation, ...]
    """What readers go to."""
    stay: tuple[Generation, ...] = ()
    """What they are at already, and stay with."""


def chosen(book: Book, view: str, sink: str = "", number: int | None = None) -> Chosen:
    """Raises ViewError for a number that the readers of the sink neither use nor left last."""
    if sink:
        return _chosen_of_sink(book, view, sink, number)
    sinks = sorted({each.sink for each in book.generations if each.view == view})
    standbys = {each: found for each in sinks if (found := book.standby(view, each)) is not None}
    there = _arrived(book, view, standbys) or {name for name, each in standbys.items() if _is_newer(book, each)}
    if there == standbys.keys():
        there = set()
    stay = [live for name in sorted(there) if (live := book.live(view, name)) is not None]
    return Chosen(tuple(each for name, each in standbys.items() if name not in there), tuple(stay))


def _chosen_of_sink(book: Book, view: str, sink: str, number: int | None) -> Chosen:
    live, standby = book.live(view, sink), book.standby(view, sink)
    if number is not None and live is not None and live.number == number:
        return Chosen((), (live,))
    if number is not None and (standby is None or standby.number != number):
        uses = f"its readers use generation {live.number}; " if live else ""
        left = f"they left generation {standby.number} last" if standby else "none that they left is kept fed"
        raise ViewError(
            f"generation {number} of the {sink} of {view} is not the one to go back to",
            detail=f"{uses}{left}",
            hint=f"headwater generations {view}",
        )
    return Chosen((standby,) if standby else ())


def _arrived(book: Book, view: str, standbys: dict[str, Generation]) -> set[str]:
    """The sinks that did what the last request of the view asked, if others of them still could and did not."""
    requests: dict[str, list[Rebuild]] = {}
    for each in book.rebuilds:
        if each.view == view and is_rollback(each):
            requests.setdefault(_request(each), []).append(each)
    several = [each for each in requests.values() if len(each) > 1]
    last = max(several, key=lambda each: each[0].asked_at_s, default=[])
    left = [each for each in last if _is_left(each, standbys)]
    there = {each.sink for each in last if (live := book.live(view, each.sink)) and live.number == each.number}
    return there if left else set()


def _is_left(each: Rebuild, standbys: dict[str, Generation]) -> bool:
    standby = standbys.get(each.sink)
    return each.state is not RebuildState.DONE and standby is not None and standby.number == each.number


def _is_newer(book: Book, standby: Generation) -> bool:
    """Readers have gone back from it."""
    live = book.live(standby.view, standby.sink)
    return live is not None and standby.number > live.number


# A rollback is entered as a rebuild that has nothing to do but to switch


def entry(order: Order, generation: Generation, now_s: float) -> Rebuild:
    return Rebuild(
        f"{order.id}-{generation.sink}",
        *generation.name,
        Origin.TOPIC,
        order.at_s,
        order.by,
        Stage.SWITCH,
        began={Stage.SWITCH: now_s},
        reason=ROLLBACK,
    )


def is_rollback(entered: Rebuild) -> bool:
    return entered.id.endswith(f"-{entered.sink}")


def entered_for(book: Book, order: Order) -> list[Rebuild]:
    return [each for each in book.rebuilds if is_rollback(each) and _request(each) == order.id]


def _request(entered: Rebuild) -> str:
    return entered.id.removesuffix(f"-{entered.sink}")

"""The order of an erasure: the source, then the end of the rows everywhere, then what everybody remembers of them.

Nothing is erased before every view and every place includes the deletion: else a place would be told of the rows again.
Every step may be repeated; a second erasure finds what the first one left. Once the rows are gone from the source no
condition names the person any more, only keys: so who would not get on is looked for before, and what fails afterwards
says the keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final, Protocol, runtime_checkable

import psycopg

from cdc.errors import HeadwaterError, SinkError, SourceError, ViewError
from cdc.position import Lsn
from headwater.erasing.alert_places import AlertTable, VerifyNotes
from headwater.erasing.finding import delete_rows
from headwater.erasing.letting_go import let_go, require_archive
from headwater.erasing.log_places import LogArchive, LogTopic
from headwater.erasing.person import Person
from headwater.erasing.receipt import Line, Receipt
from headwater.erasing.view_places import CopiesOfState, LettersOfViews, PlaceOfView, Scans, TopicOfView
from headwater.sinks import sink_kinds
from headwater.views.apply import nobody
from headwater.views.kept import Frontiers, includes
from headwater.views.place import Place
from views.generation import Generation
from views.maintain.book import Book
from views.maintain.registry import State, ViewState
from views.rebuild import RebuildState
from views.sinks.board import read_board
from views.sinks.lane_status import LaneState, SinkStatus

INCLUDED_S_MAX: Final = 300.0
POLL_S: Final = 0.3
_GOING: Final = (LaneState.FOLLOWING, LaneState.RIDING)
_STUCK: Final = (LaneState.DOWN, LaneState.FAILED)
Report = Callable[[str], None]
Shown = Mapping[tuple[str, str], SinkStatus]
"""What readers use, by view and sink."""


class Holder(Protocol):
    """A place that may hold something of theirs."""

    @property
    def name(self) -> str: ...

    def count(self) -> int:
        """What is to be erased, once the rows are gone from the source."""

    def erase(self) -> Line: ...


@runtime_checkable
class Planned(Protocol):
    """One where the rows themselves are, too, until they leave with the deletion."""

    def planned(self) -> int: ...


def holders(place: Place, person: Person, since: Lsn | None) -> list[Holder]:
    """In the order in which they are erased: what is told of rows before the rows themselves are forgotten. Views are
    without them from `since` on; None while everything may have them."""
    deployment, scans = place.deployment, Scans(place, person)
    views = place.registry.wanted().views
    listed = {(status.view, status.sink) for status in read_board(deployment.kafka, deployment.source).values()}
    rows = [name for name, kind in sink_kinds(deployment).items() if kind.holds_rows]
    return [
        LogTopic(deployment, person),
        LogArchive(deployment, person),
        *(TopicOfView(place, person, scans, view) for view in sorted(views)),
        *(PlaceOfView(place, person, scans, view, sink) for view, sink in sorted(listed) if sink in rows),
        *(AlertTable(place, person, scans, table) for table in ("outbox", "notifications")),
        LettersOfViews(place, person, scans),
        VerifyNotes(place, person, scans),
        CopiesOfState(place, since),
    ]


def plan(place: Place, person: Person, report: Report = lambda _what: None) -> Receipt:
    """What is where, as it is now. Changes nothing."""
    lines = []
    for holder in holders(place, person, None):
        report(holder.name)
        lines.append(Line(holder.name, holder.planned() if isinstance(holder, Planned) else holder.count()))
    return _receipt(person, lines)


def erase(
    place: Place,
    person: Person,
    conn: psycopg.Connection,
    *,
    delete_source: bool,
    now: bool = False,
    report: Report = lambda _what: None,
) -> Receipt:
    """Raises SourceError while the source holds the rows, unless they are to be deleted there, too. `now`: the change
    log's topic is cut off behind them (letting_go.py says what may stand against that)."""
    if now:
        require_archive(place)
    if person.rows_in_source and not delete_source:
        raise SourceError(
            f"the source still holds {person.rows_in_source} rows",
            detail="whatever is erased before they are gone would come again",
            hint="delete them, then erase by --key; or --delete-source",
        )
    require_removed(place)
    require_going(place, now=now)
    report("source")
    deleted = delete_rows(conn, person) if person.rows_in_source else 0
    try:
        return _erase_rest(place, person, conn, deleted, now=now, report=report)
    except HeadwaterError as error:
        error.hint = "; then go on: ".join(filter(None, (error.hint, person.command(now=now))))
        raise


def _erase_rest(
    place: Place, person: Person, conn: psycopg.Connection, deleted: int, *, now: bool, report: Report
) -> Receipt:
    report("waiting until all views and places include it")
    since = wait_included(place, conn)
    if now:
        LogArchive(place.deployment, person).catch_up()
    done = [Line("source", person.rows_in_source, erased=deleted)]
    everywhere = holders(place, person, since)
    for holder in everywhere:
        report(holder.name)
        done.append(holder.erase())
    if now:
        report("cutting the change log off")
        gone = let_go(place, person)
        done = [gone if line.place == gone.place else line for line in done]
    report("looking again")
    counts = [0, *(holder.count() for holder in everywhere)]
    lines = [line.checked(found) for line, found in zip(done, counts, strict=True)]
    return replace(_receipt(person, lines), at=datetime.now(UTC))


def require_removed(place: Place) -> None:
    """Raises, before anything is erased, while something is written somewhere that nobody feeds any more: it would keep
    the rows, and no second look finds it."""
    left = sorted(each.name for each in place.registry.book().left())
    if left:
        told = [f"generation {number} of the {sink} of {view}" for view, sink, number in left]
        raise ViewError(
            "not everything that is over could be removed yet",
            detail=f"{'; '.join(told)}: it may hold their rows. Nothing was erased",
            hint="headwater views; it is removed as soon as its place can be asked: erase again then",
        )


def require_going(place: Place, *, now: bool = False) -> None:
    """Raises, before anything is erased, if a view, a place, or a generation beside the one that readers use would not
    include the deletion, or nobody knows when. A view that waits for its review goes on as it is read; it may only need
    the log."""
    registry = place.registry
    views = registry.wanted().views
    if not views:
        return
    if not registry.is_kept():
        raise nobody(registry.state())
    known, going = registry.state().views, (ViewState.LIVE,) if now else (ViewState.LIVE, ViewState.READY)
    states = {name: known[name].state if name in known else ViewState.WAITING for name in sorted(views)}
    still = [f"view {name} is {state}" for name, state in states.items() if state not in going]
    board = read_board(place.deployment.kafka, place.deployment.source)
    still += [
        f"{each.sink} of {each.view} is {each.state}"
        for _, each in sorted(board.items())
        if each.state not in _GOING or each.mark is None
    ]
    still += _beside_still(registry.book(), registry.state(), board)
    if still:
        raise ViewError(
            "not every view and place goes on",
            detail=f"{'; '.join(still)}: it would not include that the rows are gone. Nothing was erased",
            hint="headwater views; headwater resume VIEW what is paused, headwater rebuild --resume (or --cancel) ID a "
            "rebuild; wait for what is being built",
        )


def _beside_still(book: Book, state: State, shown: Shown) -> Iterator[str]:
    """Generations that readers may go over to, and that nobody feeds now."""
    beside = _beside(state)
    for each in _kept_beside(book, shown):
        rebuild, side = book.rebuild(each.rebuild), beside.get(each.name)
        if rebuild is not None and rebuild.state is RebuildState.PAUSED:
            yield f"rebuild {rebuild.id} of {_told(each)} is paused"
        elif side is not None and side.state in _STUCK:
            yield f"{_told(each)} is {side.state}"


def wait_included(place: Place, conn: psycopg.Connection) -> Lsn | None:
    """Until everything that is committed now is in every view, in every generation of every place of it, and in every
    definition of it that stands by: else that one would bring rows back. Up to where that is; None without views."""
    views = sorted(place.registry.wanted().views)
    if not views:
        return None
    if not place.registry.is_kept():
        raise nobody(place.registry.state())
    row = conn.execute("select pg_current_wal_insert_lsn()::text").fetchone()
    assert row is not None
    lsn = Lsn.parse(row[0])
    conn.execute("select headwater.tick_canary()")
    frontiers = Frontiers(place.deployment.kafka, place.deployment.source)
    for view in views:
        if frontiers.wait(view, includes(lsn), INCLUDED_S_MAX) is None:
            raise ViewError(f"view {view} does not include it yet", detail=f"asked for {lsn}", hint="headwater views")
    deadline = time.monotonic() + INCLUDED_S_MAX
    while behind := _behind(place, lsn):
        if time.monotonic() > deadline:
            raise SinkError(
                f"{', '.join(behind)}: does not include it yet", hint="headwater views; headwater generations"
            )
        time.sleep(POLL_S)
    return lsn


def _behind(place: Place, lsn: Lsn) -> list[str]:
    registry, board = place.registry, read_board(place.deployment.kafka, place.deployment.source)
    places = [f"{each.sink} of {each.view}" for each in board.values() if not _has(each, lsn)]
    book, state = registry.book(), registry.state()
    return [*places, *_beside_behind(book, state, board, lsn), *_standbys_behind(state, lsn)]


def _has(status: SinkStatus | None, lsn: Lsn) -> bool:
    return status is not None and status.mark is not None and Lsn.parse(status.mark.lsn) >= lsn


def _beside_behind(book: Book, state: State, shown: Shown, lsn: Lsn) -> Iterator[str]:
    """Their rows stay there until it has read that they are gone; or, of one that is over, until it is removed."""
    beside = _beside(state)
    yield from (_told(each) for each in _kept_beside(book, shown) if not _has(beside.get(each.name), lsn))
    yield from (f"{_told(each)} (still to be removed)" for each in book.left() if each.name[:2] in shown)


def _kept_beside(book: Book, shown: Shown) -> list[Generation]:
    """Of places that a view lists: what was written to others went with them."""
    return [each for each in book.fed() if (each.view, each.sink) in shown]


def _beside(state: State) -> dict[tuple[str, str, int], SinkStatus]:
    return {(each.view, each.sink, each.generation): each for each in state.beside}


def _told(each: Generation) -> str:
    return f"generation {each.number} of the {each.sink} of {each.view}"


def _standbys_behind(state: State, lsn: Lsn) -> list[str]:
    return [
        f"the definition of {each.view} that stands by"
        for each in state.standbys
        if (group := state.groups.get(each.group)) is None or Lsn.parse(group.lsn or "0/0") < lsn
    ]


def _receipt(person: Person, lines: Sequence[Line]) -> Receipt:
    return Receipt(
        str(person.table),
        person.keys,
        person.rows_in_source,
        len(person.values),
        person.shared,
        tuple(lines),
        person.command(),
    )

"""A view's topic, its places, and the copies of its state."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import lru_cache, partial
from pathlib import Path
from typing import Final

from cdc.errors import HeadwaterError, StateError
from cdc.position import Lsn
from cdc.topics import ensure_topic, topic_settings
from headwater.dead_letters import drop
from headwater.erasing.log_places import patiently
from headwater.erasing.person import Person
from headwater.erasing.receipt import Line
from headwater.sinks import sink_kinds
from headwater.views.compare import chosen
from headwater.views.kept import Frontiers, KeptView, open_view
from headwater.views.place import Place
from headwater.views.repair import tell_again
from headwater.views.view_sinks import topic_of
from views.lineage import parts
from views.maintain.copies import unfinished, without
from views.maintain.publisher import VIEW_TOPIC
from views.maintain.repairs import AskedKey
from views.sinks.following import change
from views.sinks.letters import COMPACTED_MS as LETTER_MS
from views.sinks.letters import DeadLetter, read_letters
from views.sinks.sink import GoneKeys, Sink
from views.sinks.wholeness import COMPACTED_MS

DELETE_RETENTION_MS: Final = 24 * 3_600_000
COPIED_S_MAX: Final = 300.0
POLL_S: Final = 0.3
KEYS_KNOWN_MAX: Final = 100_000
"""Of a view, whose they are is remembered for so many: places have millions."""


@dataclass(frozen=True)
class Scanned:
    """What a view's topic holds of them."""

    held: int
    """Records with a value of theirs."""
    records: int
    """Of those and of their keys, the ones that are not what the view says today."""
    gone: frozenset[bytes]
    """Keys of theirs that the topic says are gone: for days only, then it says nothing of them."""
    stuck: frozenset[bytes]
    """Keys whose newest record tells what the row was before: compaction keeps that one."""
    staying: int
    """Rows that hold one of the values today: they come from other rows of the source."""


def scan(place: Place, person: Person, view: str, is_mine: Callable[[bytes], bool]) -> Scanned:
    topic = topic_of(place, view)
    newest: dict[bytes, tuple[bool, bool]] = {}
    gone: set[bytes] = set()
    theirs: list[bytes] = []
    held = 0
    for piece in topic.records(0, topic.end()):
        for raw in piece:
            told = change(raw)
            was, now = person.holds(told.before), person.holds(told.after)
            newest[told.key] = was, now
            held += was or now
            (gone.discard if told.after is not None else gone.add)(told.key)
            if was or now or is_mine(told.key):
                theirs.append(told.key)
    mine = {key for key in gone if is_mine(key)}
    staying = {key for key, (_, now) in newest.items() if now}
    found = [key for key in theirs if key in mine or not is_mine(key)]
    stuck = {key for key, (was, now) in newest.items() if was and not now and key not in gone}
    left = sum(key not in staying for key in found)
    return Scanned(held, left, frozenset(mine), frozenset(stuck), len(staying))


@dataclass
class Scans:
    """Topics are read once for all places of a view."""

    place: Place
    person: Person
    _known: dict[str, Scanned] = field(default_factory=dict)
    _kept: dict[str, KeptView] = field(default_factory=dict)
    _owners: dict[str, Callable[[bytes], bool]] = field(default_factory=dict)

    def of(self, view: str) -> Scanned:
        if view not in self._known:
            self._known[view] = scan(self.place, self.person, view, self.owner_of(view))
        return self._known[view]

    def owner_of(self, view: str) -> Callable[[bytes], bool]:
        """Which keys of the view are theirs, by where its columns come from."""
        if view not in self._owners:
            uses = parts(self.kept(view).group.plans[view].root)
            self._owners[view] = lru_cache(KEYS_KNOWN_MAX)(partial(self.person.is_row, uses))
        return self._owners[view]

    def gone(self, view: str) -> GoneKeys:
        """Keys of theirs that the view has no row under, for whoever knows some, however long ago the row left it."""
        is_mine, kept = self.owner_of(view), self.kept(view)
        return GoneKeys(self.of(view).gone, lambda key: is_mine(key) and not has_row(kept, key))

    def kept(self, view: str) -> KeptView:
        if view not in self._kept:
            frontiers = Frontiers(self.place.deployment.kafka, self.place.deployment.source)
            self._kept[view] = open_view(self.place.registry, frontiers.look(), view)
        return self._kept[view]

    def anew(self, view: str) -> Scanned:
        self._known.pop(view, None)
        return self.of(view)


def has_row(kept: KeptView, key: bytes) -> bool:
    """Whether the view has a row under a key as its topic writes it: of other columns it has none. In doubt, as of a
    value that is none of the column's type by now, it has one: only what the topic tells is gone then."""
    if json.loads(key).keys() != set(kept.store.key):
        return False
    known = chosen(kept.store, [key])
    return not known or any(kept.read([each.encoded]) for each in known)


@dataclass(frozen=True)
class TopicOfView:
    place: Place
    person: Person
    scans: Scans
    view: str

    @property
    def name(self) -> str:
        return f"topic of {self.view}"

    def planned(self) -> int:
        return self.scans.of(self.view).held

    def count(self) -> int:
        return self.scans.anew(self.view).records

    def erase(self) -> Line:
        """Rows whose newest record tells of the old one are told again; then compaction takes the rest."""
        found = self.scans.anew(self.view)
        topic = topic_of(self.place, self.view)
        ensure_topic(self.place.deployment.kafka, topic.name, cleanup_policy="compact", config=VIEW_TOPIC)
        note = "by compaction"
        if found.stuck:
            note += self._told_again(found)
            found = self.scans.anew(self.view)
        if found.staying:
            note += f"; {found.staying} rows hold a value of theirs today, from other rows of the source"
        settings = topic_settings(self.place.deployment.kafka, topic.name)
        bound_ms = COMPACTED_MS + int(settings.get("delete.retention.ms", DELETE_RETENTION_MS))
        gone_by = datetime.now(UTC) + timedelta(milliseconds=bound_ms) if found.records else None
        return Line(
            self.name, found.records, pending=found.records, gone_by=gone_by, note=note if found.records else ""
        )

    def _told_again(self, found: Scanned) -> str:
        frontiers = Frontiers(self.place.deployment.kafka, self.place.deployment.source)
        store = self.scans.kept(self.view).store
        asked = [AskedKey(each.key, each.encoded) for each in chosen(store, sorted(found.stuck))]
        try:
            tell_again(self.place, frontiers, self.view, asked)
        except HeadwaterError as error:
            return f"; {len(asked)} rows tell of it until they next change: {error.fact}"
        return ""


@dataclass(frozen=True)
class PlaceOfView:
    """A sink, in every generation that is there."""

    place: Place
    person: Person
    scans: Scans
    view: str
    sink: str

    @property
    def name(self) -> str:
        return f"{self.sink} of {self.view}"

    def planned(self) -> int:
        return self.scans.of(self.view).staying + self.count()

    def count(self) -> int:
        gone = self.scans.gone(self.view)
        return sum(sink.remembered(gone, self.person.holds) for sink in self._sinks())

    def erase(self) -> Line:
        gone = self.scans.gone(self.view)
        done = sum(patiently(lambda sink=sink: sink.forget(gone, self.person.holds)) for sink in self._sinks())  # type: ignore[misc]
        return Line(self.name, done, erased=done)

    def _sinks(self) -> Iterator[Sink]:
        deployment, kind = self.place.deployment, sink_kinds(self.place.deployment)[self.sink]
        shape = self.scans.kept(self.view).group.shape(self.view, deployment.source)
        current = kind.current(deployment.source.name, self.view)
        fed = self.place.registry.book().fed()  # what nobody reads now may be gone back to
        beside = {each.number for each in fed if (each.view, each.sink) == (self.view, self.sink)}
        for number in sorted(beside | ({current} if current is not None else set())):
            with closing(kind.open(shape, number)) as sink:
                yield sink


@dataclass(frozen=True)
class LettersOfViews:
    place: Place
    person: Person
    scans: Scans
    name = "dead letters"

    def count(self) -> int:
        return len(self._theirs())

    def erase(self) -> Line:
        found = self._theirs()
        drop(self.place, found)
        gone_by = datetime.now(UTC) + timedelta(milliseconds=LETTER_MS + DELETE_RETENTION_MS) if found else None
        note = "closed; their text leaves the topic by compaction" if found else ""
        return Line(self.name, len(found), erased=len(found), gone_by=gone_by, note=note)

    def _theirs(self) -> list[DeadLetter]:
        found = read_letters(self.place.deployment.kafka, self.place.deployment.source)
        return [each for each in found if self.person.holds((each.row or "").encode()) or self._is_theirs(each)]

    def _is_theirs(self, letter: DeadLetter) -> bool:
        key = letter.key.encode()
        if letter.view not in self.place.registry.wanted().views:
            return self.person.holds(key)
        return self.scans.owner_of(letter.view)(key)


@dataclass(frozen=True)
class CopiesOfState:
    """Copies from before the end of the rows hold them. The next one is made by itself."""

    place: Place
    since: Lsn | None
    """A copy of this moment, or a later one, is without them; None: none is."""
    name = "copies of the state"

    def count(self) -> int:
        return len(self._old())

    def erase(self) -> Line:
        self._wait_finished()
        found = self._old()
        for folder in found:
            shutil.rmtree(folder, ignore_errors=True)
        return Line(self.name, len(found), erased=len(found), note="the next one is made by itself" if found else "")

    def _wait_finished(self) -> None:
        """What is being written may have been begun before: of which moment it is says it when it is there."""
        began, deadline = unfinished(self.place.registry.copies), time.monotonic() + COPIED_S_MAX
        while left := [str(each) for each in began if each.exists()]:
            if time.monotonic() > deadline:
                raise StateError(
                    "a copy of the state is still being written",
                    detail=", ".join(left),
                    hint="headwater status; what was cut off there goes when headwater up starts again",
                )
            time.sleep(POLL_S)

    def _old(self) -> list[Path]:
        return without(self.since, self.place.registry.copies)

"""The contract of a sink: a place outside where one view is kept by key.

    view topic ─▶ changes in its order ─▶ apply: newer version wins per key ─▶ mark: what the place now includes

A change's version is its offset in the view's topic: one order over everything that ever happens to a view, over
restarts, eras and changed definitions alike. Writing is idempotent, so a change may be applied again at any time; one
that is older than what the place holds for its key, a tombstone included, does nothing. The mark lies in the place
itself: a place that was emptied behind our back has none, and is filled again.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import msgspec

from cdc.errors import SinkUnavailable
from views.plan import Field


@dataclass(frozen=True)
class ViewShape:
    """What a sink is told of a view."""

    source: str
    view: str
    fields: tuple[Field, ...]
    key: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What WITH said in the view's declaration, in lower case."""


def nameless(source: str, view: str) -> ViewShape:
    """Of a view of which nobody knows more: enough to remove what was written of it."""
    return ViewShape(source, view, (), ())


class Change(NamedTuple):
    key: bytes
    """The key's columns as a JSON object: the record's key in the view's topic."""
    after: bytes | None
    """The row as JSON, as Postgres' row_to_json prints it; None when the row is gone."""
    version: int
    """Its offset in the view's topic."""
    before: bytes | None = None
    """The row as it was; None when there was none."""
    is_silent: bool = False
    """It tells what the view holds, not that somebody changed something: a view was built, or built again."""


class Mark(msgspec.Struct, frozen=True):
    """How far a place is."""

    topic_id: str
    """The incarnation of the view's topic that the offsets belong to."""
    next_offset: int
    """Everything before it in the view's topic is included."""
    since: int = 0
    """Where in the topic the view's present shape begins: what lies before it is of another, and not wanted."""
    era: int = 0
    offset: int = 0
    """With the era: the position in the change log up to which the view was computed."""
    lsn: str = "0/0"
    """The last commit that is included."""
    committed_at_us: int | None = None
    published_at_us: int = 0
    made_for: str = ""
    """What of the view's declaration the place was made for (`SinkKind.made_for`): for another it is filled anew."""

    @property
    def is_whole(self) -> bool:
        """What the place lacks is only what came since. Of one that is being filled no publication is known yet."""
        return self.published_at_us > 0


class Refused(NamedTuple):
    """A change that the place will never take: a dead letter. Only its key is held."""

    change: Change
    error: str


@dataclass(frozen=True)
class GoneKeys:
    """Keys that are to be forgotten, and that the view has no row under. A place looks for them among those that it
    knows: it remembers for longer than the view's topic tells that a row is gone."""

    told: frozenset[bytes]
    """Those of which the topic still tells."""
    is_gone: Callable[[bytes], bool]

    def __contains__(self, key: bytes) -> bool:
        return key in self.told or self.is_gone(key)


class Sink(ABC):
    """One generation of one view in one place. Not shared between threads, but for what `made` says."""

    @abstractmethod
    def prepare(self) -> None:
        """Makes what it needs. Idempotent."""

    @abstractmethod
    def mark(self) -> Mark | None:
        """What the place itself says that it includes; None if it is new or was emptied."""

    @abstractmethod
    def apply(self, changes: Sequence[Change], mark: Mark) -> list[Refused]:
        """Writes the changes, then the mark; afterwards readers see both.

        Raises SinkUnavailable when the place cannot take anything now: some of the changes may have been written, all
        are to be applied again. One that was emptied since it was last asked says so in this way, or has no mark
        afterwards: it must not claim what it lost.
        """

    def made(self, changes: Sequence[Change], *, is_seen: bool = True) -> Callable[[Mark], list[Refused]]:
        """`apply` in two steps: what can be done without the place is done here, while another thread may be writing
        what was made before. What need not be seen may become visible with what is written later."""
        return partial(self.apply, changes)

    def again(self, changes: Sequence[Change]) -> list[Refused]:
        """Writes changes that it refused before, and moves no mark: safe beside the lane that keeps the place, because
        newer wins. Raises SinkUnavailable for a place that is empty: it is being filled, with these as well."""
        mark = self.mark()
        if mark is None:
            raise SinkUnavailable("the place is empty", hint="headwater views: it is being filled")
        return self.apply(changes, mark)

    @abstractmethod
    def rows(self) -> Iterator[bytes]:
        """Every row as JSON, in any order: what `verify` compares."""

    @abstractmethod
    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The rows of these keys, as readers find them; a key without a row is left out. For some hundreds of keys."""

    def remembered(self, gone: GoneKeys, is_theirs: Callable[[bytes], bool]) -> int:
        """What it still knows of rows that are gone or were replaced: tombstones of these keys, and, where it keeps
        versions, those of the keys and those that are theirs."""
        return 0

    def forget(self, gone: GoneKeys, is_theirs: Callable[[bytes], bool]) -> int:
        """Forgets that; how many there were. Only once the place includes the end of those rows."""
        return 0

    @abstractmethod
    def drop(self) -> None:
        """Removes this generation. Idempotent."""

    @abstractmethod
    def close(self) -> None: ...


class TendedSink(Sink):
    """One that needs upkeep."""

    @abstractmethod
    def tend(self) -> None:
        """What is due of it. Called now and then, between two applications."""


class HistorySink(TendedSink):
    """One that keeps every version of a row, not only the newest."""

    @abstractmethod
    def apply(self, changes: Sequence[Change], mark: Mark, steps: Sequence[Mark] = ()) -> list[Refused]:
        """`steps` are the marks that were passed on the way to `mark`, in order: when each version came."""

    def inherit(self, other: Sink) -> Iterator[int]:
        """Takes over what `other`, an older generation of the same place, knows of the past and the view's topic no
        longer does: piece by piece, each told with how many versions it brought. Cut off, it goes on where it was."""
        return iter(())


class SinkKind(ABC):
    """A place of the deployment, such as its Redis. Frozen and picklable: it travels to Spark's tasks."""

    name: str
    interval_s: float = 0.0
    """At most one application in that time: for a place where each costs much. It follows, and never rides."""
    holds_rows: bool = True
    """Whether readers find the view's rows there, so that they can be verified."""
    rows_per_apply_max: int | None = None
    """Of a longer stretch of the topic; None leaves it to the lane."""

    @abstractmethod
    def open(self, shape: ViewShape, generation: int) -> Sink: ...

    @abstractmethod
    def made_for(self, shape: ViewShape) -> str:
        """What of the shape the rows are written by here, as a fingerprint: rows written by another are no use, even
        where the view's own are the same. Columns and their types need not be in it: others are told anew (`since`)."""

    @abstractmethod
    def current(self, source: str, view: str) -> int | None:
        """The generation that readers use; None before there is one."""

    @abstractmethod
    def switch(self, source: str, view: str, generation: int | None) -> None:
        """Readers use another generation, or none any more. In one step."""


def fingerprint(*parts: object) -> str:
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:16]

"""A view kept in Elasticsearch: one index a generation, rows by key, tombstones, and the mark.

    changes ─▶ newest a key ─▶ documents ─▶ bulks, versions compared by the server ─▶ refresh ─▶ mark

- A row that is gone leaves a tombstone: a document with its version that searches leave out. Elasticsearch itself
  forgets a deleted version after a minute, and a late writer could then bring the row back. `purge` forgets tombstones
  older than TOMBSTONE_HORIZON_S. Nothing is lost by it: who replays the view's topic from before the row's end also
  meets its end, and no request is under way for that long.
- The mark is a document of the index, written after its changes are visible, and only over the one that was there: an
  index that was emptied while we wrote says so at the next mark, instead of claiming what it lost.
- With a mark the place includes everything before it, whoever was cut off where: all of it is applied again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

import msgspec
from elasticsearch import ApiError, BadRequestError, Elasticsearch, TransportError

from cdc.errors import SinkError
from search.address import ElasticsearchAddress
from search.bulk import (
    BLOCKED_RETRY_AFTER_S,
    BYTES_MAX,
    RETRY_AFTER_S,
    Fate,
    Item,
    Outcome,
    delete_lines,
    document_id,
    index_lines,
    key_of,
    send,
    unavailable,
    waiting,
)  # fmt: skip
from search.compile import EVERYTHING, live
from search.documents import DocumentBuilder
from search.elements import ELEMENTS_MAX
from search.generations import Generations, IndexNames
from search.index import ELEMENT_LEVELS_MAX, IndexDefinition, define
from search.marks import MarkKeeper
from search.scan import scan
from views.sinks.sink import Change, GoneKeys, Mark, Refused, SinkKind, TendedSink, ViewShape, fingerprint

TOMBSTONE_HORIZON_S: Final = 7 * 24 * 3600
PURGE_INTERVAL_S: Final = 3600
ATTEMPTS_MAX: Final = 4
BACKOFF_S: Final = 0.1
"""Before the second attempt; doubled each time."""
FIELDS_MAX: Final = 1_000
NESTED_FIELDS_MAX: Final = 50
"""Both unless a view has more columns: Elasticsearch's own limits."""


@dataclass(frozen=True)
class IndexSettings:
    shards: int = 1
    replicas: int = 0
    refresh_interval: str = "-1"
    """Each write refreshes what it touched, so the server need not by itself."""


@dataclass(frozen=True)
class ElasticsearchKind(SinkKind):
    address: ElasticsearchAddress
    settings: IndexSettings = IndexSettings()

    name = "search"
    rows_per_apply_max = 20_000
    """While it follows: each application waits for its last request, a refresh and the mark."""

    def open(self, shape: ViewShape, generation: int) -> ElasticsearchSink:
        return ElasticsearchSink(self.address.client(), define(shape), generation, self.settings)

    def made_for(self, shape: ViewShape) -> str:
        return fingerprint(define(shape).meta())

    def current(self, source: str, view: str) -> int | None:
        with self.address.client() as client:
            return Generations(client, IndexNames(source, view)).current()

    def switch(self, source: str, view: str, generation: int | None) -> None:
        with self.address.client() as client:
            Generations(client, IndexNames(source, view)).switch(generation)


class ElasticsearchSink(TendedSink):
    def __init__(
        self,
        client: Elasticsearch,
        definition: IndexDefinition,
        generation: int,
        settings: IndexSettings,
        sleep: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.definition = definition
        self._client = client
        self._builder = DocumentBuilder(definition)
        self._settings = settings
        self._sleep, self._clock = sleep, clock
        names = IndexNames(definition.source, definition.view)
        self.index = names.index(generation)
        self._write_alias = names.write_alias(generation)
        self._marks = MarkKeeper(client, self.index, self._write_alias)
        self._purged_at: float | None = None

    def prepare(self) -> None:
        """Raises SinkError for an index that was made for another shape or another analysis of text."""
        try:
            self._create()
        except BadRequestError as error:
            if error.error != "resource_already_exists_exception":
                raise unavailable(error) from error
            self._check_meta()
        except (ApiError, TransportError) as error:
            raise unavailable(error) from error

    def _create(self) -> None:
        """A new index has no mark, whatever was known of one before it."""
        mapping = self.definition.mapping()
        nested = ELEMENT_LEVELS_MAX * len(self.definition.documents)
        fields = 4 * len(self.definition.columns) + 8 * nested + 20
        self._client.indices.create(
            index=self.index,
            mappings=mapping,
            aliases={self._write_alias: {}},
            settings={
                "number_of_shards": self._settings.shards,
                "number_of_replicas": self._settings.replicas,
                "refresh_interval": self._settings.refresh_interval,
                "mapping": {
                    "total_fields": {"limit": max(FIELDS_MAX, fields)},
                    "nested_fields": {"limit": max(NESTED_FIELDS_MAX, nested)},
                    "nested_objects": {"limit": ELEMENTS_MAX},
                },
            },
        )
        self._marks.forget()

    def _check_meta(self) -> None:
        try:
            found = self._client.indices.get_mapping(index=self.index)
        except (ApiError, TransportError) as error:
            raise unavailable(error) from error
        if found[self.index]["mappings"].get("_meta") != self.definition.meta():
            raise SinkError(
                f"the index {self.index} was made for another shape of {self.definition.view}",
                detail="its columns, its text analysis or its language are not those of today",
                hint=f"headwater apply --rebuild {self.definition.view}",
            )

    def mark(self) -> Mark | None:
        return self._marks.read()

    def apply(self, changes: Sequence[Change], mark: Mark) -> list[Refused]:
        refused: list[Refused] = []
        self._write_all(self._bulks(changes, refused), refused)
        self._marks.write(mark)
        return refused

    def made(self, changes: Sequence[Change], *, is_seen: bool = True) -> Callable[[Mark], list[Refused]]:
        """Its documents are made; what is left is to send them. A refresh writes a segment, and every new row is looked
        for in all of them, so what nobody reads yet has few."""
        unfit: list[Refused] = []
        bulks = [items for items, _ in self._bulks(changes, unfit)]

        def write(mark: Mark) -> list[Refused]:
            refused = list(unfit)
            for number, items in enumerate(bulks, 1):
                self._write(items, refused, refresh=is_seen and number == len(bulks))
            if is_seen and not bulks:
                self._refresh()  # what was written before, and not seen yet
            self._marks.write(mark)
            return refused

        return write

    def again(self, changes: Sequence[Change]) -> list[Refused]:
        """Without the mark: the lane may be moving it. The alias for writing says whether there is an index."""
        refused: list[Refused] = []
        self._write_all(self._bulks(changes, refused), refused)
        return refused

    def _write_all(self, bulks: Iterator[tuple[list[Item], bool]], refused: list[Refused]) -> None:
        """While a request is under way the next one is made. Visible at the end.

        Two under way at once let Elasticsearch write two segments a refresh, and spend half as much again on merging.
        """
        items, is_last = next(bulks, ([], True))
        if is_last:
            if items:
                self._write(items, refused, refresh=True)
            return
        with ThreadPoolExecutor(1) as sender:
            under_way = sender.submit(self._write, items, refused)
            for items, _ in bulks:
                under_way.result()
                under_way = sender.submit(self._write, items, refused)
            under_way.result()
        self._refresh()

    def _refresh(self) -> None:
        try:
            self._client.indices.refresh(index=self.index)
        except (ApiError, TransportError) as error:
            raise unavailable(error) from error

    def _bulks(self, changes: Sequence[Change], refused: list[Refused]) -> Iterator[tuple[list[Item], bool]]:
        """The newest change of each key, in requests of a limited size; and whether each is the last."""
        items: list[Item] = []
        size = 0
        for change in newest(changes):
            body = self._body(change, refused)
            if items and size + len(body) > BYTES_MAX:
                yield items, False
                items, size = [], 0
            if body:
                items.append(Item(change, body))
                size += len(body)
        if items:
            yield items, True

    def _body(self, change: Change, refused: list[Refused]) -> bytes:
        """Nothing for a row that is no document of this index."""
        if change.after is None:
            gone = b'{"gone":true,"gone_at":%d}' % int(self._clock() * 1000)
            return index_lines(change.key, change.version, gone)
        try:
            return index_lines(change.key, change.version, self._builder.encoded(change.after))
        except (ValueError, TypeError, ArithmeticError, msgspec.MsgspecError) as error:
            refused.append(Refused(change, f"{type(error).__name__}: {error}"))
            return b""

    def _write(self, items: Sequence[Item], refused: list[Refused], *, refresh: bool = False) -> None:
        """Only what failed is sent again, a few times."""
        left = list(items)
        for attempt in range(ATTEMPTS_MAX):
            if attempt:
                self._sleep(BACKOFF_S * 2 ** (attempt - 1))
            outcomes = send(self._client, self._write_alias, left, refresh=refresh)
            pairs = list(zip(left, outcomes, strict=True))
            refused += [Refused(i.change, o.reason) for i, o in pairs if o.fate is Fate.REFUSED]
            left = [i for i, o in pairs if o.fate not in (Fate.DONE, Fate.REFUSED)]
            if not left:
                return
            _stop_if_hopeless(outcomes)
        raise waiting(
            f"Elasticsearch did not take {len(left)} of {len(items)} rows", outcomes[-1].reason, RETRY_AFTER_S
        )

    def rows(self) -> Iterator[bytes]:
        for hit in scan(self._client, self.index, live(EVERYTHING), stored=("row",)):
            yield hit["fields"]["row"][0].encode()

    def read(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """By a search, so that what is not visible yet is not found either."""
        known = {document_id(key): key for key in keys}
        query = {"bool": {"filter": [live(EVERYTHING), {"ids": {"values": list(known)}}]}}
        found = scan(self._client, self.index, query, stored=("row",)) if known else ()
        return {known[hit["_id"]]: hit["fields"]["row"][0].encode() for hit in found}

    def purge(self, horizon_s: float = TOMBSTONE_HORIZON_S) -> int:
        """Forgets tombstones older than the horizon; how many there were. Safe beside a writer: a key that was written
        again in the meantime stays as it is."""
        old = {"range": {"gone_at": {"lt": int((self._clock() - horizon_s) * 1000)}}}
        nothing = Change(b"", None, 0)
        found = [
            Item(nothing, delete_lines(hit["_id"], hit["_version"]))
            for hit in scan(self._client, self.index, old, version=True)
        ]
        for start in range(0, len(found), 10_000):
            self._write(found[start : start + 10_000], [], refresh=True)
        return len(found)

    def remembered(self, gone: GoneKeys, is_theirs: Callable[[bytes], bool]) -> int:
        return len(list(self._tombstones(gone)))

    def forget(self, gone: GoneKeys, is_theirs: Callable[[bytes], bool]) -> int:
        """Tombstones have the key as their id. What Lucene still has of deleted documents leaves as segments merge."""
        found = list(self._tombstones(gone))
        if found:
            self._write(found, [], refresh=True)
            try:
                self._client.indices.forcemerge(index=self.index, only_expunge_deletes=True)
            except (ApiError, TransportError) as error:
                raise unavailable(error) from error
        return len(found)

    def _tombstones(self, gone: GoneKeys) -> Iterator[Item]:
        """A digest in place of a key says nothing of it: only one that the topic still tells of is known by it."""
        ids = {document_id(key) for key in gone.told}
        for hit in scan(self._client, self.index, {"exists": {"field": "gone_at"}}, version=True):
            id_ = hit["_id"]
            if id_ in ids or ((key := key_of(id_)) is not None and key in gone):
                yield Item(Change(b"", None, 0), delete_lines(id_, hit["_version"]))

    def tend(self) -> None:
        """Purges, at most once in PURGE_INTERVAL_S: also when that failed, so that what is no hurry adds no load."""
        now = self._clock()
        if self._purged_at is None or not 0 <= now - self._purged_at < PURGE_INTERVAL_S:
            self._purged_at = now
            self.purge()

    def drop(self) -> None:
        self._marks.forget()
        try:
            self._client.indices.delete(index=self.index, ignore_unavailable=True)
        except (ApiError, TransportError) as error:
            raise unavailable(error) from error

    def close(self) -> None:
        self._client.close()


def newest(changes: Sequence[Change]) -> list[Change]:
    """One change a key, the one with the highest version."""
    found: dict[bytes, Change] = {}
    for change in changes:
        held = found.get(change.key)
        if held is None or held.version <= change.version:
            found[change.key] = change
    return list(found.values())


def _stop_if_hopeless(outcomes: Sequence[Outcome]) -> None:
    """Waiting a moment does not bring an index back, or make room on a disk."""
    for outcome in outcomes:
        if outcome.fate is Fate.INDEX_GONE:
            raise waiting("the index is gone", outcome.reason, 0.0)
        if outcome.fate is Fate.BLOCKED:
            raise waiting("Elasticsearch takes no writes", outcome.reason, BLOCKED_RETRY_AFTER_S)

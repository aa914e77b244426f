"""Some rows of a view, looked at in Postgres and in every sink, again and again: cheap, and every row has its turn.

A sample is what is known to be wrong, the rows that changed last (most mistakes are young), and the next rows of a walk
through the store. A row that Postgres has and the view has not, or that a sink has and nobody else ever had, is in no
such list: those are found by a full run, which is seldom.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Final

from cdc.errors import HeadwaterError
from headwater.views.kept import KeptView, open_view
from headwater.views.place import Place
from headwater.views.verify import NotComputed, TooCostly, Verifier
from headwater.views.verify_history import (
    VIEW,
    PlaceResult,
    VerifyHistory,
    VerifyRun,
    Why,
    now_us,
)  # fmt: skip
from headwater.views.verify_keys import SinkLooked, look_at_sink
from headwater.views.verify_view import history_of, result_of_keys, result_of_view, verifier_of
from headwater.views.view_sinks import opened, sinks_with_rows, topic_of
from views.maintain.contents import key_json
from views.sinks.sink import SinkKind

SUMMARY_S: Final = 3_600.0
"""Samples that find nothing are told in the history so seldom, together."""
BY: Final = "headwater up"


@dataclass
class _Quiet:
    """Samples that found nothing, since they were last told."""

    since: float
    began_at_us: int
    runs: int = 0
    rows: dict[str, int] = field(default_factory=dict)


@dataclass
class Sampler:
    place: Place
    rows: int
    """Of one sample, at most."""
    summary_s: float = SUMMARY_S

    def __post_init__(self) -> None:
        self._verifier: Verifier = verifier_of(self.place)
        self._history: VerifyHistory = history_of(self.place)
        self._walks: dict[str, tuple[int, bytes]] = {}
        self._quiet: dict[str, _Quiet] = {}
        self.postgres_s = 0.0
        """How long Postgres was asked, over all samples."""

    def sample(self, view: str) -> VerifyRun:
        """One look. Raises what keeps it from looking; a sink that cannot be asked is a note."""
        began_at_us, began = now_us(), time.monotonic()
        kept = open_view(self.place.registry, self._verifier.frontiers.look(), view)
        keys = self._keys(kept)
        results, wrong = [], {}
        try:
            seen = self._verifier.verify(view, keys=keys)
            self.postgres_s += seen.compared_s
            results.append(result_of_view(seen))
            wrong[VIEW] = seen.wrong
        except (TooCostly, NotComputed) as error:
            results.append(PlaceResult(VIEW, 0, note=error.fact))  # its sinks can be looked at
        for kind in sinks_with_rows(self.place, kept).values():
            try:
                found = self._sink(kept, kind, keys)
                results.append(result_of_keys(found.sink, found.keys, found.wrong, found.lsn, found.generation))
                wrong[found.sink] = found.wrong
            except HeadwaterError as error:
                results.append(PlaceResult(kind.name, 0, note=error.fact))
        run = VerifyRun(view, Why.SAMPLE, BY, began_at_us, time.monotonic() - began, tuple(results))
        self._put_down(run, wrong, [key.decode() for key in keys])
        return run

    def _keys(self, kept: KeptView) -> list[bytes]:
        """As the view's topic writes them."""
        known = self._history.wrong().get(kept.view, {})
        keys = [key.encode() for places in known.values() for key in places][: self.rows]
        topic = topic_of(self.place, kept.view)
        end, some = topic.end(), max(self.rows // 4, 1)
        for piece in topic.records(max(0, end - some), end):
            keys += [raw.key for raw in piece if raw.key is not None]
        keys = list(dict.fromkeys(keys))[: self.rows]
        shard, start = self._walks.get(kept.view, (0, b""))
        walked, self._walks[kept.view] = kept.walk(shard, start, max(self.rows - len(keys), 1))
        return list(dict.fromkeys([*keys, *(key_json(kept.store, row) for _, row in walked)]))

    def _sink(self, kept: KeptView, kind: SinkKind, keys: list[bytes]) -> SinkLooked:
        with opened(self.place, kept, kind, filled_s_max=0.0) as where:
            return look_at_sink(where, kept, topic_of(self.place, kept.view), self._verifier.frontiers, keys)

    def _put_down(self, run: VerifyRun, wrong: dict[str, tuple[tuple[str, str], ...]], keys: list[str]) -> None:
        """What found something is told at once, and the first that finds nothing after it."""
        was_wrong = run.view in self._history.wrong()
        if not run.is_equal or was_wrong:
            self._quiet.pop(run.view, None)
            self._history.add(run, wrong, keys)
            return
        quiet = self._quiet.setdefault(run.view, _Quiet(float("-inf"), run.began_at_us))
        quiet.runs += 1
        for each in run.places:
            quiet.rows[each.place] = quiet.rows.get(each.place, 0) + each.rows
        if time.monotonic() - quiet.since >= self.summary_s:
            self._history.add(_together(run, quiet), wrong, keys)
            self._quiet[run.view] = _Quiet(time.monotonic(), now_us())


def _together(run: VerifyRun, quiet: _Quiet) -> VerifyRun:
    places = tuple(
        PlaceResult(each.place, quiet.rows.get(each.place, 0), lsn=each.lsn, generation=each.generation, note=each.note)
        for each in run.places
    )
    return VerifyRun(run.view, run.why, run.by, quiet.began_at_us, run.took_s, places, quiet.runs)

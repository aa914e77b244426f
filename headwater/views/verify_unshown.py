"""A view that was computed anew and that nobody reads yet: every row against its SQL in Postgres.

The method is verify.py's, with two differences. How far the group is says its own progress, which it writes down after
every epoch. And no topic says which values a row had in between: what the store holds of a row is looked at as often as
Postgres is, from before the first moment until the group has passed the last one, and one value of each has to agree.
A row that differs is certain after a quiet round, or when both its values stayed the same through all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

import msgspec

from cdc.errors import StateError, ViewError
from cdc.position import Lsn
from cdc.postgres import connect, explained
from headwater.views.compare import Comparison, Differing
from headwater.views.kept import POLL_S, KeptView, includes
from headwater.views.moments import Shown, moments, wal_end
from headwater.views.verify import WATCHED_MAX, Round, Verifier, computing
from views.maintain.group import Group
from views.maintain.progress import Progress
from views.maintain.publisher import Frontier, frontier
from views.maintain.runner import PROGRESS

UNSHOWN_TIMEOUT_S = 300.0
"""Until the group has what Postgres has: it gives way to what readers use."""


@dataclass
class UnshownVerifier(Verifier):
    timeout_s: float = UNSHOWN_TIMEOUT_S
    group: str = ""
    _last: dict[str, Differing] = field(default_factory=dict)

    def _opened(self, view: str) -> KeptView:
        try:
            kept = KeptView(Group.load(self.registry.groups / self.group), view)
        except StateError as error:
            raise _given_up(view) from error
        if view not in kept.group.live:
            raise ViewError(
                f"{view} is not computed any more",
                detail=kept.group.spec.paused.get(view, f"group {self.group} has no such view"),
                hint=f"headwater views {view}",
            )
        return kept

    def _frontier(self, kept: KeptView) -> Frontier:
        try:
            at = msgspec.json.decode((kept.group.folder / PROGRESS).read_bytes(), type=Progress)
        except (FileNotFoundError, msgspec.MsgspecError) as error:
            raise _given_up(kept.view) from error
        spec = kept.group.spec
        return frontier(kept.view, spec.id, spec.era, at.offset, at.lsn, at.committed_at_us, at.canary)

    def _wait(
        self,
        kept: KeptView,
        is_enough: Callable[[Frontier], bool],
        wanted: str,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> Frontier:
        deadline = time.monotonic() + self.timeout_s
        while not is_enough(at := self._frontier(kept)):
            if time.monotonic() > deadline:
                raise ViewError(
                    f"what is computed of {kept.view} does not get on",
                    detail=f"{wanted}, it is at {at.position} ({at.lsn}), for {self.timeout_s:g} s",
                    hint="headwater status" if self.registry.is_kept() else "headwater up",
                )
            time.sleep(POLL_S)
            meanwhile()
        return at

    def _topic_end(self, view: str) -> int:
        return 0

    def _published(self, kept: KeptView, topic_start: int, keys: Collection[str]) -> Iterator[tuple[str, bytes | None]]:
        """Nothing of it is."""
        return iter(())

    def _suspects(self, kept: KeptView, round_: Round) -> tuple[dict[str, Differing], set[str]]:
        """And those that are not what they were in the round before."""
        left = dict(round_.look.differing)
        changed = {key for key, found in left.items() if key in self._last and self._last[key] != found}
        self._last = left
        return left, changed

    def _watched(
        self, kept: KeptView, suspects: Mapping[str, Differing], changing: Collection[str]
    ) -> dict[str, Differing]:
        watched = [suspects[key] for key in sorted(changing)[:WATCHED_MAX]]
        held: dict[Lsn, dict[bytes, bytes]] = {}

        def look() -> None:
            at = self._frontier(kept)
            stored = kept.read_anywhere([each.encoded for each in watched])
            if kept.epoch <= at.offset == self._frontier(kept).offset:  # not in the midst of the next epoch
                held[Lsn.parse(at.lsn)] = stored

        with connect(self.postgres) as conn, computing(kept.view), explained(conn):
            comparison, shown = Comparison(kept, conn), Shown([wal_end(conn)])
            for _ in moments(conn, self.timeout_s):
                shown.add(comparison.postgres_rows(watched), wal_end(conn))
                look()
        self._wait(kept, includes(shown.ends[-1]), f"Postgres is at {shown.ends[-1]}", look)
        looks = [(rows, stored) for lsn, stored in held.items() for rows in shown.after(lsn)]
        equal = {
            each.key
            for each in watched
            if any(comparison.is_equal(rows.get(each.key), stored.get(each.encoded)) for rows, stored in looks)
        }
        return {key: suspect for key, suspect in suspects.items() if key not in equal}


def _given_up(view: str) -> ViewError:
    return ViewError(
        f"what was computed of {view} is gone", detail="it was given up meanwhile", hint="headwater rebuild --list"
    )

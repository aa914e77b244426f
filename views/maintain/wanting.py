"""What follows from what is wanted (wanted.json): a new group, one shown again or given up, a view dropped.

A view is begun in a new group and shown when that is ready (showing.py); what readers have stays until then, and stays
altogether when what is built is rejected or given up.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Final

import msgspec

from cdc import eras
from cdc.addresses import KafkaAddress, Source
from cdc.changelog import Archive
from cdc.epochs import EpochPlanner
from cdc.errors import LogError, NothingWhole, ViewError
from cdc.topics import delete_topic
from views.maintain.catch_up import CatchUp
from views.maintain.comparing import asked_for, is_awaited
from views.maintain.computing import is_cancelled
from views.maintain.group import Group, GroupSpec
from views.maintain.pauses import Pauses
from views.maintain.publisher import view_topic
from views.maintain.rebuilding import Rebuilder
from views.maintain.registry import Registry, ViewState, ViewStatus, Wanted, WantedView
from views.maintain.runner import GroupRunner
from views.maintain.showing import PAUSED_OUT, Showing
from views.maintain.sinking import Sinking
from views.maintain.standing_by import StandingBy
from views.maintain.statuses import Statuses

ORPHAN_S_MAX: Final = 60.0
"""What is computed for a rebuild that nobody has asked for by then is given up."""
LOG_LOST: Final = "the log no longer has what comes next"
"""Why a view is paused that only a fresh snapshot of its tables brings back: headwater recover."""


@dataclass
class Wanting:
    kafka: KafkaAddress
    source: Source
    registry: Registry
    archive: Archive | None
    shards: int
    views: Statuses
    runners: MutableMapping[str, GroupRunner]
    showing: Showing
    standing_by: StandingBy
    catch_up: CatchUp
    rebuilder: Rebuilder
    sinking: Sinking
    pauses: Pauses
    open: Callable[[Group], GroupRunner]
    retire: Callable[[str], None]
    """Lets go of a group, if no view needs it any more."""
    note: Callable[[], None]

    @property
    def problem(self) -> str:
        """What could not be removed yet where nobody wants a view any more."""
        left = {(each.view, each.sink) for each in self.rebuilder.keeper.book.left() if each.is_unwanted}
        told = [f"the {sink} of {view} could not be removed yet: it is tried again" for view, sink in sorted(left)]
        return "; ".join(told)

    def apply(self, wanted: Wanted) -> bool:
        """Whether there is nothing left to be tried again."""
        self.showing.expect(wanted)
        for gone in [name for name in self.views if name not in wanted.views]:
            self._drop(gone)
        for gone in self.rebuilder.tally.views() - wanted.views.keys():  # who dropped it was cut off
            self.rebuilder.forget(gone, ())
        fresh: dict[str, dict[str, WantedView]] = {}
        undone = set[str]()
        for name, view in wanted.views.items():
            known = self.views.get(name)
            is_other = known is not None and known.applied_at_s != view.applied_at_s
            try:
                if is_other and (self._is_rejected(name, view) or self.is_given_up(name, view)):
                    continue
            except LogError:  # Kafka is away; until it says which era it is, what was built is not shown
                undone.add(name)
                continue
            if known is None or known.state is ViewState.WAITING or known.applied_at_s != view.applied_at_s:
                fresh.setdefault(view.batch, {})[name] = view
        left = bool(undone)
        for views in fresh.values():
            anew = views
            try:
                anew = {name: view for name, view in views.items() if not self._is_back(name, view)}
                if anew:
                    self._begin(anew)
            except (ViewError, LogError) as error:
                # One that cannot be begun must not stop the others.
                left |= self._not_begun(anew, error)
        # Last: a group that was taken back is gone before it may be shown.
        self.showing.wants(wanted)
        self.showing.unreviewed |= undone
        return not left

    def look(self) -> None:
        """What could not be computed anew, or was asked for by nobody who is known, leaves readers what they have."""
        for name, known in list(self.views.items()):
            if known.group == known.serving or not known.serving:
                continue
            new = self.runners.get(known.group)
            text = new.group.spec.definitions.get(name, "") if new is not None else ""
            is_failed = known.state is ViewState.PAUSED
            if is_failed or (known.is_computed and self._is_orphan(name, known)):
                self._keep(name, text, known.applied_at_s, known.reason if is_failed else "nobody asked for it")

    def _is_orphan(self, name: str, known: ViewStatus) -> bool:
        """Nobody asked for it, and no rebuild that waits for an earlier one can have it instead."""
        is_old = time.time() - known.applied_at_s > ORPHAN_S_MAX
        book = self.rebuilder.keeper.book
        return is_old and not asked_for(book, name, known.applied_at_s) and not is_awaited(book, name)

    def _not_begun(self, views: Mapping[str, WantedView], error: ViewError | LogError) -> bool:
        """Whether it is worth another try. What readers have so far stays, and is fed."""
        passes = isinstance(error, LogError) and error.fact != LOG_LOST
        state = ViewState.WAITING if passes else ViewState.PAUSED
        reason = f"{error.fact}: {error.detail}; {error.hint}"
        for name, view in views.items():
            known = self.views.get(name, ViewStatus(state))
            if not passes and self._is_kept(name, view.text, known, reason, view.applied_at_s):
                continue
            applied_at_s = known.applied_at_s if passes else view.applied_at_s
            self.views.renew(name, state, known.group, applied_at_s, reason)
        return passes

    def _is_rejected(self, name: str, view: WantedView) -> bool:
        """Somebody has looked at what would change, and wants the one that readers use to stay. To apply what is built
        once more is another wish: that it be built anew."""
        known = self.views[name]
        new = self.runners.get(known.group)
        is_again = new is not None and new.group.spec.definitions.get(name) == view.text
        if is_again and view.applied_at_s > known.applied_at_s:
            return False
        return self._take_back(name, view)

    def _is_kept(self, name: str, text: str, known: ViewStatus, failed: str, applied_at_s: float) -> bool:
        """What could not be begun changes nothing for what readers use, if that is what is wanted."""
        if known.group != known.serving:
            return self._keep(name, text, applied_at_s, failed)
        is_fed = known.state in (ViewState.LIVE, ViewState.HELD) and self._is_fed(name, text)
        if is_fed:
            self.views.kept(name, applied_at_s, failed, known.state, known.reason)
        return is_fed

    def _is_fed(self, name: str, text: str) -> bool:
        """Whether what readers use of it is that definition, and goes on."""
        old = self.runners.get(self.views[name].serving)
        return (
            old is not None
            and name in old.group.live
            and old.group.spec.definitions[name] == text
            and old.group.spec.era == self.era().era
        )

    def _take_back(self, name: str, view: WantedView) -> bool:
        return self._keep(name, view.text, view.applied_at_s)

    def _keep(self, name: str, text: str, applied_at_s: float, failed: str = "") -> bool:
        """What readers use stays, not what is built beside it, or `failed`. False if that cannot be: it is not fed any
        more, or not what is wanted. What is built with others goes on without it."""
        known = self.views[name]
        if known.state not in (ViewState.BUILDING, ViewState.READY, ViewState.PAUSED) or known.group == known.serving:
            return False
        if not self._is_fed(name, text):
            return False
        new = self.runners.get(known.group)
        if new is not None:
            with new.lock:
                if new.progress.is_live:
                    return False  # readers have gone over to it
                new.pause([name], PAUSED_OUT)
        self.views.kept(name, applied_at_s, failed)
        self.retire(known.group)
        self.standing_by.spare(known.serving, name)
        return True

    def _is_back(self, name: str, view: WantedView) -> bool:
        """Readers left it, and it was kept fed: it is shown again as it is."""
        if not self.standing_by.of(name):
            return False
        used = self.runners.get(known.serving) if (known := self.views.get(name)) else None
        text = used.group.spec.definitions.get(name, "") if used is not None else ""
        runner = self.standing_by.back(name, view, self.era().era, text)
        if runner is None:
            return False
        self.views.renew(name, ViewState.BUILDING, runner.group.spec.id, view.applied_at_s)
        self._supersede(runner)
        self.note()
        self.catch_up.begin_if_idle(runner)
        return True

    def is_given_up(self, name: str, view: WantedView) -> bool:
        """Who wanted it computed anew has cancelled that: what is kept stays, if that is what is wanted."""
        if not is_cancelled(self.rebuilder.keeper.book, name, view.applied_at_s):
            return False
        known = self.views[name]
        if known.applied_at_s == view.applied_at_s:
            return self._take_back(name, view)
        runner = self.runners.get(known.group)
        if runner is None or runner.group.spec.definitions.get(name) != view.text:
            return False
        self.views.renew(name, known.state, known.group, view.applied_at_s, known.reason)
        return True

    def _begin(self, views: Mapping[str, WantedView]) -> None:
        """A new group for views that were applied together."""
        era = self.era()
        tables = {row["relation"]: row for view in views.values() for row in view.tables}
        known = [view.skip_before for view in views.values() if view.era in (0, era.era)]
        skips = {table: offset for skip in known for table, offset in skip.items()}
        spec = GroupSpec.new(
            era.era,
            era.topic_id,
            start_of(self.kafka, self.source, self.archive, era, tables.values(), skips),
            self.shards,
            {name: view.text for name, view in views.items()},
            list(tables.values()),
        )
        spec = msgspec.structs.replace(spec, skip_before=skips, seed_from=self._seed_from(views))
        group = Group(spec.save(self.registry.groups), spec)
        runner = self.open(group)
        for name, view in views.items():
            self.views.renew(name, ViewState.BUILDING, spec.id, view.applied_at_s)
        self._supersede(runner)
        self.note()
        self.catch_up.begin(runner)

    def _supersede(self, runner: GroupRunner) -> None:
        """Groups that were being built for the same views will not be shown with them."""
        for name, other in list(self.runners.items()):
            with other.lock:
                if other is not runner and not other.progress.is_live and not self.standing_by.is_kept(other):
                    other.pause(list(runner.group.live), PAUSED_OUT)
                    self.retire(name)

    def _seed_from(self, views: Mapping[str, WantedView]) -> str:
        """The one group that keeps them all, when they are to begin with what it knows."""
        kept = {known.serving if (known := self.views.get(name)) else "" for name in views}
        return kept.pop() if len(kept) == 1 and all(view.from_mirrors for view in views.values()) else ""

    def _drop(self, view: str) -> None:
        runners = [each for each in list(self.runners.values()) if view in each.group.spec.definitions]
        for runner in runners:
            runner.pause([view], PAUSED_OUT)
        del self.views[view]
        for runner in runners[:1]:
            runner.forget(view)
        delete_topic(self.kafka, view_topic(self.source, view))
        self.rebuilder.forget(view, self.sinking.forget(view))
        self.pauses.forget(view)
        for runner in runners:
            self.retire(runner.group.spec.id)

    def era(self) -> eras.Era:
        return eras.current(self.kafka, self.source)


def start_of(
    kafka: KafkaAddress,
    source: Source,
    archive: Archive | None,
    era: eras.Era,
    tables: Iterable[Mapping[str, object]],
    skips: Mapping[str, int],
) -> int:
    """Where a new group begins to read: with the era, from the archive where Kafka has let it go, or later if
    snapshots bring all its rows. Raises LogError where nobody has the beginning."""
    named = {f"{row['schema_name']}.{row['table_name']}" for row in tables}
    is_brought = named <= skips.keys()
    try:
        first, _ = EpochPlanner(kafka, source, archive=None if is_brought else archive).first()
    except NothingWhole as error:
        raise _log_lost(error.summary) from error
    if is_brought or first.offset <= era.first_offset:
        return max(first.offset, era.first_offset)
    raise _log_lost(f"era {era.era} began at {era.first_offset}, without a gap it begins at {first.offset}")


def _log_lost(detail: str) -> LogError:
    return LogError(LOG_LOST, detail=detail, hint="headwater recover reads the tables anew")

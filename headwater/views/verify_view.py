"""One run of `verify` over a view and its sinks, put down in the history: on demand, by schedule, before a switch."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cdc.errors import HeadwaterError
from headwater.views.compare import Kind
from headwater.views.kept import open_view
from headwater.views.place import Place
from headwater.views.verify import EXAMPLES, OnRows, Verified, Verifier
from headwater.views.verify_history import (
    VIEW,
    PlaceResult,
    VerifyHistory,
    VerifyRun,
    Why,
    counted,
    now_us,
    shown,
)  # fmt: skip
from headwater.views.verify_sinks import SinkVerified, allowed, verify_sink
from headwater.views.view_sinks import opened, sinks_with_rows, topic_of
from views.sinks.sink import SinkKind


@dataclass(frozen=True)
class Asking:
    """Who wants it, why, and how much is to be shown."""

    why: Why
    by: str
    examples: int = EXAMPLES
    lock: bool = False


@dataclass(frozen=True)
class ViewVerified:
    view: Verified | None
    sinks: tuple[SinkVerified, ...]

    @property
    def is_equal(self) -> bool:
        return (self.view is None or self.view.is_equal) and all(each.is_equal for each in self.sinks)

    def wrong_in_sinks(self) -> list[str]:
        """Keys that some sink has wrong."""
        return list(dict.fromkeys(key for sink in self.sinks for _, key in sink.wrong))


def verifier_of(place: Place) -> Verifier:
    deployment = place.deployment
    return Verifier(deployment.postgres, deployment.kafka, deployment.source, place.registry)


def history_of(place: Place) -> VerifyHistory:
    return VerifyHistory(place.registry.folder)


def verify_history(place: Place, view: str = "", runs_max: int | None = None) -> list[VerifyRun]:
    """The runs of a view, or of all, newest first."""
    return history_of(place).runs(view, runs_max)


def verify_view(
    place: Place,
    view: str,
    asking: Asking,
    *,
    with_view: bool = True,
    with_sinks: bool = True,
    on_rows: OnRows = lambda _: None,
    on_view: Callable[[Verified], None] = lambda _: None,
    on_sink: Callable[[SinkVerified], None] = lambda _: None,
) -> ViewVerified:
    """All its rows, and those of its sinks; what was found up to a failure is put down, too."""
    began_at_us, began = now_us(), time.monotonic()
    seen: Verified | None = None
    sinks: list[SinkVerified] = []
    failure = ""
    try:
        if with_view:
            seen = verifier_of(place).verify(view, examples=asking.examples, lock=asking.lock, on_rows=on_rows)
            on_view(seen)
        for kind in _kinds(place, view) if with_sinks else ():
            sinks.append(_sink(place, view, kind, asking.examples))
            on_sink(sinks[-1])
    except Exception as error:
        failure = _why(error)
        raise
    finally:
        results = [*([result_of_view(seen)] if seen else []), *map(_result_of_sink, sinks)]
        if failure:
            results.append(PlaceResult(VIEW if with_view and seen is None else "sinks", 0, note=failure))
        run = VerifyRun(view, asking.why, asking.by, began_at_us, time.monotonic() - began, tuple(results))
        wrong = {VIEW: seen.wrong if seen else (), **{each.sink: each.wrong for each in sinks}}
        if results:
            history_of(place).add(run, wrong)
    return ViewVerified(seen, tuple(sinks))


def _why(error: Exception) -> str:
    if isinstance(error, HeadwaterError):
        return ": ".join(filter(None, (error.fact, error.detail)))
    return f"{type(error).__name__}: {error}"


def result_of_view(found: Verified) -> PlaceResult:
    return PlaceResult(
        VIEW,
        max(found.rows_postgres, found.rows_view),
        found.counts[Kind.MISSING],
        found.counts[Kind.EXTRA],
        found.counts[Kind.DIFFERENT],
        unsettled=found.unsettled,
        lsn=str(found.lsn),
        generation=found.group,
        keys=shown(found.wrong),
    )


def result_of_keys(sink: str, rows: int, wrong: Sequence[tuple[str, str]], lsn: str, generation: int) -> PlaceResult:
    missing, extra, different = counted(wrong)
    return PlaceResult(sink, rows, missing, extra, different, lsn=lsn, generation=str(generation), keys=shown(wrong))


def _result_of_sink(found: SinkVerified) -> PlaceResult:
    return PlaceResult(
        found.sink,
        found.rows,
        found.missing,
        found.extra,
        found.different,
        lsn=found.lsn,
        generation=str(found.generation),
        keys=shown(found.wrong),
    )


def _kinds(place: Place, view: str) -> list[SinkKind]:
    kept = open_view(place.registry, verifier_of(place).frontiers.look(), view)
    return list(sinks_with_rows(place, kept).values())


def _sink(place: Place, view: str, kind: SinkKind, examples: int) -> SinkVerified:
    kept = open_view(place.registry, verifier_of(place).frontiers.look(), view)
    with opened(place, kept, kind) as found:
        return verify_sink(
            kind.name,
            found.sink,
            kept.store,
            topic_of(place, view),
            examples,
            generation=found.generation,
            allowed=allowed(kind.name, kept.group.declared[view].options),
        )

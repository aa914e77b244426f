"""A rebuild: the stages in which a view's rows are written anew in one place, explained first, then gone through.

    compute ─▶ fill ─▶ catch up ─▶ verify ─▶ switch ─▶ done

`compute` is left out when the rows are taken from the view's own compacted log, and `switch` waits for a person when
they asked for that. Values only: views/maintain/rebuilding.py goes through them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

import msgspec


class Origin(StrEnum):
    """Where the rows come from."""

    TOPIC = "topic"
    """The view's own log, compacted: its rows as they were computed. The fastest."""
    LOG = "log"
    """The view is computed anew from the change log, archive and Kafka, beside the one that is read."""
    MIRRORS = "mirrors"
    """The same from its tables' rows as the view's own group knows them now: no record of the log is read again."""
    SNAPSHOT = "snapshot"
    """The same from rows that are read from the source anew, for when the log cannot serve."""


class Stage(StrEnum):
    COMPUTE = "compute"
    FILL = "fill"
    CATCH_UP = "catch up"
    VERIFY = "verify"
    SWITCH = "switch"
    DONE = "done"


STAGES: Final = tuple(Stage)
_SWITCHED: Final = "switch readers over in one step"


class RebuildState(StrEnum):
    RUNNING = "running"
    PAUSED = "paused"
    READY = "ready"
    """Verified: waits for somebody to switch."""
    DONE = "done"
    CANCELLED = "cancelled"
    FAILED = "failed"


OVER: Final = frozenset({RebuildState.DONE, RebuildState.CANCELLED, RebuildState.FAILED})


class Checked(msgspec.Struct, frozen=True):
    """What verification said of a generation."""

    is_equal: bool
    rows: int = 0
    different: int = 0
    lsn: str = ""
    detail: str = ""


class Rebuild(msgspec.Struct, frozen=True):
    id: str
    view: str
    sink: str
    number: int
    """The generation that it makes."""
    origin: Origin
    asked_at_s: float
    asked_by: str = ""
    stage: Stage = Stage.FILL
    state: RebuildState = RebuildState.RUNNING
    switches: bool = True
    """By itself, once it is verified."""
    applied_at_s: float = 0.0
    """Of the view's application that computes it anew."""
    began: dict[Stage, float] = {}
    """When each stage began."""
    done: int = 0
    total: int = 0
    """Records of the stage that is under way."""
    rows_per_s: float = 0.0
    """Over the last minute or so."""
    filled: int = 0
    """Records that filling read."""
    filled_s: float = 0.0
    """How long that took, without pauses."""
    computed: Checked | None = None
    """What was said of the view as it was computed anew, before it was shown."""
    checked: Checked | None = None
    replaces: int | None = None
    """The generation that readers came from."""
    ended_at_s: float | None = None
    reason: str = ""

    @property
    def is_over(self) -> bool:
        return self.state in OVER

    @property
    def is_switching(self) -> bool:
        """Readers may have gone over to it, and nobody has written that down yet."""
        return self.state in (RebuildState.RUNNING, RebuildState.PAUSED) and self.stage in (Stage.SWITCH, Stage.DONE)

    @property
    def left_s(self) -> float | None:
        """Of the stage under way, at the pace so far."""
        if self.is_over or self.rows_per_s <= 0 or self.total <= self.done:
            return None
        return (self.total - self.done) / self.rows_per_s


def first_stage(origin: Origin) -> Stage:
    return Stage.FILL if origin is Origin.TOPIC else Stage.COMPUTE


@dataclass(frozen=True)
class Sizes:
    """What a plan rests on."""

    rows: int
    topic_records: int
    log_records: int
    log_bytes: int
    rows_per_s: float
    """Of filling this sink, as it was last measured here or, before that, assumed."""
    log_records_per_s: float
    is_measured: bool
    verified_rows_per_s: float = 0.0
    mirrored_rows: int = 0
    """Of its tables, as the group that keeps it knows them."""
    filled_s_min: float = 0.0
    verified_s_min: float = 0.0
    """What filling and verifying take however few rows there are, as it was last measured or, before that, assumed."""


@dataclass(frozen=True)
class Step:
    stage: Stage
    text: str
    takes_s: float | None = None


def explain(
    view: str, sink: str, origin: Origin, sizes: Sizes, *, switches: bool, keep_s: float, history: str = ""
) -> tuple[Step, ...]:
    """What will happen, in order, before anything does. `history`: what becomes of it, where versions are kept."""
    says: Mapping[Stage, Step] = {
        Stage.COMPUTE: Step(
            Stage.COMPUTE,
            f"compute {view} anew, unseen, beside the one that is kept: {_read(origin, sizes)}",
            _computing_s(origin, sizes),
        ),
        Stage.FILL: Step(
            Stage.FILL,
            f"write {sizes.rows:,} rows into a new generation of the {sink}, from the view's log of"
            f" at most {sizes.topic_records:,} records",
            _takes_s(sizes.topic_records, sizes.rows_per_s, sizes.filled_s_min),
        ),
        Stage.CATCH_UP: Step(Stage.CATCH_UP, "feed it with what has changed meanwhile, and from then on"),
        Stage.VERIFY: Step(
            Stage.VERIFY,
            "compare every row with the view, and the view with its SQL in Postgres",
            _takes_s(sizes.rows, sizes.verified_rows_per_s, sizes.verified_s_min),
        ),
        Stage.SWITCH: Step(
            Stage.SWITCH,
            _SWITCHED if switches else f"wait for `headwater switch {view} --sink {sink}`",
        ),
        Stage.DONE: Step(
            Stage.DONE, f"keep the old generation fed for {keep_s / 3600:g} h, for `headwater rollback {view}`"
        ),
    }
    steps = [says[stage] for stage in STAGES[STAGES.index(first_stage(origin)) :]]
    if first_stage(origin) is Stage.COMPUTE:
        steps[1:1] = _seen(view, switches=switches)
        if not switches:
            steps = [Step(Stage.SWITCH, _SWITCHED) if each.stage is Stage.SWITCH else each for each in steps]
    if history:
        steps.insert(steps.index(says[Stage.FILL]) + 1, Step(Stage.FILL, history))
    return tuple(steps)


def _seen(view: str, *, switches: bool) -> list[Step]:
    """From what was computed to what readers have of it."""
    compared = Step(Stage.COMPUTE, "compare every row of it with its SQL in Postgres, before any reader has one")
    waits = Step(Stage.COMPUTE, f"wait for `headwater switch {view}`")
    shown = Step(Stage.COMPUTE, f"publish what differs, in one step, for every sink of {view}")
    return [compared, shown] if switches else [compared, waits, shown]


def _takes_s(rows: int, rows_per_s: float, at_least_s: float) -> float | None:
    return max(rows / rows_per_s, at_least_s) if rows_per_s else None


def _computing_s(origin: Origin, sizes: Sizes) -> float | None:
    read = sizes.mirrored_rows if origin is Origin.MIRRORS else sizes.log_records
    return read / sizes.log_records_per_s if sizes.log_records_per_s else None


def _read(origin: Origin, sizes: Sizes) -> str:
    if origin is Origin.MIRRORS:
        return f"from {sizes.mirrored_rows:,} rows of its tables, as they are known here"
    if origin is Origin.SNAPSHOT:
        return "its tables are read from the source anew"
    return f"{sizes.log_records:,} records of the change log, about {sizes.log_bytes / 1e6:,.0f} MB"

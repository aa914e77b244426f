"""What a read gives: frozen values, made from the API's JSON and from nothing else. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Freshness:
    """Of one sink of one view, at the moment of an answer."""

    position: str
    lsn: str
    """The last commit that is included."""
    committed_at: datetime | None
    lag_ms: float | None
    """From that commit to when the sink had it."""
    state: str
    generation: int
    stale: str | None = None
    """Why the view misses changes, or is late; None while it is what it should be."""

    @classmethod
    def read(cls, told: Values) -> Freshness:
        at, lag_ms = told["committed_at"], told["lag_ms"]
        return cls(
            told["position"],
            told["lsn"],
            None if at is None else datetime.fromisoformat(at),
            None if lag_ms is None else float(lag_ms),
            told["state"],
            told["generation"],
            told.get("stale"),
        )


@dataclass(frozen=True, slots=True)
class Row:
    values: Values
    freshness: Freshness

    def __getitem__(self, column: str) -> Any:
        return self.values[column]


@dataclass(frozen=True, slots=True)
class Hit:
    """A row that a search found, and where its words are."""

    values: Values
    score: float | None = None
    highlights: tuple[Values, ...] = ()

    def __getitem__(self, column: str) -> Any:
        return self.values[column]

    @classmethod
    def read(cls, told: Values) -> Hit:
        score = told.get("score")
        return cls(told["row"], None if score is None else float(score), tuple(told.get("highlights", ())))


@dataclass(frozen=True, slots=True)
class Page:
    """Some hits of a search. `next` is the cursor of the page after it, None on the last."""

    hits: tuple[Hit, ...]
    total: int
    """Of all pages."""
    next: str | None
    facets: Mapping[str, Mapping[Any, int]]
    """Of each column that was asked for, how many rows have which value."""
    did_you_mean: str | None
    freshness: Freshness

    @classmethod
    def read(cls, told: Values) -> Page:
        return cls(
            tuple(map(Hit.read, told["hits"])),
            told["total"],
            told["next"],
            {name: {each["value"]: each["count"] for each in counted} for name, counted in told["facets"].items()},
            told.get("did_you_mean"),
            Freshness.read(told["freshness"]),
        )


@dataclass(frozen=True, slots=True)
class Change:
    """A row came (no `before`), changed, or went (no `after`)."""

    id: str
    """To go on after it: `changes(view, after=change.id)`."""
    key: Values
    before: Values | None
    after: Values | None
    position: str
    lsn: str
    committed_at: datetime | None

    @classmethod
    def read(cls, id_: str, told: Values) -> Change:
        at_us = told["committed_at_us"]
        at = None if at_us is None else datetime.fromtimestamp(at_us / 1e6, UTC)
        return cls(id_, told["key"], told["before"], told["after"], told["position"], told["lsn"], at)


@dataclass(frozen=True, slots=True)
class View:
    name: str
    state: str
    reason: str
    sinks: Mapping[str, Freshness]

    @classmethod
    def read(cls, told: Values) -> View:
        sinks = {sink: Freshness.read(fresh) for sink, fresh in told["sinks"].items()}
        return cls(told["view"], told["state"], told["reason"], sinks)

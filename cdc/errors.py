"""The one error root, at the most upstream place so that every package can raise from it.

    HeadwaterError
    ├── ConfigurationError     settings, command-line words, files a person wrote
    ├── SourceError            Postgres refuses, or is not set up for capture
    │   ├── SourceUnavailable  it cannot be reached, or was lost; says when to try again
    │   └── PreflightError     several findings at once, each with its hint
    ├── CaptureError           Kafka Connect or Debezium
    │   └── CaptureGap         going on would skip changes: a new era is needed
    ├── LogError               the change log in Kafka
    │   ├── TopicRecreated     the topic is not the one that the position speaks of
    │   ├── EraEnded           the source began a new history; what was derived from the old one ends here
    │   ├── PositionExpired    the log no longer holds the position
    │   └── NothingWhole       the log no longer holds a transaction from its beginning on
    ├── DecodeError            bytes or a value that are not what the schema says
    ├── StateError             what a stage of a view remembers
    │   ├── StateDamaged       it was lost or cannot be read: a copy and the log bring it back
    │   └── StateFenced        another writer owns it
    ├── ViewError              a view cannot be planned or kept
    │   └── ViewRefused        its SQL is not one that can be kept exact; says where, why, and what to write instead
    ├── SinkError              a cache, an index or a table outside
    │   └── SinkUnavailable    it cannot take anything now; says when to try again
    └── StackError             the embedded servers

A message is a fact in lower case, a detail, and a hint that names the command to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType


class HeadwaterError(Exception):
    """Base of everything Headwater raises on purpose."""

    figures: Mapping[str, int] = MappingProxyType({})
    """What a program may want to know of it without reading the detail; most have none."""

    def __init__(self, fact: str, *, detail: str = "", hint: str = "") -> None:
        self.fact = fact
        self.detail = detail
        self.hint = hint
        super().__init__(fact)

    def __str__(self) -> str:
        lines = [self.fact]
        if self.detail:
            lines.append(f"detail: {self.detail}")
        if self.hint:
            lines.append(f"hint: {self.hint}")
        return "\n".join(lines)

    @property
    def summary(self) -> str:
        """What happened, with its detail, where there is room for one line."""
        return f"{self.fact}: {self.detail}" if self.detail else self.fact

    def __reduce__(self) -> tuple[object, ...]:
        """Survives pickling with all three parts: Spark carries errors from workers to the driver."""
        return _rebuild, (type(self), self.fact, self.detail, self.hint)


def _rebuild(kind: type[HeadwaterError], fact: str, detail: str, hint: str) -> HeadwaterError:
    return kind(fact, detail=detail, hint=hint)


class ConfigurationError(HeadwaterError):
    """Something a person wrote is not valid."""


class SourceError(HeadwaterError):
    """The source database refused, or cannot be reached."""


class SourceUnavailable(SourceError):
    """The source database cannot be reached, or the connection was lost."""

    retry_after_s: float = 5.0


class PreflightError(SourceError):
    """The source database is not ready for capture."""


class CaptureError(HeadwaterError):
    """Kafka Connect or the connector in it refused or failed."""


class CaptureGap(CaptureError):
    """Changes were lost between the source and the log: only a new era with a fresh snapshot goes on."""


class LogError(HeadwaterError):
    """The change log cannot be read or written."""


class TopicRecreated(LogError):
    """The topic was deleted and made again: offsets of the old one mean nothing in the new one."""


class EraEnded(LogError):
    """The position's era is over: the source was restored, failed over, or its slot was made anew."""


class PositionExpired(LogError):
    """The log starts after the position that was asked for."""


class NothingWhole(LogError):
    """What is left of the log has no transaction with its beginning."""


class DecodeError(HeadwaterError):
    """A record is not what its schema says."""


class StateError(HeadwaterError):
    """What a stage of a view remembers cannot be used."""


class StateDamaged(StateError):
    """It is not there, or not what was written."""


class StateFenced(StateError):
    """Another writer owns the state."""


class ViewError(HeadwaterError):
    """A view cannot be planned or kept up to date."""


class ViewRefused(ViewError):
    """The SQL of a view is not accepted. `reason` is a stable code; line and column count from 1, 0 is nowhere."""

    def __init__(
        self, fact: str, *, reason: str, line: int = 0, column: int = 0, detail: str = "", hint: str = ""
    ) -> None:
        super().__init__(fact, detail=detail, hint=hint)
        self.reason = reason
        self.line = line
        self.column = column

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild_refusal, (self.fact, self.reason, self.line, self.column, self.detail, self.hint)


def _rebuild_refusal(fact: str, reason: str, line: int, column: int, detail: str, hint: str) -> ViewRefused:
    return ViewRefused(fact, reason=reason, line=line, column=column, detail=detail, hint=hint)


class SinkError(HeadwaterError):
    """A place that a view is written to refused."""


class SinkUnavailable(SinkError):
    """The place cannot be reached, is full, or asks for patience."""

    retry_after_s: float = 1.0


class StackError(HeadwaterError):
    """An embedded server could not be fetched, started or stopped."""

"""What is declared against what is applied: for every view what `apply` would do, and what that costs. Pure but for
`Sources`, which asks Postgres for the tables.

A change of whitespace or comments is none. A paused view is built again when it is applied, changed or not. Nothing is
dropped because a file cannot be read: what it declared counts as refused, under the file's name.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import psycopg

from cdc.addresses import Source
from cdc.catalog import Catalog, Table
from cdc.catalog_reader import describe
from cdc.errors import ConfigurationError, SourceError
from cdc.events import TableName
from cdc.publication import published
from cdc.relations import OWN_TABLES
from headwater.views.cost import Cost, cost_of, shared
from headwater.views.declared import Declared, Refusal, SqlFile, declare, is_same, mentioned
from views.maintain.registry import State, ViewState, Wanted
from views.refusals import nearest


class Action(StrEnum):
    NEW = "new"
    CHANGED = "changed"
    AGAIN = "again"
    """Built again though its text is the same: it is paused, or that was asked for."""
    DROPPED = "dropped"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


PENDING = (Action.NEW, Action.CHANGED, Action.AGAIN)


@dataclass(frozen=True)
class Change:
    """One line of a plan."""

    name: str
    action: Action
    why: str = ""
    declared: Declared | None = None
    cost: Cost | None = None
    diff: str = ""
    refusal: Refusal | None = None
    shares: Mapping[str, list[str]] = field(default_factory=dict)


@dataclass(frozen=True)
class ViewsPlan:
    changes: tuple[Change, ...]

    def having(self, *actions: Action) -> list[Change]:
        return [change for change in self.changes if change.action in actions]

    @property
    def pending(self) -> list[Change]:
        return self.having(*PENDING)

    @property
    def is_refused(self) -> bool:
        return bool(self.having(Action.REFUSED))

    @property
    def is_empty(self) -> bool:
        return not self.having(*PENDING, Action.DROPPED)


@dataclass(frozen=True)
class Sources:
    """The tables that views may be over, as Postgres has them now."""

    rows: tuple[dict[str, Any], ...]
    """Of headwater.catalog."""
    captured: frozenset[TableName]

    @classmethod
    def read(cls, conn: psycopg.Connection, source: Source, files: Iterable[SqlFile]) -> Sources:
        """What is captured, and what the files mention besides: it is told apart from what is not there at all."""
        captured = frozenset(published(conn, source)) - frozenset(OWN_TABLES)
        if not captured:
            raise SourceError(
                "no table is captured yet",
                detail=f"publication {source.publication} is not there, or is empty",
                hint="headwater up",
            )
        return cls(tuple(describe(conn, captured | mentioned(files))), captured)

    @property
    def catalog(self) -> Catalog:
        return Catalog.of(map(Table.parse, self.rows))

    def shapes(self, tables: Collection[TableName]) -> list[dict[str, Any]]:
        return [row for row in self.rows if TableName(row["schema_name"], row["table_name"]) in tables]


def plan_views(
    files: Iterable[SqlFile],
    sources: Sources,
    wanted: Wanted,
    state: State,
    *,
    only: Collection[str] = (),
    rebuild: Collection[str] = (),
) -> ViewsPlan:
    """`only` leaves all other views out; `rebuild` builds these again whatever they are."""
    found = declare(files, sources.catalog, sources.captured)
    changes = [_change(view, wanted, state, rebuild) for view in found.views]
    changes += [Change(each.name, Action.REFUSED, each.error.fact, refusal=each) for each in found.refusals]
    declared = {change.name for change in changes}
    changes += [
        Change(name, Action.DROPPED, "no file declares it any more") for name in wanted.views if name not in declared
    ]
    _require_known({*only, *rebuild}, {change.name for change in changes})
    chosen = [change for change in changes if not only or change.name in only]
    return ViewsPlan(tuple(_with_shares(sorted(chosen, key=lambda change: change.name), state)))


def _change(view: Declared, wanted: Wanted, state: State, rebuild: Collection[str]) -> Change:
    cost = cost_of(view.plan.root)
    known, status = wanted.views.get(view.name), state.views.get(view.name)
    if known is None:
        return Change(view.name, Action.NEW, "", view, cost)
    if not is_same(known.text, view.text):
        return Change(view.name, Action.CHANGED, "its SQL differs", view, cost, diff(known.text, view.text))
    if view.name in rebuild:
        return Change(view.name, Action.AGAIN, "asked for", view, cost)
    if status is not None and status.state is ViewState.PAUSED:
        return Change(view.name, Action.AGAIN, f"paused: {status.reason}", view, cost)
    return Change(view.name, Action.UNCHANGED, "", view, cost)


def diff(old: str, new: str) -> str:
    lines = difflib.unified_diff(old.splitlines(), new.splitlines(), "applied", "declared", lineterm="")
    return "\n".join(lines)


def _with_shares(changes: list[Change], state: State) -> Iterable[Change]:
    """Parts are shared among views that are applied together, so only those are looked at."""
    together: dict[str, dict[str, Cost]] = {}
    for change in changes:
        if change.cost is not None:
            together.setdefault(_batch(change, state), {})[change.name] = change.cost
    shares = {name: found for costs in together.values() for name, found in shared(costs).items()}
    for change in changes:
        yield Change(**{**change.__dict__, "shares": shares.get(change.name, {})})


def _batch(change: Change, state: State) -> str:
    status = state.views.get(change.name)
    return status.group if change.action is Action.UNCHANGED and status is not None else ""


def _require_known(asked: Iterable[str], known: Collection[str]) -> None:
    for name in sorted(asked):
        if name not in known:
            raise ConfigurationError(f"no view {name}", detail=nearest(name, known), hint="headwater plan")

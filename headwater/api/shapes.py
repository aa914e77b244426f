"""The views that can be read, with their shapes: from what the maintainer wrote down, planned once for each group.

A view has the shape of the group that readers are served from, also while another definition of it is built.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from cdc.addresses import Source
from cdc.errors import StateError
from headwater.api.problems import NotFound
from headwater.views.key_text import columns_of, typed_column
from views.json_rows import json_rows, json_values
from views.maintain.group import FILE, Group
from views.maintain.registry import Registry, State
from views.maintain.staleness import Stale, stale_views
from views.plan import Field
from views.refusals import nearest
from views.sinks.sink import ViewShape
from views.sqltypes import Family
from views.store import ViewStore

GROUPS_MAX: Final = 64
LOOK_S: Final = 0.5
_INTEGER: Final = re.compile(r"0|-?[1-9][0-9]{0,18}")


class Shapes:
    def __init__(self, registry: Registry, source: Source) -> None:
        self._registry, self._source = registry, source
        self._groups: dict[tuple[str, int], Group] = {}
        self._found: dict[str, Group] = {}
        """By view, since the state was last looked at."""
        self._stale: dict[str, Stale] = {}
        self._state, self._looked_at = State(), float("-inf")

    def names(self) -> list[str]:
        return sorted(self.state().views)

    def state(self) -> State:
        """What the maintainer last wrote down; looked at now and then, because every request asks for it."""
        if time.monotonic() - self._looked_at > LOOK_S:
            self._state, self._looked_at = self._registry.state(), time.monotonic()
            self._found, self._stale = {}, stale_views(self._state, self._registry.gaps())
        return self._state

    def stale(self, view: str) -> Stale | None:
        """Why the view is not what it should be; None while it is."""
        self.state()
        return self._stale.get(view)

    def store(self, view: str) -> ViewStore:
        return self._group(view).store(view)

    def shape(self, view: str) -> ViewShape:
        return self._group(view).shape(view, self._source)

    def has(self, view: str, sink: str) -> bool:
        return sink in self._group(view).declared[view].sinks

    def require(self, view: str, sink: str) -> None:
        """Raises if the view is not written there."""
        if sink not in self._group(view).declared[view].sinks:
            raise NotFound(
                f"view {view} is not in the {sink}",
                detail=f"its sinks are {', '.join(self._group(view).declared[view].sinks) or 'none'}",
                hint=f"CREATE MATERIALIZED VIEW {view} WITH (sinks = '{sink}') AS …",
            )

    def key(self, view: str, values: dict[str, str | None]) -> bytes:
        """A key as the view's topic writes it, from the values as a person types them."""
        store = self.store(view)
        return key_json(store, [values[name] for name in store.key])

    def value(self, view: str, column: str, text: str) -> bytes:
        """A column's value as its row has it in JSON, from what a person types."""
        [field] = [field for field in self.store(view).fields if field.name == column]
        [found] = json_values(field.type, typed_column(view, field, [text])).to_pylist()
        return found if isinstance(found, bytes) else str(found).encode()

    def _group(self, view: str) -> Group:
        state = self.state()
        known = self._found.get(view)
        if known is None:
            known = self._found[view] = self._loaded(view, state)
        return known

    def _loaded(self, view: str, state: State) -> Group:
        status = state.views.get(view)
        if status is None or not status.read_from:
            raise NotFound(f"no view {view}", hint=nearest(view, self.names()) or "headwater views")
        folder = self._registry.groups / status.read_from
        key = (status.read_from, _changed_at(folder / FILE))
        if key not in self._groups:
            if len(self._groups) >= GROUPS_MAX:
                self._groups.clear()
            self._groups[key] = Group.load(folder)
        return self._groups[key]


def key_json(store: ViewStore, texts: Sequence[str | None]) -> bytes:
    """A key's columns as JSON, from their values as a person types them."""
    if all(map(_is_plain_integer, store.key_fields, texts)):
        return f"{{{','.join(map(_member, store.key, texts))}}}".encode()
    [text] = json_rows(store.key_fields, columns_of(store, [texts])).to_pylist()
    return text if isinstance(text, bytes) else str(text).encode()


def _is_plain_integer(field: Field, text: str | None) -> bool:
    """One that is its own JSON as it is written: most keys are, and making them takes longer than looking them up."""
    if field.type.family is not Family.INTEGER or text is None or not _INTEGER.fullmatch(text):
        return False
    bits: int = field.type.arrow.bit_width
    return -(1 << bits - 1) <= int(text) < 1 << bits - 1


def _member(name: str, text: str | None) -> str:
    return f"{json.dumps(name, ensure_ascii=False)}:{text}"


def _changed_at(file: Path) -> int:
    try:
        return file.stat().st_mtime_ns
    except FileNotFoundError as error:
        raise StateError("the view is being replaced", detail=str(error), hint="try again") from error

"""Rows that are to be told again: asked for by anybody in a file, done by the maintainer between two epochs.

A row's key is published once more with the row that the view has, as a newer version: whatever a place holds for it, it
takes this one. Nobody else may do it: who publishes beside the maintainer could tell an older row after a newer one.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from cdc.errors import ConfigurationError
from views.maintain.group import write_whole
from views.maintain.registry import Registry

FOLDER: Final = "again"
KEYS_MAX: Final = 10_000
"""Of one request: a view of which more is wrong is to be built again."""


class AskedKey(msgspec.Struct, frozen=True):
    key: str
    """As the view's topic writes it."""
    encoded: bytes
    """As the store has it."""


class Asked(msgspec.Struct, frozen=True):
    view: str
    keys: list[AskedKey]


class Request(NamedTuple):
    file: Path
    asked: Asked

    @property
    def is_open(self) -> bool:
        return self.file.exists()

    def done(self) -> None:
        self.file.unlink(missing_ok=True)


def ask(registry: Registry, view: str, keys: Sequence[AskedKey]) -> Request:
    """Writes it down, whole or not at all."""
    if len(keys) > KEYS_MAX:
        raise ConfigurationError(
            f"{len(keys):,} rows of {view} are too many to be told again",
            detail=f"the limit is {KEYS_MAX:,}",
            hint=f"headwater rebuild {view} fills its sinks anew; --from log computes it anew first",
        )
    folder = registry.folder / FOLDER
    folder.mkdir(parents=True, exist_ok=True)
    request = Request(folder / f"{uuid.uuid4().hex}.json", Asked(view, list(keys)))
    write_whole(request.file, msgspec.json.encode(request.asked))
    return request


def requests(registry: Registry) -> list[Request]:
    """Those that are not done, oldest first."""
    found = []
    for file in (registry.folder / FOLDER).glob("*.json"):
        try:
            found.append((file.stat().st_mtime_ns, Request(file, msgspec.json.decode(file.read_bytes(), type=Asked))))
        except FileNotFoundError:
            continue
        except msgspec.MsgspecError:
            file.unlink(missing_ok=True)  # nobody else can make sense of it either
    return [request for _, request in sorted(found, key=lambda pair: pair[0])]

"""Where the verbs of views find what they need: the deployment, the registry, the folder of SQL files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from headwater.deployment import Deployment
from headwater.settings.load import load_with_origins
from views.maintain.registry import Registry

EXAMPLES: Final = "examples"


@dataclass(frozen=True)
class Place:
    deployment: Deployment
    registry: Registry
    folder: Path
    """Of SQL files, unless another is named."""

    @classmethod
    def here(cls) -> Place:
        loaded = load_with_origins()
        settings = loaded.settings
        beside = loaded.file.parent if loaded.file is not None else Path.cwd()
        registry = Registry(settings.data_folder / "views")
        return cls(Deployment.resolve(settings), registry, sql_folder(beside, settings.views.folder))


def sql_folder(beside: Path, named: str) -> Path:
    """The folder of the settings, or the examples where that one has no SQL file."""
    folder = beside / named
    examples = beside / EXAMPLES
    has_none = not folder.is_dir() or next(folder.rglob("*.sql"), None) is None
    return examples if has_none and examples.is_dir() else folder

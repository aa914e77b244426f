"""Fixtures: views in .sql files, each followed by a comment with its key and its plan, or with its refusal.

    python -m tests.views.sql.fixture_files

writes the comments anew; read what changed before you keep it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from cdc.errors import ViewRefused
from tests.views.sql.tables import demo_catalog
from views.definition import ViewDefinition, parse
from views.explain import explain
from views.sql import plan_view

FOLDER = Path(__file__).parent / "fixtures"
_CASE = re.compile(r"(?P<sql>CREATE MATERIALIZED VIEW.*?;)\n(?:/\*\n(?P<expected>.*?)\n\*/\n)?", re.DOTALL)


@dataclass(frozen=True)
class Case:
    file: str
    view: ViewDefinition
    expected: str

    def __str__(self) -> str:
        return f"{self.file}:{self.view.name}"


def cases(pattern: str = "*.sql") -> Iterator[Case]:
    for path in sorted(FOLDER.glob(pattern)):
        for found in _CASE.finditer(path.read_text()):
            (view,) = parse(found["sql"])
            yield Case(path.stem, view, found["expected"] or "")


def outcome(view: ViewDefinition) -> str:
    """The key and the plan, or the refusal."""
    try:
        plan = plan_view(view, demo_catalog())
    except ViewRefused as refusal:
        return f"refused {refusal.reason} at {refusal.line}:{refusal.column}\n{refusal}"
    return f"key {', '.join(plan.key)}\n{explain(plan.root)}"


def record(path: Path) -> None:
    def written(found: re.Match[str]) -> str:
        (view,) = parse(found["sql"])
        return f"{found['sql']}\n/*\n{outcome(view)}\n*/\n"

    path.write_text(_CASE.sub(written, path.read_text()))


if __name__ == "__main__":
    for path in sorted(FOLDER.glob("*.sql")):
        record(path)

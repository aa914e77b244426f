"""Files of SQL as a person keeps them: every view in them, planned against the tables, or refused with its place.

Nothing here raises because of what a file says: a file that cannot be read as views is one refusal. Two views of one
name in different files refuse each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import Token, TokenType

from cdc.catalog import Catalog
from cdc.errors import ConfigurationError, HeadwaterError, ViewRefused
from cdc.events import TableName
from headwater.sinks import CHECKS
from views.definition import DIALECT, ViewDefinition, parse
from views.plan import Node, Scan
from views.refusals import Reason
from views.sinks.sink import ViewShape
from views.sql import ViewPlan, plan_view

NOT_CAPTURED = "not-captured"


@dataclass(frozen=True)
class Refusal:
    """Of one view, or of a whole file where nothing in it can be told apart."""

    name: str
    file: str
    error: ViewRefused

    @property
    def place(self) -> str:
        return f"{self.file}:{self.error.line}:{self.error.column}" if self.error.line else self.file


@dataclass(frozen=True)
class Declared:
    name: str
    file: str
    text: str
    """Its statement alone, with the comment before it: what is written down when it is applied."""
    plan: ViewPlan
    tables: tuple[TableName, ...]


@dataclass(frozen=True)
class Declarations:
    views: tuple[Declared, ...] = ()
    refusals: tuple[Refusal, ...] = ()


@dataclass(frozen=True)
class SqlFile:
    name: str
    """As it is shown."""
    text: str


def read_files(folder: Path) -> list[SqlFile]:
    """Every .sql file under a folder, or the one file, in the order of their names."""
    if not folder.exists():
        raise ConfigurationError(
            f"no folder {folder}", detail="views are declared in .sql files in it", hint="headwater plan FOLDER"
        )
    files = sorted(folder.rglob("*.sql")) if folder.is_dir() else [folder]
    if not files:
        raise ConfigurationError(f"no .sql file in {folder}", detail="nor in its folders", hint="headwater plan FOLDER")
    return [_read(file) for file in files]


def _read(file: Path) -> SqlFile:
    here = Path.cwd()
    shown = file.absolute().relative_to(here) if file.absolute().is_relative_to(here) else file
    try:
        return SqlFile(str(shown), file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{shown} cannot be read", detail=str(error), hint="save it as UTF-8") from error


def mentioned(files: Iterable[SqlFile]) -> set[TableName]:
    """The tables that files may mean: what is worth asking Postgres about. Files that cannot be read mention none."""
    found: set[TableName] = set()
    for file in files:
        try:
            definitions = parse(file.text)
        except ViewRefused:
            continue
        tables = (table for each in definitions for table in each.query.find_all(exp.Table))
        found |= {TableName(table.db.lower() or "public", table.name.lower()) for table in tables}
    return found


def declare(files: Iterable[SqlFile], catalog: Catalog, captured: Iterable[TableName]) -> Declarations:
    """`captured` are those of the catalog's tables whose changes reach the log."""
    views: list[Declared] = []
    refusals: list[Refusal] = []
    seen: dict[str, str] = {}
    known = frozenset(captured)
    for file in files:
        for name, attempt in _attempts(file, catalog, known):
            try:
                declared = attempt()
                if name in seen:
                    raise _twice(name, seen[name])
                views.append(declared)
            except ViewRefused as refused:
                refusals.append(Refusal(name, file.name, refused))
            seen.setdefault(name, file.name)
    return Declarations(tuple(views), tuple(refusals))


def _attempts(
    file: SqlFile, catalog: Catalog, captured: frozenset[TableName]
) -> list[tuple[str, Callable[[], Declared]]]:
    try:
        definitions = parse(file.text)
    except ViewRefused as refused:
        return [(Path(file.name).stem, _raising(refused))]
    texts = statements(file.text, len(definitions))
    return [
        (each.name, lambda each=each, text=text: _declared(file.name, each, text, catalog, captured))  # type: ignore[misc]
        for each, text in zip(definitions, texts, strict=True)
    ]


def _raising(refused: ViewRefused) -> Callable[[], Declared]:
    def attempt() -> Declared:
        raise refused

    return attempt


def _declared(
    file: str, definition: ViewDefinition, text: str, catalog: Catalog, captured: frozenset[TableName]
) -> Declared:
    plan = plan_view(definition, catalog)
    tables = tables_of(plan.root)
    if missing := [table for table in tables if table not in captured]:
        raise ViewRefused(
            f"{', '.join(map(str, missing))} is not captured",
            reason=NOT_CAPTURED,
            detail="its changes do not reach the log",
            hint="name it under tables in headwater.toml, then headwater up",
        )
    _check_sinks(definition, plan)
    return Declared(definition.name, file, text, plan, tables)


def _check_sinks(definition: ViewDefinition, plan: ViewPlan) -> None:
    """What a sink would refuse later is refused now."""
    shape = ViewShape("", definition.name, tuple(plan.root.fields), plan.key, definition.options)
    for sink in definition.sinks:
        try:
            CHECKS[sink](shape)
        except ViewRefused:
            raise
        except HeadwaterError as error:
            raise ViewRefused(
                error.fact, reason=Reason.OPTION.value, detail=error.detail or f"sink {sink}", hint=error.hint
            ) from error


def tables_of(root: Node) -> tuple[TableName, ...]:
    found: set[TableName] = set()
    left: list[Node] = [root]
    while left:
        node = left.pop()
        left += node.inputs
        if isinstance(node, Scan):
            found.add(node.table)
    return tuple(sorted(found))


def statements(text: str, count: int) -> list[str]:
    """A file cut at its semicolons, each statement with the comment before it."""
    if count == 1:
        return [text.strip() + "\n"]
    ends = [token.end + 1 for token in _tokens(text) if token.token_type is TokenType.SEMICOLON]
    pieces = [text[start:end].strip() for start, end in pairwise([0, *ends, len(text)])]
    return [f"{piece}\n" for piece in pieces if _tokens(piece)][:count]


def is_same(one: str, other: str) -> bool:
    """But for whitespace and comments."""
    return one == other or _words(one) == _words(other)


def _words(text: str) -> Sequence[tuple[str, str]]:
    found = [(str(token.token_type), token.text) for token in _tokens(text)]
    return found[:-1] if found and found[-1][1] == ";" else found


def _tokens(text: str) -> list[Token]:
    try:
        return [t for t in sqlglot.tokenize(text, dialect=DIALECT) if t.text]
    except SqlglotError:
        return []


def _twice(name: str, file: str) -> ViewRefused:
    return ViewRefused(
        f"view {name} is declared twice",
        reason=Reason.NOT_A_VIEW.value,
        detail=f"the other is in {file}",
        hint="rename one of them",
    )

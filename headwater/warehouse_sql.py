"""SQL on the warehouse, without a JVM: delta-rs finds the files, DuckDB reads them. Read-only.

    <view>            its rows as they are, or as they were: `as_of` an instant, an LSN or a position
    <view>_history    its versions, each with valid_from and valid_to (NULL: still valid), as instants and as positions

A version is valid from the commit that it came with until the next version of its key, or its deletion, came. What the
history knows of time is the marks that the warehouse was written with: `as_of` is the last of them at or before what
was asked for. Nothing else of the machine can be reached from the SQL: no files, no settings, no second statement.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TypeAlias

import duckdb
import msgspec
import pyarrow as pa
from deltalake import DeltaTable

from cdc.archive_delta import DeltaFolder
from cdc.errors import ConfigurationError, HeadwaterError, ViewError
from cdc.position import Lsn, Position
from views.sinks.warehouse import KEY_PROPERTY
from views.sinks.warehouse_folders import CURRENT, HISTORY, live_generation, named_in, view_folder
from views.sinks.warehouse_notes import Note
from views.sinks.warehouse_types import COMMITTED_AT, GONE, LSN, POSITION, VERSION, decoded_name

AsOf: TypeAlias = datetime | Lsn | Position
SUFFIX: Final = "_history"
_GENERATION: Final = re.compile(r"g(\d+)")
_LOCKED: Final = (
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)
_UNKNOWN: Final = re.compile(r"Table with name (.+) does not exist")


@dataclass(frozen=True)
class Step:
    """A mark that the history passed."""

    position: Position
    lsn: Lsn
    committed_at: datetime
    last_version: int


@dataclass(frozen=True)
class KeptView:
    """A view in the warehouse, in the generation that readers use."""

    name: str
    folder: Path

    def table(self, kind: str) -> DeltaTable:
        found = DeltaFolder(self.folder / kind).open()
        if found is None:
            raise ViewError(f"the warehouse has lost {self.name}", detail=f"in {self.folder}", hint="headwater status")
        return found

    def note(self, kind: str) -> Note | None:
        """What the table says of itself; None if somebody else has written to it, or nobody yet."""
        commit = DeltaFolder(self.folder / kind).last()
        return None if commit is None else msgspec.json.decode(commit.note, type=Note)

    def whole_from(self) -> int | None:
        """From which version on its history has every one; None if nobody knows."""
        note = self.note(HISTORY)
        return None if note is None else note.is_whole_from


def run_sql(folder: str | Path, source: str, text: str, as_of: AsOf | str | None = None) -> pa.Table:
    """The result of one SELECT over the views of a source."""
    asked = parse_as_of(as_of) if isinstance(as_of, str) else as_of
    known = kept_views(folder, source)
    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        try:
            _require_select(db, text)
            for view in known:
                # Opening a table costs a look at its log: only those that the text can mean.
                if view.name.casefold() in text.casefold():
                    _define(db, view, asked)
            for statement in _LOCKED:
                db.execute(statement)
            return db.sql(text).to_arrow_table()
        except duckdb.Error as error:
            raise _explained(error, known) from error


def kept_views(folder: str | Path, source: str) -> list[KeptView]:
    found = []
    place = view_folder(folder, source, "")
    for child in sorted(place.iterdir()) if place.is_dir() else ():
        generation = live_generation(child) or _newest(child)
        if generation is not None:
            found.append(KeptView(named_in(child.name), child / f"g{generation}"))
    return found


def parse_as_of(text: str) -> AsOf:
    """An LSN (16/B374D848), a position (ERA:OFFSET) or an instant (ISO 8601; UTC where it names no zone)."""
    for parse in (Lsn.parse, Position.parse):
        try:
            return parse(text)
        except ConfigurationError:
            continue
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ConfigurationError(
            f"not a point in time: {text!r}",
            detail="it is an instant like 2026-05-01T12:00:00Z, an LSN like 16/B374D848, or a position ERA:OFFSET",
            hint='headwater sql "select …" --as-of 2026-05-01T12:00:00Z',
        ) from None
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def steps(history: DeltaTable) -> list[Step]:
    """The marks of a history, oldest first."""
    with duckdb.connect() as db:
        db.register("history", history.to_pyarrow_dataset())
        db.execute("SET TimeZone = 'UTC'")
        told = f"{POSITION}, {LSN}, epoch_us({COMMITTED_AT}), max({VERSION})"
        rows = db.execute(f"SELECT {told} FROM history GROUP BY 1, 2, 3 ORDER BY 4").fetchall()
    return [
        Step(Position.parse(position), Lsn.parse(lsn), datetime.fromtimestamp((at_us or 0) / 1e6, UTC), version)
        for position, lsn, at_us, version in rows
    ]


def version_at(view: str, passed: list[Step], as_of: AsOf) -> int:
    """The last version that belongs to what was asked for. LSNs are those of the newest era."""
    era = passed[-1].position.era if passed else 0
    if isinstance(as_of, Lsn):
        fitting = [step for step in passed if step.position.era == era and step.lsn <= as_of]
    elif isinstance(as_of, Position):
        fitting = [step for step in passed if step.position <= as_of]
    else:
        fitting = [step for step in passed if step.committed_at <= as_of]
    if fitting:
        return max(step.last_version for step in fitting)
    first = passed[0] if passed else None
    raise ViewError(
        f"the history of {view} does not reach back to {as_of}",
        detail=f"it begins at {first.committed_at}, {first.lsn}, {first.position}" if first else "it is empty",
        hint=f'headwater sql "select min(valid_from) from {view}{SUFFIX}"',
    )


def _define(db: duckdb.DuckDBPyConnection, view: KeptView, as_of: AsOf | None) -> None:
    history = view.table(HISTORY)
    _require_reached(view, as_of)
    until = None if as_of is None else version_at(view.name, steps(history), as_of)
    if until is not None:
        _require_whole(view, until, as_of)
    key = msgspec.json.decode(history.metadata().configuration[KEY_PROPERTY], type=list[str])
    columns = [name for name in (field.name for field in history.schema().fields) if not _is_own(name)]
    db.register(f"{view.name} in files, all", history.to_pyarrow_dataset())
    if until is None:
        db.register(f"{view.name} in files", view.table(CURRENT).to_pyarrow_dataset())
        _create(db, view.name, f"SELECT {_listed(columns)} FROM {_name(view.name + ' in files')}")
    else:
        _create(db, view.name, _rows_until(view.name, columns, key, until))
    _create(db, view.name + SUFFIX, _versions(view.name, columns, key, until))


def _require_reached(view: KeptView, as_of: AsOf | None) -> None:
    """An instant that is still to come is as good as now; a commit that is not here yet is not."""
    note = view.note(CURRENT)
    if note is None or as_of is None or isinstance(as_of, datetime):
        return
    lsn, position = Lsn.parse(note.mark.lsn), Position(note.mark.era, note.mark.offset)
    if as_of > lsn if isinstance(as_of, Lsn) else as_of > position:
        raise ViewError(
            f"the warehouse does not include {as_of} yet",
            detail=f"{view.name} is at {lsn}, {position}",
            hint="headwater status",
        )


def _require_whole(view: KeptView, until: int, as_of: AsOf | None) -> None:
    """Of what lies before it some versions were never seen: rows would be missing, or too new."""
    whole_from = view.whole_from()
    if whole_from is None or until + 1 < whole_from:
        raise ViewError(
            f"the history of {view.name} is not whole at {as_of}",
            detail="the view's topic had let versions go when the warehouse was filled from it"
            if whole_from is not None
            else "somebody else has written to it",
            hint=f'headwater sql "select min(valid_from) from {view.name}{SUFFIX} where _version >= {whole_from or 0}"',
        )


def _rows_until(view: str, columns: list[str], key: list[str], until: int) -> str:
    return (
        f"SELECT {_listed(columns)} FROM (FROM {_name(view + ' in files, all')} WHERE {VERSION} <= {until}"
        f" QUALIFY row_number() OVER ({_by(key)} ORDER BY {VERSION} DESC) = 1) WHERE NOT {GONE}"
    )


def _versions(view: str, columns: list[str], key: list[str], until: int | None) -> str:
    """A version ends where the next one of its key begins; one that says only that the row is gone is no row."""
    taken = {decoded_name(name).casefold() for name in columns}
    over = f"OVER ({_by(key)} ORDER BY {VERSION})"
    bounds = {
        "valid_from": COMMITTED_AT,
        "valid_to": f"lead({COMMITTED_AT}) {over}",
        "valid_from_position": POSITION,
        "valid_to_position": f"lead({POSITION}) {over}",
    }
    told = ", ".join(f"{made} AS {'_' if name in taken else ''}{name}" for name, made in bounds.items())
    limit = f" WHERE {VERSION} <= {until}" if until is not None else ""
    inner = f"SELECT {_listed(columns)}, {told}, {VERSION}, {LSN}, {GONE} FROM {_name(view + ' in files, all')}{limit}"
    return f"SELECT * EXCLUDE ({GONE}) FROM ({inner}) WHERE NOT {GONE}"


def _create(db: duckdb.DuckDBPyConnection, name: str, query: str) -> None:
    """A view called x_history is not hidden by the history of x."""
    db.execute(f"CREATE VIEW IF NOT EXISTS {_name(name)} AS {query}")


def _by(key: list[str]) -> str:
    return f"PARTITION BY {', '.join(_name(name) for name in key)}" if key else ""


def _listed(columns: list[str]) -> str:
    return ", ".join(f"{_name(name)} AS {_name(decoded_name(name))}" for name in columns)


def _name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _is_own(name: str) -> bool:
    return name in (VERSION, GONE, POSITION, LSN, COMMITTED_AT)


def _newest(folder: Path) -> int | None:
    """Before readers were ever switched: the newest that was written to."""
    generations = [int(found[1]) for child in folder.iterdir() if (found := _GENERATION.fullmatch(child.name))]
    written = [number for number in generations if DeltaFolder(folder / f"g{number}" / CURRENT).last() is not None]
    return max(written, default=None)


def _require_select(db: duckdb.DuckDBPyConnection, text: str) -> None:
    kinds = [statement.type for statement in db.extract_statements(text)]
    if kinds != [duckdb.StatementType.SELECT]:
        raise ConfigurationError(
            "the warehouse is read-only, one SELECT at a time",
            detail=f"found {', '.join(kind.name for kind in kinds) or 'nothing'}",
            hint='headwater sql "select … from VIEW"',
        )


def _explained(error: duckdb.Error, known: list[KeptView]) -> HeadwaterError:
    fact, _, rest = str(error).partition("\n")
    unknown = _UNKNOWN.search(fact)
    if unknown:
        names = [view.name for view in known]
        near = difflib.get_close_matches(unknown[1], [*names, *(name + SUFFIX for name in names)], 1)
        listed = f"there are {', '.join(names)}" if names else "nothing was written to it yet"
        hint = f"did you mean {near[0]}?" if near else "headwater views"
        return ConfigurationError(f"the warehouse has no view {unknown[1]}", detail=listed, hint=hint)
    told = fact.partition(": ")[2] or fact
    return ConfigurationError(f"the SQL cannot be run: {told}", detail=rest.strip(), hint="headwater sql --help")

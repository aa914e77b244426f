"""One Delta table in a folder, looked at and written by delta-rs. Under the log's archive and the warehouse.

Every commit of ours carries a note that says how far the table is; what a table says of itself is the note of its last
commit that changed rows. A table that somebody else has written to, emptied, removed or made anew has none. A write is
decided on a snapshot and becomes the very next version after it, or none: of two writers that decided on the same state
one is told so (StateFenced), and a commit that is repeated after a crash is not made twice.

Delta is kept to what every reader understands, Spark among them: no deletion vectors, no column mapping.
"""

from __future__ import annotations

import shutil
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import unquote

import msgspec
import pyarrow as pa

from cdc.errors import SinkUnavailable, StateFenced

if TYPE_CHECKING:
    from deltalake import CommitProperties, DeltaTable

APP: Final = "headwater"
LOOK_BACK_MAX: Final = 50
"""Commits that may follow ours without changing rows (upkeep by hand) before the table counts as somebody else's."""
FILE_BYTES_MAX: Final = 64 * 1024 * 1024
"""Rewriting a row rewrites its file."""
SMALL_FILE_BYTES: Final = FILE_BYTES_MAX // 4
_LOG: Final = "_delta_log"
_UPKEEP: Final = frozenset(
    {"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UNSET TBLPROPERTIES", "FSCK"}
)
_PROPERTIES: Final = {
    "delta.enableDeletionVectors": "false",
    "delta.checkpointPolicy": "classic",
    "delta.checkpointInterval": "20",
}
_APPEND_ONLY: Final = "delta.appendOnly"
_NOTE: Final = "userMetadata"
"""Where in a commit's own metadata: the place that Spark uses for it, too."""


class Commit(msgspec.Struct, frozen=True):
    """What a commit of ours says of itself."""

    number: int
    id: str
    note: msgspec.Raw
    table: str
    """The id of the table that it was decided on: one made anew in the same folder has another."""


class Merge(NamedTuple):
    """How rows (s) are merged into a table (t), as conditions in SQL."""

    same: str
    newer: str
    gone: str
    columns: Sequence[str]


@dataclass(frozen=True)
class Snapshot:
    """A table as it was when it was looked at. Good for one write."""

    path: Path
    table: DeltaTable
    version: int
    last: Commit | None
    """Our last commit, if it was the last that changed rows."""

    @property
    def id(self) -> str:
        return str(self.table.metadata().id)

    @property
    def is_ours(self) -> bool:
        """Nobody else has written to it."""
        return self.version == 0 or self.last is not None

    @property
    def is_whole(self) -> bool:
        """No file of its rows was taken away."""
        return all((self.path / unquote(row["path"])).exists() for row in self._files())

    def small_files(self) -> int:
        """How many files putting them together would save, about."""
        files = self._files()
        named = [name for name in files[0] if name.startswith("partition.")] if files else []
        small = [tuple(row[name] for name in named) for row in files if row["size_bytes"] < SMALL_FILE_BYTES]
        return sum(count - 1 for count in Counter(small).values())

    def _files(self) -> list[dict[str, Any]]:
        return list(pa.table(self.table.get_add_actions(flatten=True)).to_pylist())

    def append(self, rows: pa.Table | pa.RecordBatchReader, note: object) -> None:
        """One commit with these rows, which may be none."""
        self._commit(note, lambda properties: self._append(rows, properties))

    def merge(self, rows: pa.Table, how: Merge, note: object) -> None:
        """One commit: newer rows take the place of older ones, those that are gone leave."""
        self._commit(note, lambda properties: self._merge(rows, how, properties))

    def compact(self) -> None:
        """Small files are put together. No row changes, and what the table says of itself stays."""
        with _errors(self.path):
            self.table.optimize.compact(target_size=FILE_BYTES_MAX, commit_properties=self._same_note())

    def vacuum(self) -> None:
        """Removes files that no version needs any more, once they are older than the table's retention."""
        with _errors(self.path):
            self.table.vacuum(dry_run=False, full=True, commit_properties=self._same_note())

    def delete(self, predicate: str) -> None:
        """One commit without the rows that match; what the table says of itself stays."""
        note = self.last.note if self.last is not None else None
        self._commit(note, lambda properties: self._delete(predicate, properties))

    def purge(self) -> None:
        """Removes at once the files that no reader of the newest version needs: one that is under way may miss some.
        Not those that no version names: another writer may be about to."""
        with _errors(self.path):
            self.table.vacuum(
                retention_hours=0,
                dry_run=False,
                enforce_retention_duration=False,
                full=False,
                commit_properties=self._same_note(),
            )

    def _delete(self, predicate: str, properties: CommitProperties) -> None:
        self.table.delete(predicate, commit_properties=properties)

    def _append(self, rows: pa.Table | pa.RecordBatchReader, properties: CommitProperties) -> None:
        from deltalake import write_deltalake

        write_deltalake(self.table, rows, mode="append", target_file_size=FILE_BYTES_MAX, commit_properties=properties)

    def _merge(self, rows: pa.Table, how: Merge, properties: CommitProperties) -> None:
        columns = {quoted(name): f"s.{quoted(name)}" for name in how.columns}
        merging = self.table.merge(rows, how.same, source_alias="s", target_alias="t", commit_properties=properties)
        merging = merging.when_matched_delete(f"{how.newer} AND {how.gone}")
        merging = merging.when_matched_update(columns, how.newer)
        merging.when_not_matched_insert(columns, f"NOT {how.gone}").execute()
        if self.table.version() == self.version:
            # A merge that changes nothing makes no commit; the note is to be there all the same.
            self._append(rows.select(list(how.columns)).slice(0, 0), properties)

    def _commit(self, note: object, write: Callable[[CommitProperties], None]) -> None:
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import DeltaError

        number = self.last.number + 1 if self.last is not None else 1
        commit = Commit(number, uuid.uuid4().hex, msgspec.Raw(msgspec.json.encode(note)), self.id)
        said = {_NOTE: _encoded(commit)}
        # Without retries delta-rs makes the next version or fails: it does not look whether a later one would do.
        properties = CommitProperties(said, max_commit_retries=0, app_transactions=[Transaction(APP, number)])
        try:
            write(properties)
        except (DeltaError, OSError) as error:
            self._require_made(commit, error)

    def _require_made(self, commit: Commit, error: Exception) -> None:
        """What failed may have been after the commit."""
        now = DeltaFolder(self.path).look()
        if now is None:
            raise _unavailable(self.path, error) from error
        before = self.last.id if self.last is not None else None
        found = now.last.id if now.last is not None else None
        if found == commit.id:
            return
        if (now.id, found) != (self.id, before) or not now.is_ours:
            raise StateFenced(
                "another writer came first",
                detail=f"in {self.path}: commit {commit.number} is not ours",
                hint="headwater status: is a second Headwater keeping the same warehouse?",
            ) from error
        raise _unavailable(self.path, error) from error

    def _same_note(self) -> CommitProperties:
        from deltalake import CommitProperties

        said = {_NOTE: _encoded(self.last)} if self.last is not None else None
        return CommitProperties(said, max_commit_retries=0)


@dataclass(frozen=True)
class DeltaFolder:
    path: Path

    def open(self) -> DeltaTable | None:
        """The table as it is now; None if there is none, or its log was damaged."""
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        if not (self.path / _LOG).is_dir():
            return None
        try:
            return DeltaTable(str(self.path))
        except DeltaError:
            return None

    def look(self) -> Snapshot | None:
        table = self.open()
        if table is None:
            return None
        with _errors(self.path):
            return Snapshot(self.path, table, table.version(), _last(table))

    def last(self) -> Commit | None:
        """Our last commit, if it was the last that changed rows."""
        found = self.look()
        return found.last if found is not None else None

    def erase(self, predicate: str) -> None:
        """Rows that match leave for good, with the files that held them, also from a table that else only grows. Raises
        StateFenced when somebody else wrote meanwhile: to be tried again."""
        is_append_only = self._looked().table.metadata().configuration.get(_APPEND_ONLY) == "true"
        if is_append_only:
            self._set(_APPEND_ONLY, "false")
        try:
            self._looked().delete(predicate)
        finally:
            if is_append_only:
                self._set(_APPEND_ONLY, "true")
        self.purge()

    def purge(self) -> None:
        """See Snapshot.purge; also entries of the table's log that are older than its retention."""
        self._looked().purge()
        with _errors(self.path):
            table = self._looked().table
            table.create_checkpoint()
            table.cleanup_metadata()

    def _looked(self) -> Snapshot:
        found = self.look()
        if found is None or not found.is_ours:
            raise SinkUnavailable("the Delta table is not there, or somebody else's", detail=str(self.path))
        return found

    def _set(self, name: str, value: str) -> None:
        found = self._looked()
        with _errors(self.path):
            found.table.alter.set_table_properties({name: value})

    def create(self, schema: pa.Schema, properties: Mapping[str, str], partition_by: Sequence[str] = ()) -> None:
        """An empty table in place of whatever is there."""
        from deltalake import DeltaTable, Schema

        self.remove()
        with _errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            DeltaTable.create(
                str(self.path),
                Schema.from_arrow(schema),
                partition_by=list(partition_by),
                configuration={**_PROPERTIES, **properties},
                raise_if_key_not_exists=False,
            )

    def remove(self) -> None:
        remove_folder(self.path)


def remove_folder(path: Path) -> None:
    """In one step, so that a table of which files are missing is never taken for one. Idempotent."""
    aside = path.with_name(f".{path.name}.removed")
    with _errors(path):
        if aside.exists():
            shutil.rmtree(aside)  # left by one who was killed here
        if path.exists():
            path.rename(aside)
            shutil.rmtree(aside)


def quoted(name: str) -> str:
    """An identifier in the SQL of delta-rs and DuckDB."""
    return '"' + name.replace('"', '""') + '"'


def _last(table: DeltaTable) -> Commit | None:
    version, id_ = table.version(), str(table.metadata().id)
    for made in _commits(table):
        try:
            commit = msgspec.json.decode(made.get(_NOTE) or "", type=Commit)
        except msgspec.MsgspecError:
            if made["version"] <= version and made.get("operation") not in _UPKEEP:
                return None
        else:
            if made["version"] <= version:
                return commit if commit.table == id_ else None
    return None


def _commits(table: DeltaTable) -> Iterator[dict[str, Any]]:
    """The newest first; nearly always it is the only one that is asked for."""
    yield from table.history(1)
    yield from table.history(LOOK_BACK_MAX)[1:]


def _encoded(commit: Commit) -> str:
    return msgspec.json.encode(commit).decode()


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    from deltalake.exceptions import DeltaError

    try:
        yield
    except (DeltaError, OSError) as error:
        raise _unavailable(path, error) from error


def _unavailable(path: Path, error: Exception) -> SinkUnavailable:
    """The write is tried again later."""
    told = str(error).strip().splitlines()
    return SinkUnavailable(
        "the Delta table cannot be read or written now",
        detail=f"{path}: {told[0][:400] if told else type(error).__name__}",
        hint="headwater logs views; of the archive: headwater logs headwater",
    )

"""A view's contents, read from its store while it goes on: by key, whole, and as the difference of two stores."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import msgspec
import pyarrow as pa

from cdc.errors import ViewError
from views.arrangement.arrangement import last_epoch
from views.arrangement.environment import opened
from views.arrangement.tables import Entries
from views.keys import shards_of
from views.maintain.group import Group
from views.maintain.nodes import StoreNode
from views.maintain.repairs import AskedKey
from views.store import SCHEMA, ViewStore

ROWS_PER_CHUNK: Final = 5_000
_ROWS: Final = "rows"


@contextmanager
def _reading(folder: Path) -> Iterator[Entries]:
    """A store's rows as of one moment."""
    with opened(folder) as environment:
        table = environment.table(_ROWS)
        with environment.reading() as transaction:
            yield Entries(transaction, table)


def _folders(group: Group, view: str) -> list[Path]:
    node = StoreNode(view, 0, group.store(view))
    return [group.state_folder(node, shard) for shard in range(group.spec.shards)]


def epoch(group: Group, view: str) -> int:
    """The last one that a shard of it has taken; 0 before the first."""

    def taken(folder: Path) -> int:
        with opened(folder) as environment:
            return last_epoch(environment) or 0

    return max(map(taken, _folders(group, view)))


def count(group: Group, view: str) -> int:
    """Of its rows."""
    found = 0
    for folder in _folders(group, view):
        with _reading(folder) as rows:
            found += rows.count()
    return found


def row(group: Group, view: str, key: Mapping[str, object]) -> bytes | None:
    """One row as JSON, by the values of its key; None if there is none."""
    store = group.store(view)
    encoded = store.codec.encode(_key_columns(store, key), 1)
    with _reading(_folders(group, view)[shards_of(encoded, group.spec.shards)[0]]) as rows:
        return rows.read(encoded).get(encoded[0])


@contextmanager
def rows(group: Group, view: str) -> Iterator[Iterator[tuple[bytes, bytes]]]:
    """All rows, by encoded key in its order: the shards merged."""
    with ExitStack() as closing:
        shards = [closing.enter_context(_reading(folder)).all() for folder in _folders(group, view)]
        yield heapq.merge(*shards)


def again(group: Group, view: str, keys: Iterable[AskedKey]) -> pa.Table:
    """Rows as changes that change nothing; of a key that has none, that it has none."""
    asked, folders = list(keys), _folders(group, view)
    found: dict[bytes, bytes] = {}
    for shard, folder in enumerate(folders):
        mine = [each.encoded for each in asked if shards_of([each.encoded], len(folders))[0] == shard]
        with _reading(folder) as rows:
            found |= rows.read(mine)
    return _table([(each.key.encode(), row := found.get(each.encoded), row) for each in asked])


def as_changes(group: Group, view: str) -> Iterator[pa.Table]:
    """Everything as rows that come, for a topic that has none yet."""
    store = group.store(view)
    with rows(group, view) as found:
        yield from _tables((key_json(store, after), None, after) for _, after in found)


def difference(old: Group, new: Group, view: str, *, every: bool = False) -> Iterator[pa.Table]:
    """What leads from the contents in one group to those in another; of `every` row, also where it is the same."""
    before, after = old.store(view), new.store(view)
    if not has_same_key(before, after):
        with rows(old, view) as gone:
            yield from _tables((key_json(before, row), row, None) for _, row in gone)
        yield from as_changes(new, view)
        return
    with rows(old, view) as one, rows(new, view) as two:
        pairs = ((left, right) for left, right in paired(one, two) if every or left != right)
        yield from _tables((key_json(after, _either(left, right)), left, right) for left, right in pairs)


def has_same_key(one: ViewStore, other: ViewStore) -> bool:
    return one.identity.partition(" key ")[2] == other.identity.partition(" key ")[2] and one.codec == other.codec


def paired(
    old: Iterator[tuple[bytes, bytes]], new: Iterator[tuple[bytes, bytes]]
) -> Iterator[tuple[bytes | None, bytes | None]]:
    """Rows of the same key together, None where one side has none; both come in the order of their keys."""
    one, two = next(old, None), next(new, None)
    while one is not None or two is not None:
        if two is None or (one is not None and one[0] < two[0]):
            assert one is not None
            yield one[1], None
            one = next(old, None)
        elif one is None or two[0] < one[0]:
            yield None, two[1]
            two = next(new, None)
        else:
            yield one[1], two[1]
            one, two = next(old, None), next(new, None)


def _either(left: bytes | None, right: bytes | None) -> bytes:
    row = right if right is not None else left
    assert row is not None
    return row


def key_json(store: ViewStore, row: bytes) -> bytes:
    values = msgspec.json.decode(row, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({name: values[name] for name in store.key})


def _tables(changes: Iterable[tuple[bytes, bytes | None, bytes | None]]) -> Iterator[pa.Table]:
    held: list[tuple[bytes, bytes | None, bytes | None]] = []
    for change in changes:
        held.append(change)
        if len(held) >= ROWS_PER_CHUNK:
            yield _table(held)
            held = []
    if held:
        yield _table(held)


def _table(held: list[tuple[bytes, bytes | None, bytes | None]]) -> pa.Table:
    arrays = [pa.array(column, pa.binary()) for column in zip(*held, strict=True)]
    return pa.Table.from_arrays(arrays, schema=SCHEMA)


def _key_columns(store: ViewStore, key: Mapping[str, object]) -> list[pa.Array]:
    if key.keys() != set(store.key):
        raise ViewError(
            f"not a key of {store.view}",
            detail=f"given {', '.join(key) or 'nothing'}, the key is ({', '.join(store.key)})",
            hint=f"headwater show {store.view} {' '.join(f'{name}=…' for name in store.key)}",
        )
    columns = []
    for field in store.key_fields:
        try:
            columns.append(pa.array([key[field.name]], field.type.arrow))
        except (pa.ArrowException, ValueError, TypeError) as error:
            raise ViewError(
                f"{key[field.name]!r} is not a {field.type}",
                detail=f"{field.name}: {error}",
                hint=f"headwater explain {store.view}",
            ) from error
    return columns

"""The mirror: what the log says of a table becomes the table's delta, and nothing that was seen before counts again."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from cdc.catalog import Column, Table
from cdc.errors import DecodeError, StateError
from cdc.events import UNCHANGED, ChangeEvent, Op, TableName
from cdc.pgtypes import TypeSpec, pg_type
from cdc.position import Lsn, Position
from views.arrangement import Arrangement
from views.mirror import Mirror
from views.zset import WEIGHT

NAME = TableName("public", "items")


def table(key: tuple[str, ...] = ("id",), identity: str = "d") -> Table:
    columns = {"id": "integer", "price": "numeric(6,2)", "note": "text", "tags": "text[]", "unused": "integer"}
    specs = {n: TypeSpec(t, t.removesuffix("[]"), dims=int(t.endswith("[]"))) for n, t in columns.items()}
    return Table(1, NAME, tuple(Column(n, pg_type(s)) for n, s in specs.items()), key, identity)


def row(id_: int, price: str | None = "1.00", note: object = "n", tags: object = None) -> dict[str, object]:
    return {"id": id_, "price": price, "note": note, "tags": tags, "unused": 0}


def event(
    offset: int, op: Op, before: Any = None, after: Any = None, *, xid: int = 1, lsn: int | None = None
) -> ChangeEvent:
    at = datetime(2025, 1, 1, tzinfo=UTC)
    return ChangeEvent(Position(1, offset), op, NAME, before, after, Lsn(lsn or offset), xid, at, at)


class Mirrored:
    def __init__(self, mirror: Mirror, state: Arrangement) -> None:
        self.mirror, self.state, self.epoch = mirror, state, 0

    def __call__(self, *events: ChangeEvent) -> list[tuple[Any, ...]]:
        self.epoch += 1
        delta = self.mirror.apply(self.epoch, events, self.state)
        return sorted(
            ((r[WEIGHT], r["id"], r["price"] and str(r["price"]), r["note"], r["tags"]) for r in delta.to_pylist()),
            key=repr,
        )


def opened(folder: Path, table_: Table) -> Iterator[Mirrored]:
    mirror = Mirror(table_, frozenset({"price", "note", "tags"} | ({"id"} - set(table_.key))))
    with Arrangement.open(folder, mirror.tables, durable=False) as state:
        yield Mirrored(mirror, state)


@pytest.fixture
def keyed(tmp_path: Path) -> Iterator[Mirrored]:
    yield from opened(tmp_path, table())


@pytest.fixture
def keyless(tmp_path: Path) -> Iterator[Mirrored]:
    yield from opened(tmp_path, table(key=(), identity="f"))


def test_insert_update_delete(keyed: Mirrored) -> None:
    assert keyed(event(1, Op.INSERT, after=row(1))) == [(1, 1, "1.00", "n", None)]
    changed = keyed(event(2, Op.UPDATE, after=row(1, "2.00")))
    assert changed == [(-1, 1, "1.00", "n", None), (1, 1, "2.00", "n", None)]
    assert keyed(event(3, Op.DELETE, before=row(1, None, None))) == [(-1, 1, "2.00", "n", None)]


def test_only_the_net_effect_comes_out(keyed: Mirrored) -> None:
    assert keyed(event(1, Op.INSERT, after=row(1)), event(2, Op.DELETE, before=row(1))) == []
    both = keyed(event(3, Op.INSERT, after=row(1)), event(4, Op.UPDATE, after=row(1, "5.00")))
    assert both == [(1, 1, "5.00", "n", None)]
    assert keyed(event(5, Op.UPDATE, after={**row(1, "5.00"), "unused": 9})) == []


def test_only_used_columns_and_the_key_are_kept(keyed: Mirrored) -> None:
    assert keyed.mirror.schema.names == ["id", "price", "note", "tags", WEIGHT]


def test_what_was_seen_before_does_not_count_again(keyed: Mirrored) -> None:
    keyed(event(1, Op.INSERT, after=row(1)), event(2, Op.DELETE, before=row(1)))
    assert keyed(event(1, Op.INSERT, after=row(1)), event(2, Op.DELETE, before=row(1))) == []
    assert keyed(event(2, Op.INSERT, after=row(7)), event(3, Op.INSERT, after=row(2))) == [(1, 2, "1.00", "n", None)]


def test_a_row_read_again_takes_its_own_place(keyed: Mirrored) -> None:
    keyed(event(1, Op.READ, after=row(1)))
    assert keyed(event(2, Op.READ, after=row(1))) == []
    assert keyed(event(3, Op.READ, after=row(1, "3.00"))) == [(-1, 1, "1.00", "n", None), (1, 1, "3.00", "n", None)]


def test_a_large_value_that_did_not_change_is_filled_in(keyed: Mirrored) -> None:
    keyed(event(1, Op.INSERT, after=row(1, note="large", tags=["a", None])))
    changed = keyed(event(2, Op.UPDATE, after=row(1, "2.00", UNCHANGED, UNCHANGED)))
    assert changed == [(-1, 1, "1.00", "large", ["a", None]), (1, 1, "2.00", "large", ["a", None])]


def test_filled_in_from_the_same_epoch(keyed: Mirrored) -> None:
    inserted = event(1, Op.INSERT, after=row(1, note="large"))
    assert keyed(inserted, event(2, Op.UPDATE, after=row(1, "2.00", UNCHANGED))) == [(1, 1, "2.00", "large", None)]
    twice = keyed(
        event(3, Op.UPDATE, after=row(1, "3.00", "other")),
        event(4, Op.UPDATE, after=row(1, "4.00", UNCHANGED, UNCHANGED)),
    )
    assert twice == [(-1, 1, "2.00", "large", None), (1, 1, "4.00", "other", None)]


def test_a_changed_key_takes_its_large_values_along(keyed: Mirrored) -> None:
    keyed(event(1, Op.INSERT, after=row(1, note="large")))
    moved = keyed(
        event(2, Op.DELETE, before=row(1), lsn=50), event(3, Op.INSERT, after=row(2, "2.00", UNCHANGED), lsn=50)
    )
    assert moved == [(-1, 1, "1.00", "large", None), (1, 2, "2.00", "large", None)]
    updated = keyed(event(4, Op.UPDATE, before={"id": 2}, after=row(3, "2.00", UNCHANGED)))
    assert updated == [(-1, 2, "2.00", "large", None), (1, 3, "2.00", "large", None)]


def test_a_large_value_that_nobody_knows_is_refused(keyed: Mirrored) -> None:
    with pytest.raises(StateError, match="is not known"):
        keyed(event(1, Op.UPDATE, after=row(1, note=UNCHANGED)))
    keyed(event(2, Op.INSERT, after=row(1, note="large")))
    with pytest.raises(StateError, match="is not known"):
        keyed(event(3, Op.DELETE, before=row(1)), event(4, Op.INSERT, after=row(2, note=UNCHANGED)))


@pytest.mark.parametrize("kind", ["keyed", "keyless"])
def test_truncate(kind: str, request: pytest.FixtureRequest) -> None:
    mirrored = request.getfixturevalue(kind)
    mirrored(event(1, Op.INSERT, after=row(1)), event(2, Op.INSERT, after=row(2)))
    truncated = mirrored(
        event(3, Op.INSERT, after=row(3)), event(4, Op.TRUNCATE), event(5, Op.INSERT, after=row(2, "9.00"))
    )
    assert truncated == [(-1, 1, "1.00", "n", None), (-1, 2, "1.00", "n", None), (1, 2, "9.00", "n", None)]
    assert mirrored(event(6, Op.TRUNCATE), event(7, Op.TRUNCATE)) == [(-1, 2, "9.00", "n", None)]


def test_without_a_key_rows_are_a_multiset(keyless: Mirrored) -> None:
    assert keyless(event(1, Op.INSERT, after=row(1)), event(2, Op.INSERT, after=row(1))) == [(2, 1, "1.00", "n", None)]
    changed = keyless(event(3, Op.UPDATE, before=row(1), after=row(1, "2.00")))
    assert changed == [(-1, 1, "1.00", "n", None), (1, 1, "2.00", "n", None)]
    assert keyless(event(4, Op.DELETE, before=row(1))) == [(-1, 1, "1.00", "n", None)]
    with pytest.raises(StateError, match="never there"):
        keyless(event(5, Op.DELETE, before=row(1)))


def test_a_value_that_cannot_be_kept_is_refused(keyed: Mirrored) -> None:
    with pytest.raises(DecodeError, match=r"public\.items\.price cannot be kept"):
        keyed(event(1, Op.INSERT, after=row(1, "NAN")))


def test_a_repeated_epoch_gives_the_same(keyed: Mirrored) -> None:
    first = event(1, Op.INSERT, after=row(1))
    given = keyed.mirror.apply(5, [first], keyed.state)
    assert keyed.mirror.apply(5, [first], keyed.state).equals(given)

"""A long story asks Kafka only about what is told of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cdc.events import TableName
from headwater.views import story as told
from headwater.views.past_topic import Came, Told
from views.lineage import Part
from views.sinks.sink import Change

LABELS = 50


def row(number: int) -> bytes:
    return b'{"id":7,"label":"%d"}' % number


def past(versions: int) -> Any:
    """A row with so many versions in the warehouse, none of them the topic's last word."""
    found = [
        SimpleNamespace(version=n, row=row(n), position=f"1:{n}", lsn="0/1", committed_at=None) for n in range(versions)
    ]
    warehouse = SimpleNamespace(
        mark=lambda: SimpleNamespace(since=0, next_offset=versions),
        versions=lambda _key: found,
        whole_from=lambda: 0,
    )
    plans = {"card": SimpleNamespace(root=None)}
    kept = SimpleNamespace(store=None, group=SimpleNamespace(plans=plans))
    return SimpleNamespace(
        frontier=SimpleNamespace(since=0, next_offset=versions), warehouse=warehouse, topic=None, kept=kept
    )


def test_records_are_read_of_versions_that_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def at_offset(_topic: object, offset: int) -> Told:
        asked.append(offset)
        return Told(Change(b"", row(offset), offset, row(offset - 1)), Came(f"1:{offset}", "0/1", None, 1_000_000))

    monkeypatch.setattr(told.Past, "open", lambda _place, _view: past(LABELS))
    monkeypatch.setattr(told, "key_of", lambda _store, _key: b'{"id":7}')
    monkeypatch.setattr(told, "log_of", lambda _deployment: None)
    monkeypatch.setattr(told, "of_key", lambda *_: iter(()))
    monkeypatch.setattr(told, "at_offset", at_offset)
    monkeypatch.setattr(told, "parts", lambda _root: ())
    monkeypatch.setattr(told, "sources", lambda _root: {})
    place: Any = SimpleNamespace(deployment=None)
    found = told.story(place, "card", ["7"], versions_max=3, with_causes=False)
    assert asked == [47, 48, 49]
    assert [each.version for each in found.versions] == asked
    assert (found.left_out, found.notes, found.row) == (47, (), row(49))
    assert all(each.follows and each.published_at for each in found.versions)


def test_whose_changes_may_be_why_a_row_is_another() -> None:
    agents, listings, banned = (TableName("public", name) for name in ("agents", "listings", "banned"))
    uses = [Part(table, {}, {}) for table in (agents, listings, banned)]
    columns = {"id": frozenset({listings}), "price": frozenset({listings}), "agent": frozenset({agents})}
    made_of = told._MadeOf(uses, columns)
    row, renamed = b'{"id":7,"price":1,"agent":"Ann"}', b'{"id":7,"price":1,"agent":"Eve"}'
    assert made_of.tables(row, renamed) == {agents}
    assert made_of.tables(row, b'{"id":7,"price":2,"agent":"Ann"}') == {listings}
    assert made_of.tables(row, None) == made_of.tables(None, row) == {agents, listings, banned}

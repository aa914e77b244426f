"""Rows, differences and stories of the past as JSON objects: the same over HTTP and with --json. Pure."""

from __future__ import annotations

from datetime import datetime

import msgspec

from headwater.plain import plain
from headwater.views.causes import Cause, CausingChange
from headwater.views.past import Diff, Differs, PastRows
from headwater.views.story import Story, StoryVersion


def rows_object(found: PastRows) -> dict[str, object]:
    rows = [msgspec.Raw(row) for row in found.rows]
    return {
        "view": found.view,
        "at": found.at,
        "rows_total": found.rows_total,
        "source": found.source,
        "rows": rows,
    }


def diff_object(found: Diff) -> dict[str, object]:
    return {
        "view": found.view,
        "from": found.from_,
        "to": found.to,
        "added": found.added,
        "removed": found.removed,
        "changed": found.changed,
        "columns": found.columns,
        "source": found.source,
        "examples": [_differs(each) for each in found.examples],
    }


def story_object(found: Story, *, with_causes: bool = True) -> dict[str, object]:
    return {
        "view": found.view,
        "key": msgspec.Raw(found.key.encode()),
        "row": _raw(found.row),
        "versions": [_version(each, with_causes=with_causes) for each in found.versions],
        "left_out": found.left_out,
        "notes": list(found.notes),
    }


def _differs(found: Differs) -> dict[str, object]:
    return {
        "kind": found.kind,
        "key": msgspec.Raw(found.key.encode()),
        "columns": list(found.columns),
        "before": _raw(found.before),
        "after": _raw(found.after),
    }


def _version(found: StoryVersion, *, with_causes: bool) -> dict[str, object]:
    told: dict[str, object] = {
        "version": found.version,
        "kind": found.kind.value,
        "position": str(found.position),
        "lsn": found.lsn,
        "committed_at": _at(found.committed_at),
        "published_at": _at(found.published_at),
        "changed": {each.name: {"before": _json(each.before), "after": _json(each.after)} for each in found.changed},
        "after": _raw(found.after),
        "follows": found.follows,
    }
    if with_causes:
        told["causes"] = [cause_object(each) for each in found.causes.found]
        told["causes_note"] = found.causes.note
    return told


def cause_object(found: Cause) -> dict[str, object]:
    return {
        "xid": found.xid,
        "lsn": str(found.lsn) if found.lsn else None,
        "committed_at": _at(found.committed_at),
        "first": str(found.first),
        "last": str(found.last),
        "role": found.role.value,
        "changes": [_change(each) for each in found.changes],
        "changes_left_out": found.changes_left_out,
    }


def _change(found: CausingChange) -> dict[str, object]:
    return {
        "position": str(found.position),
        "table": found.table,
        "op": found.op,
        "key": plain(found.key),
        "changed": {name: {"before": plain(before), "after": plain(after)} for name, before, after in found.changed},
        "role": found.role.value,
    }


def _raw(row: bytes | None) -> msgspec.Raw | None:
    return None if row is None else msgspec.Raw(row)


def _json(value: str | None) -> msgspec.Raw | None:
    return None if value is None else msgspec.Raw(value.encode())


def _at(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat().replace("+00:00", "Z")

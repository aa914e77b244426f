"""What a change of a table means to the views over it. Pure.

Views that use nothing of what changed go on. Those that do are paused before the change: rows of another shape never
reach them.
"""

from __future__ import annotations

from collections.abc import Mapping

from cdc.catalog import Table
from cdc.errors import ViewError
from cdc.position import Position


class SchemaChanged(ViewError):
    """A table is no longer what views were planned against. Carries the table, what changed, and where in the log."""

    table: str = ""
    columns: tuple[str, ...] = ()
    """Those that changed; none where the whole table did."""
    offset: int = 0
    gone: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, table: str, found: Mapping[str, str], position: Position, after: Mapping[str, object] | None
    ) -> SchemaChanged:
        raised = cls(
            f"table {table} changed",
            detail=f"at {position}: " + "; ".join(found.values()),
            hint="change the views that use it, then headwater apply",
        )
        raised.table, raised.offset = table, position.offset
        raised.columns = tuple(name for name in found if name)
        return raised

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.fact, self.detail, self.hint, self.table, self.columns, self.offset)


def _rebuild(fact: str, detail: str, hint: str, table: str, columns: tuple[str, ...], offset: int) -> SchemaChanged:
    raised = SchemaChanged(fact, detail=detail, hint=hint)
    raised.table, raised.columns, raised.offset = table, columns, offset
    return raised


def differences(known: Table, found: Table | None, used: frozenset[str]) -> dict[str, str]:
    """By column (the empty name for the table itself) what changed, of what is used; empty if nothing did."""
    if found is None:
        return {"": "the table was dropped"}
    changed: dict[str, str] = {}
    if found.name != known.name:
        changed[""] = f"the table is called {found.name} now"
    elif found.key != known.key:
        changed[""] = f"its key was ({', '.join(known.key)}) and is ({', '.join(found.key)})"
    elif found.replica_identity != known.replica_identity and not known.key:
        changed[""] = "its replica identity changed"
    for name in sorted(used & known.by_name.keys()):
        old, new = known.by_name[name], found.by_name.get(name)
        if new is None:
            changed[name] = f"-{name} {old.type}"
        elif str(new.type) != str(old.type):
            changed[name] = f"-{name} {old.type} +{name} {new.type}"
    return changed

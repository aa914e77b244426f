"""Changes of a view, as JSON, to the Arrow rows that the warehouse stores, exactly. Pure.

A row is parsed once, by the view's own types: numerics never pass through a float, json stays the text it was, instants
reach as far as Postgres'. A change that does not fit its types is refused by itself; those around it are taken.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from cdc.pgtypes.instants import parse_date, parse_timestamp, parse_timestamptz
from cdc.position import Position
from views.sinks.sink import Change, Mark, Refused
from views.sinks.warehouse_types import PLACED, Column, Layout
from views.sqltypes import Family, SqlType

_INSTANTS: Final[dict[Family, tuple[Callable[[str], int], pa.DataType]]] = {
    Family.DATE: (parse_date, pa.int32()),
    Family.TIMESTAMP: (parse_timestamp, pa.int64()),
    Family.TIMESTAMPTZ: (parse_timestamptz, pa.int64()),
}

_DAYS: Final = parse_date("0001-01-01"), parse_date("9999-12-31")


@dataclass(frozen=True)
class RowParser:
    layout: Layout

    def parse(self, changes: Iterable[Change], steps: Sequence[Mark]) -> tuple[pa.Table, list[Refused]]:
        """The rows of the history, one a change, and what was refused.

        `steps` are the marks that the changes passed, in order: a change belongs to the first whose `next_offset` lies
        after it, or else to the last.
        """
        once = {change.version: change for change in changes}
        kept, refused = self._decoded(once.values())
        columns, bad = self._columns([row for _, row in kept])
        if bad:
            refused += [Refused(kept[place][0], error) for place, error in bad.items()]
            kept = [pair for place, pair in enumerate(kept) if place not in bad]
            columns, _ = self._columns([row for _, row in kept])
        told = [change for change, _ in kept]
        gone = pa.array([change.after is None for change in told], pa.bool_())
        return pa.Table.from_arrays([*columns, *_placed(told, steps), gone], schema=self.layout.history), refused

    def _decoded(self, changes: Iterable[Change]) -> tuple[list[tuple[Change, Any]], list[Refused]]:
        kept: list[tuple[Change, Any]] = []
        refused: list[Refused] = []
        for change in changes:
            try:
                row = self._row.decode(change.after) if change.after is not None else self._key.decode(change.key)
            except (msgspec.MsgspecError, UnicodeDecodeError) as error:
                refused.append(Refused(change, str(error)))
            else:
                kept.append((change, row))
        return kept, refused

    def _columns(self, rows: Sequence[Any]) -> tuple[list[pa.Array], dict[int, str]]:
        """Column by column; where that fails, value by value, to find the rows at fault."""
        arrays: list[pa.Array] = []
        bad: dict[int, str] = {}
        for number, column in enumerate(self.layout.columns):
            values = [getattr(row, f"f{number}", None) for row in rows]
            try:
                arrays.append(to_arrow(column.stored, values))
            except (ValueError, ArithmeticError, pa.ArrowException):
                bad |= _faults(column, values)
            else:
                bad |= _unplaced(column, arrays[-1]) if column.name in self.layout.partition_by else {}
        return arrays, bad

    @cached_property
    def _row(self) -> msgspec.json.Decoder[Any]:
        return _decoder(list(enumerate(self.layout.columns)))

    @cached_property
    def _key(self) -> msgspec.json.Decoder[Any]:
        return _decoder([(n, column) for n, column in enumerate(self.layout.columns) if column.name in self.layout.key])


def to_arrow(kind: SqlType, values: Sequence[Any]) -> pa.Array:
    """Values as `wire_type` decodes them. Raises ValueError (or Arrow's own errors, or ArithmeticError)."""
    if kind.family is Family.ARRAY:
        return _lists(kind, values)
    if kind.family is Family.FLOAT:
        return pa.array([_float(bytes(value)) if value is not None else None for value in values], kind.arrow)
    if wire_type(kind) is msgspec.Raw:
        texts = [None if value is None else bytes(value).decode() for value in values]
        return pa.array([_unquoted(kind, text) for text in texts], pa.string())
    if kind.family in _INSTANTS:
        return _instants(kind, values)
    if pa.types.is_binary(kind.arrow):
        return pa.array([None if value is None else _bytes(value) for value in values], pa.binary())
    return pa.array(values, kind.arrow)


def wire_type(kind: SqlType) -> Any:
    """What msgspec reads of a value's JSON."""
    if kind.family is Family.ARRAY:
        return list[_optional(wire_type(kind.element))]  # type: ignore[misc]
    if kind.family in (Family.JSON, Family.FLOAT) or kind.has_no_scale:
        return msgspec.Raw
    if pa.types.is_boolean(kind.arrow):
        return bool
    if kind.family is Family.INTEGER:
        return int
    if pa.types.is_decimal(kind.arrow):
        return Decimal
    return str


def _decoder(columns: Sequence[tuple[int, Column]]) -> msgspec.json.Decoder[Any]:
    names = {f"f{number}": column.field.name for number, column in columns}
    fields = [(f"f{number}", _optional(wire_type(column.stored))) for number, column in columns]
    return msgspec.json.Decoder(msgspec.defstruct("Row", fields, rename=names, gc=False))


def _optional(kind: Any) -> Any:
    """Raw takes a null as it takes anything."""
    return kind if kind is msgspec.Raw else kind | None


def _unquoted(kind: SqlType, text: str | None) -> str | None:
    if text is None or text == "null":
        return None
    return text.strip('"') if kind.family is Family.NUMERIC else text


def _float(text: bytes) -> float | None:
    """-0 is not 0, though in JSON it is an integer; NaN and the infinities come in quotes."""
    return None if text == b"null" else float(text.strip(b'"'))


def _bytes(text: str) -> bytes:
    if not text.startswith("\\x"):
        raise ValueError("not bytea in hexadecimal")
    return bytes.fromhex(text[2:])


def _instants(kind: SqlType, texts: Sequence[str | None]) -> pa.Array:
    """Arrow's own parser is quick and knows the years 0 to 9999; ours knows the rest."""
    try:
        return pc.cast(pa.array(texts, pa.string()), kind.arrow)
    except pa.ArrowInvalid:
        parse, number = _INSTANTS[kind.family]
        return pa.array([None if text is None else parse(text) for text in texts], number).view(kind.arrow)


def _lists(kind: SqlType, values: Sequence[list[Any] | None]) -> pa.Array:
    items = to_arrow(kind.element, [item for value in values if value is not None for item in value])
    ends = [0]
    for value in values:
        ends.append(ends[-1] + len(value or ()))
    mask = pa.array([value is None for value in values], pa.bool_())
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items, type=kind.arrow, mask=mask)


def _faults(column: Column, values: Sequence[Any]) -> dict[int, str]:
    found = {}
    for place, value in enumerate(values):
        try:
            to_arrow(column.stored, [value])
        except (ValueError, ArithmeticError, pa.ArrowException) as error:
            found[place] = f"column {column.field.name} ({column.field.type}): {error}"
    return found


def _unplaced(column: Column, values: pa.Array) -> dict[int, str]:
    """Values that no partition can be named by: Delta takes an empty text for NULL, and its readers know four digits
    of a year."""
    if pa.types.is_string(values.type):
        odd = pc.equal(values, "")
    elif pa.types.is_date(values.type):
        days = values.view(pa.int32())
        odd = pc.or_(pc.less(days, _DAYS[0]), pc.greater(days, _DAYS[1]))
    else:
        return {}
    error = f"column {column.field.name} ({column.field.type}): no partition can be named by its value"
    return dict.fromkeys(pc.indices_nonzero(odd.fill_null(False)).to_pylist(), error)


def _placed(changes: Sequence[Change], steps: Sequence[Mark]) -> list[pa.Array]:
    ends = [step.next_offset for step in steps]
    places = pa.array([min(bisect_right(ends, change.version), len(ends) - 1) for change in changes], pa.int32())
    told = (
        [str(Position(step.era, step.offset)) for step in steps],
        [step.lsn for step in steps],
        [step.committed_at_us or step.published_at_us for step in steps],  # a snapshot has no commit
    )
    versions = pa.array([change.version for change in changes], pa.int64())
    return [versions, *(pa.array(v, kind).take(places) for v, (_, kind) in zip(told, PLACED[1:], strict=True))]

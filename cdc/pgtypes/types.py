"""A column's type: from what the catalog says of it to the reader of its values.

A TypeSpec is the catalog's description (one shape for `headwater.catalog` and pg_catalog); `pg_type` makes the PgType
of it, once. PgTypes pickle as their description, so they travel to Spark's workers.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa

from cdc.events import UNCHANGED
from cdc.pgtypes.literals import Parts, parse_array, parse_composite
from cdc.pgtypes.scalars import OPAQUE, OPAQUE_ZONED, SCALARS, TEXT, Scalar, bit, numeric
from cdc.pgtypes.wire import decoded_text

_MODIFIER: Final = re.compile(r"\(([\d,\s-]+)\)")
_JAVA_ARRAY: Final = re.compile(r"\[L[\w.]+;@[0-9a-f]+")
"""What Debezium writes of an inner array: the name of a Java object."""

ENUM, COMPOSITE, RANGE, MULTIRANGE = "e", "c", "r", "m"


@dataclass(frozen=True, slots=True)
class TypeSpec:
    """One type as the catalog has it."""

    type: str
    """As format_type prints it: "numeric(12,2)", "app.mood[]"."""
    base: str
    """Domains resolved; for an array, its elements' type."""
    kind: str = "b"
    """typtype of the base: b, e(num), c(omposite), r(ange), m(ultirange)."""
    dims: int = 0
    """1 for arrays."""
    fields: tuple[FieldSpec, ...] = ()
    """Of a composite."""

    @classmethod
    def parse(cls, described: dict[str, Any]) -> TypeSpec:
        """From the catalog's JSON. Raises KeyError for one that lacks something."""
        return cls(
            type=described["type"],
            base=described["base"],
            kind=described["kind"],
            dims=int(described["dims"]),
            fields=tuple(FieldSpec(f["name"], cls.parse(f)) for f in described.get("fields", ())),
        )

    @property
    def name(self) -> str:
        """The base type's name without schema and modifier: "numeric", "citext"."""
        return type_name(self.base)


@dataclass(frozen=True, slots=True)
class FieldSpec:
    name: str
    spec: TypeSpec


@dataclass(frozen=True, slots=True)
class PgType:
    """Reads values of one type. All three raise ValueError for a value that does not fit."""

    spec: TypeSpec
    arrow: pa.DataType
    from_wire: Callable[[object], object]
    """From the log's JSON. Not for None and UNCHANGED: see `read`."""
    from_text: Callable[[str], object]
    """From Postgres' own text."""
    into_arrow: Callable[[object], object] | None = None

    def __str__(self) -> str:
        return self.spec.type

    def __reduce__(self) -> tuple[object, ...]:
        return pg_type, (self.spec,)

    def read(self, value: object) -> object:
        """The Python value of what the log has; NULL stays None, and an unchanged large value stays UNCHANGED."""
        return value if value is None or value is UNCHANGED else self.from_wire(value)

    def to_arrow(self, value: object) -> object:
        """What pyarrow takes for a field of type `arrow`. UNCHANGED must have been filled in before."""
        if value is UNCHANGED:
            raise ValueError("an unchanged value was not filled in")
        return value if value is None or self.into_arrow is None else self.into_arrow(value)


@lru_cache(maxsize=4096)
def pg_type(spec: TypeSpec) -> PgType:
    scalar = _scalar(spec)
    if spec.dims == 0:
        return PgType(spec, scalar.arrow, scalar.from_wire, scalar.from_text, scalar.to_arrow)
    return PgType(spec, pa.list_(scalar.arrow), _array_reader(scalar), _array_text(scalar), _array_to_arrow(scalar))


def type_name(base: str) -> str:
    """ "timestamp(3) without time zone" is "timestamp without time zone", "public.citext" is "citext"."""
    name = _MODIFIER.sub("", base)
    return name if '"' in name else name.rpartition(".")[2]


def modifiers(base: str) -> tuple[int, ...]:
    found = _MODIFIER.search(base)
    return tuple(int(part) for part in found[1].split(",")) if found else ()


def _scalar(spec: TypeSpec) -> Scalar:
    if spec.kind == ENUM:
        return TEXT
    if spec.kind == COMPOSITE:
        return _composite(spec)
    name = spec.name
    if name == "numeric":
        precision, scale = (*modifiers(spec.base), 0)[:2] if modifiers(spec.base) else (None, 0)
        return numeric(precision, scale or 0)
    if name == "bit":
        return bit((*modifiers(spec.base), 1)[0])
    known = SCALARS.get(name)
    if known is not None:
        return known
    return OPAQUE_ZONED if spec.kind in (RANGE, MULTIRANGE) else OPAQUE


def _composite(spec: TypeSpec) -> Scalar:
    """A dict by field; in the log it is the text of a row, whose fields are Postgres' text again."""
    types = {field.name: pg_type(field.spec) for field in spec.fields}

    def from_text(text: str) -> dict[str, object]:
        parts = parse_composite(text)
        if len(parts) != len(types):
            raise ValueError(f"{len(parts)} fields, the type has {len(types)}")
        pairs = zip(types.items(), parts, strict=True)
        return {name: None if part is None else t.from_text(part) for (name, t), part in pairs}

    def to_arrow(value: object) -> object:
        assert isinstance(value, dict)
        return {name: t.to_arrow(value[name]) for name, t in types.items()}

    arrow = pa.struct([(name, t.arrow) for name, t in types.items()])
    return Scalar(arrow, lambda value: from_text(decoded_text(value)), from_text, to_arrow)


def _array_reader(scalar: Scalar) -> Callable[[object], object]:
    def from_wire(value: object) -> list[object]:
        if not isinstance(value, list):
            raise ValueError(f"expected list, found {type(value).__name__}")
        if any(isinstance(item, str) and _JAVA_ARRAY.fullmatch(item) for item in value):
            raise ValueError("an array of several dimensions, which Debezium cannot carry")
        return [None if item is None else scalar.from_wire(item) for item in value]

    return from_wire


def _array_text(scalar: Scalar) -> Callable[[str], object]:
    def items(parts: Parts) -> list[object]:
        return [items(p) if isinstance(p, list) else None if p is None else scalar.from_text(p) for p in parts]

    return lambda text: items(parse_array(text))


def _array_to_arrow(scalar: Scalar) -> Callable[[object], object] | None:
    convert = scalar.to_arrow
    if convert is None:
        return None

    def to_arrow(value: object) -> list[object]:
        assert isinstance(value, list)
        return [None if item is None else convert(item) for item in value]

    return to_arrow

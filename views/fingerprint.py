"""A short name for a part of a plan: the same for equal plans, in every process, and different otherwise."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from hashlib import blake2b
from typing import Final

from sqlglot import exp

from cdc.events import TableName
from views.plan import Field, Node

_DIGEST_BYTES: Final = 10


def fingerprint(node: Node) -> str:
    kind = type(node).__name__.lower()
    return f"{kind}-{blake2b(_described(node).encode(), digest_size=_DIGEST_BYTES).hexdigest()}"


def _described(value: object) -> str:
    match value:
        case exp.Expression():
            return value.sql(dialect="postgres")
        case Field():
            return f"{value.name!r} {value.type.postgres}"
        case Node():
            inside = (f"{part.name}={_described(getattr(value, part.name))}" for part in fields(value))
            return f"{type(value).__name__}({', '.join(inside)})"
        case tuple():
            return f"[{', '.join(map(_described, value))}]"
        case Enum():
            return str(value.value)
        case TableName() | str() | int() | None:
            return repr(value)
    raise TypeError(f"a plan with a {type(value).__name__} in it")

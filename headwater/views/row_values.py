"""A row's JSON as values that are equal just when Postgres would call them so: numbers by their value, whatever their
zeros and however long, and never equal to a boolean."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any, NamedTuple


class Number(NamedTuple):
    """So that Python does not take true for 1."""

    value: Decimal


def row_values(row: bytes) -> Any:
    return json.loads(row, parse_float=_number, parse_int=_number)


def _number(text: str) -> Number:
    return Number(Decimal(text))

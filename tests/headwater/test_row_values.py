"""Rows that print alike numbers in other ways are equal; those that differ in a late digit or in a type are not."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from headwater.views.compare import Comparison
from headwater.views.verify_sinks import is_one_of
from views.sqltypes import Family

LONG = b"1234567890123456789012345678901234567890"
EQUAL = [
    (b'{"n":1.50}', b'{"n":1.5}'),
    (b'{"n":0}', b'{"n":-0.00}'),
    (b'{"n":1E+2}', b'{"n":100}'),
    (b'{"d":{"a":[1, 2.0]}}', b'{"d":{"a":[1.0,2]}}'),
    (b'{"n":%s.10}' % LONG, b'{"n":%s.1}' % LONG),
]
DIFFERENT = [
    (b'{"n":%s1}' % LONG, b'{"n":%s2}' % LONG),
    (b'{"n":0.%s1}' % LONG, b'{"n":0.%s2}' % LONG),
    (b'{"d":{"a":true}}', b'{"d":{"a":1}}'),
    (b'{"d":{"a":false}}', b'{"d":{"a":0.0}}'),
    (b'{"d":[1]}', b'{"d":1}'),
    (b'{"d":[1]}', b'{"d":[[1]]}'),
    (b'{"n":"1"}', b'{"n":1}'),
    (b'{"n":null}', b'{"n":0}'),
]


def compared(one: bytes, other: bytes) -> bool:
    fields = [SimpleNamespace(name="f", type=SimpleNamespace(family=Family.FLOAT))]
    kept: Any = SimpleNamespace(store=SimpleNamespace(fields=fields))
    return Comparison(kept, None).is_equal(one, other)  # type: ignore[arg-type]


@pytest.mark.parametrize(("one", "other"), EQUAL)
def test_equal(one: bytes, other: bytes) -> None:
    assert is_one_of(one, [b"", other])
    assert compared(one, other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_different(one: bytes, other: bytes) -> None:
    assert not is_one_of(one, [b"", other])
    assert not compared(one, other)


def test_floats_are_compared_to_some_digits() -> None:
    assert compared(b'{"f":0.1}', b'{"f":0.10000000000000002}')
    assert not compared(b'{"f":0.1}', b'{"f":0.1001}')
    assert not compared(b'{"f":"NaN"}', b'{"f":1}')
    assert not compared(b'{"f":null}', b'{"f":0}')

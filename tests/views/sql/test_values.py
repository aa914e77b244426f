"""What Python computes for DuckDB: JSON cut from its text, numbers that sort as texts."""

from __future__ import annotations

import json
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from views.sql.duck_values import json_element, json_field, json_unquoted, jsonb_text, numeric_key

TEXTS = st.text(alphabet='ab"\\{}[],: é\n', max_size=5)
JSONS = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
SEPARATORS = st.sampled_from([(",", ":"), (", ", ": "), (" ,\n ", " :\t")])


@given(st.dictionaries(TEXTS, JSONS, max_size=5), SEPARATORS, TEXTS)
def test_fields_are_cut_out_as_they_stand(document: dict[str, object], separators: tuple[str, str], other: str) -> None:
    text = json.dumps(document, separators=separators)
    for key, value in document.items():
        assert json_field(text, key) == json.dumps(value, separators=separators)
    if other not in document:
        assert json_field(text, other) is None


@given(st.lists(JSONS, max_size=5), SEPARATORS)
def test_elements_are_cut_out_as_they_stand(items: list[object], separators: tuple[str, str]) -> None:
    text = json.dumps(items, separators=separators)
    for place in range(-len(items), len(items)):
        assert json_element(text, place) == json.dumps(items[place], separators=separators)
    assert json_element(text, len(items)) is None


def test_digits_and_doubles_are_kept() -> None:
    assert json_field('{"a": 1.00, "b": 2e3, "a": 1.50}', "a") == "1.50"
    assert json_unquoted("1.50") == "1.50"
    assert json_unquoted('"a\\nb"') == "a\nb"
    assert json_unquoted("null") is None
    assert jsonb_text('{"bb":1.50,"a":[1,2],"bb":2}') == '{"a": [1, 2], "bb": 2}'


NUMBERS = st.decimals(allow_nan=False, allow_infinity=False, places=3) | st.sampled_from(
    [Decimal(x) for x in ("0", "-0.0", "1", "1.0", "10", "-1", "-10", "-1.5", "-15", "0.001", "1e30", "-1e-30")]
)


@given(NUMBERS, NUMBERS)
def test_keys_sort_as_the_numbers(a: Decimal, b: Decimal) -> None:
    assert (numeric_key(str(a)) < numeric_key(str(b))) == (a < b)
    assert (numeric_key(str(a)) == numeric_key(str(b))) == (a == b)


def test_specials_are_at_the_ends() -> None:
    texts = ["-Infinity", "-1e99", "0", "1e99", "Infinity", "NaN"]
    assert sorted(texts, key=numeric_key) == texts

"""What queries ask of a row, apart from which values they ask for: each question once, by number.

A row answers each question with terms (values, stems, beginnings of words, what exists) or with codes (numbers that can
be compared, codes.py). Two rows that answer alike are alike to every query but for its exact parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final, NamedTuple, TypeAlias

from search.analysis import analyse
from search.evaluate import text_targets, texts
from search.index import IndexDefinition, Row, Target
from search.json_paths import at_path, leaf_form, leaves
from search.kinds import RULES, Kind


class Sort(StrEnum):
    VALUE = "v"
    """Equal to a value."""
    EXISTS = "e"
    STEM = "s"
    BEGINNING = "b"
    """Words or stems that begin so."""


class Probe(NamedTuple):
    """A question whose answer is a set of terms."""

    sort: Sort
    field: str
    """Empty for all the text columns that the view chose."""


Raw: TypeAlias = Callable[[Row], Sequence[Any]]
Told: TypeAlias = Callable[[Any], Iterable[str]]


_PLACES: Final = 100
_FAR: Final = 10**_PLACES


def value_key(form: Any) -> str:
    """One text for all forms (search.kinds) that are equal."""
    if isinstance(form, str):
        return form
    if isinstance(form, tuple):
        return _leaf_key(form) if isinstance(form[0], str) else "NaN" if form[0] else _number_key(form[1])
    return _number_key(form)


def _leaf_key(form: tuple[Any, ...]) -> str:
    return f"{form[0]}{form[1] if form[0] == 'b' else value_key(form[1])}"


def _number_key(number: Any) -> str:
    """The same for equal numbers."""
    if not isinstance(number, Decimal):
        return str(int(number)) if -_FAR < number < _FAR else _far_key(Decimal(int(number)))
    if not number.is_finite():
        return str(number)
    if not -_PLACES <= number.adjusted() < _PLACES:
        return _far_key(number)
    text = format(number, "f")
    if "." in text:
        text = text.rstrip("0").removesuffix(".")
    return "0" if text == "-0" else text


def _far_key(number: Decimal) -> str:
    """JSON may say 1e999999999: its zeros are never written out."""
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    significant = text.rstrip("0")
    power = int(exponent) + len(text) - len(significant)
    return f"{'-' * sign}{significant}e{power}" if significant else "0"


def raw_of(probe: Probe, definition: IndexDefinition) -> Raw:
    """What of a row the answer is made from: hashable, so that answers can be remembered."""
    if probe.sort in (Sort.STEM, Sort.BEGINNING):
        targets = text_targets(probe.field or None, definition)
        return lambda row: [text for target in targets for text in texts(row, target)]
    target = definition.target(probe.field)
    column, path = target.column, target.path
    if probe.sort is Sort.EXISTS:
        return _exists(target)
    if path:
        return lambda row: [leaf_form(leaf) for leaf in at_path(row.get(column.name), path)]
    return column.values


def _exists(target: Target) -> Raw:
    column, path = target.column, target.path
    if path:
        return lambda row: ["" for found, _ in leaves(row.get(column.name)) if f"{found}.".startswith(f"{path}.")][:1]
    if column.kind is Kind.JSON:
        return lambda row: [""] if leaves(row.get(column.name)) else []
    return lambda row: [""] if column.values(row) else []


def told_by(probe: Probe, definition: IndexDefinition, lengths: set[int]) -> Told:
    """The terms' keys in one raw value. `lengths` are those of the beginnings that are asked for."""
    language = definition.language
    if probe.sort is Sort.STEM:
        return lambda text: analyse(text, language).stems
    if probe.sort is Sort.BEGINNING:
        return lambda text: {word[:n] for each in analyse(text, language) for word in each for n in lengths}
    if probe.sort is Sort.EXISTS:
        return lambda _: ("",)
    target = definition.target(probe.field)
    if target.path:
        return lambda form: (value_key(form),)
    rules = RULES[target.column.kind]
    return lambda raw: (value_key(rules.form(rules.from_row(raw))),)


def wanted_key(field: str, definition: IndexDefinition, value: Any) -> str:
    """The same for a query's value."""
    target = definition.target(field)
    return value_key(leaf_form(value) if target.path else RULES[target.column.kind].form(value))

"""What somebody has chosen, in words: a chip each, with the address without it, and a name for the search. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from headwater.pages.site_narrowing import NUMBERS, Narrowing
from headwater.pages.site_words import choice_label, column_label, number_text
from search.index import IndexDefinition
from search.kinds import Kind

LABEL_CHARACTERS_MAX: Final = 120


@dataclass(frozen=True)
class Chip:
    """Something chosen, and the address without it."""

    label: str
    address: str


def chips(narrowing: Narrowing, definition: IndexDefinition, currency: str) -> Iterator[Chip]:
    if narrowing.words:
        yield Chip(f"“{narrowing.words}”", replace(narrowing, words="").address())
    for name, values in narrowing.chosen.items():
        kind = definition.by_name[name].kind if name in definition.by_name else Kind.TEXT
        for value in values:
            yield Chip(chosen_text(name, kind, value), narrowing.toggled(name, value).address())
    for name, ends in narrowing.ranges.items():
        yield Chip(range_text(name, ends, definition, currency), narrowing.without(name).address())
    if narrowing.box:
        yield Chip("Area on the map", replace(narrowing, box="").address())


def chosen_text(name: str, kind: Kind, value: str) -> str:
    if kind is Kind.BOOLEAN:
        return column_label(name) if value == "true" else f"No {column_label(name).lower()}"
    label = choice_label(kind, value)
    return label if value else f"{column_label(name)} {label}"


def range_text(name: str, ends: tuple[str, str], definition: IndexDefinition, currency: str) -> str:
    kind = definition.by_name[name].kind if name in definition.by_name else Kind.TEXT
    low, high = (number_text(name, end, currency) if end and kind in NUMBERS else end for end in ends)
    label = column_label(name)
    if low and high:
        return f"{label} {low} to {high}"
    return f"{label} from {low}" if low else f"{label} up to {high}"


def suggested_label(narrowing: Narrowing, definition: IndexDefinition, currency: str) -> str:
    said = ", ".join(chip.label for chip in chips(narrowing, definition, currency))
    return (said or "Everything")[:LABEL_CHARACTERS_MAX]

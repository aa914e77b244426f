"""SQL as a page shows it: the same text, with its words told apart. Pure."""

from __future__ import annotations

import difflib
import re
from itertools import islice
from typing import Final

from markupsafe import Markup, escape

_WORDS: Final = (
    "select|from|where|group|by|order|having|join|left|right|full|inner|outer|on|and|or|not|in|is|null|as|with|union|all"
    "|distinct|exists|case|when|then|else|end|limit|offset|over|partition|rows|between|asc|desc|filter|create|materialized"
    "|view|true|false|using|lateral|within|interval|cast|like|ilike|nulls|first|last"
)
_PARTS: Final = re.compile(
    rf"(?P<comment>--[^\n]*|/\*.*?\*/)|(?P<text>'(?:[^']|'')*')|(?P<word>\b(?:{_WORDS})\b)|(?P<number>\b\d+(?:\.\d+)?\b)",
    re.IGNORECASE | re.DOTALL,
)


def highlighted(sql: str) -> Markup:
    """Without the marks it is the text itself."""
    parts, at = [], 0
    for found in _PARTS.finditer(sql):
        parts += [
            escape(sql[at : found.start()]),
            Markup('<span class="{}">{}</span>').format(f"sql-{found.lastgroup}", found[0]),
        ]
        at = found.end()
    return Markup("").join([*parts, escape(sql[at:])])


def difference(before: str, after: str) -> list[tuple[str, str]]:
    """Line by line, with what is around: each with `added`, `removed` or `same`."""
    kinds = {"+": "added", "-": "removed", " ": "same"}
    lines = difflib.unified_diff(before.strip().splitlines(), after.strip().splitlines(), lineterm="", n=3)
    return [(kinds[line[0]], line[1:]) for line in islice(lines, 2, None) if line[0] in kinds]

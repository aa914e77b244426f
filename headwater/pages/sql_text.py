"""SQL as a page shows it: the same text, with its words told apart. Pure."""

from __future__ import annotations

import re
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

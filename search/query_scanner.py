"""Reads the characters of a query's compact form: words, quoted texts and signs, and where each of them begins."""

from __future__ import annotations

import re
from typing import Final

from search.errors import QueryRefused

_SPACE: Final = re.compile(r"\s*")
_WORD: Final = re.compile(r'[^\s()":=]+')
_VALUE: Final = re.compile(r'(?:(?!\.\.)[^\s()"])+')
_ITEM: Final = re.compile(r'(?:(?!\.\.)[^\s()",])+')
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
_LIST: Final = re.compile(r'\s*(?!-*\*\s*\))(?:[^\s()",:=]+|"(?:[^"\\]|\\.)*")\s*[,)]', re.DOTALL)
"""The first item of a list, and what comes after it; * by itself is no item."""
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


class Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0

    def refused(self, fact: str, hint: str, at: int | None = None) -> QueryRefused:
        return QueryRefused(fact, hint=hint).at(self.text, (self.at if at is None else at) + 1)

    def skip_space(self) -> None:
        if found := _SPACE.match(self.text, self.at):
            self.at = found.end()

    @property
    def is_at_end(self) -> bool:
        self.skip_space()
        return self.at >= len(self.text)

    def sees(self, sign: str) -> bool:
        return self.text.startswith(sign, self.at)

    def take(self, sign: str) -> bool:
        """Whether the sign stands here; then it is passed."""
        if not self.sees(sign):
            return False
        self.at += len(sign)
        return True

    def take_operator(self, name: str) -> bool:
        """A word on its own, such as OR."""
        self.skip_space()
        end = self.at + len(name)
        if not self.sees(name) or (
            end < len(self.text) and not self.text[end].isspace() and self.text[end] not in '()"'
        ):
            return False
        self.at = end
        return True

    @property
    def sees_list(self) -> bool:
        """Whether values, separated by commas, stand here: not clauses, which have a colon or an equals sign."""
        return _LIST.match(self.text, self.at) is not None

    def word(self) -> str:
        return self._matched(_WORD)

    def value(self) -> str:
        """Up to a space, a bracket, a quote or two points."""
        return self._matched(_VALUE)

    def item(self) -> str:
        """A value that also ends at a comma."""
        return self._matched(_ITEM)

    def quoted(self) -> str:
        """At a quote: the text inside."""
        found = _QUOTED.match(self.text, self.at)
        if not found:
            raise self.refused("a quote is not closed", 'write "south facing"; a quote inside is \\"')
        self.at = found.end()
        return _ESCAPE.sub(r"\1", found[1])

    def _matched(self, pattern: re.Pattern[str]) -> str:
        found = pattern.match(self.text, self.at)
        if not found:
            return ""
        self.at = found.end()
        return found[0]

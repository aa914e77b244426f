"""Which words of a row a query found: by the same analysis that found them, on the row itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from search.analysis import Token, analyse, tokens
from search.evaluate import text_targets, texts
from search.index import IndexDefinition, Row
from search.query import Mode, Not, Query, Text, inner

FRAGMENT_CHARACTERS: Final = 160
HIGHLIGHTS_MAX: Final = 20
"""Of one row."""


@dataclass(frozen=True)
class Highlight:
    field: str
    text: str
    """The value, or the part of a long one around the first word that was found."""
    spans: tuple[tuple[int, int], ...]
    """Start and end of each word that was found, in characters of `text`."""

    def marked(self, before: str = "<em>", after: str = "</em>") -> str:
        """Escapes nothing: who prints HTML escapes the parts."""
        made, at = [], 0
        for start, end in self.spans:
            made += [self.text[at:start], before, self.text[start:end], after]
            at = end
        return "".join([*made, self.text[at:]])


def highlights(query: Query, row: Row, definition: IndexDefinition) -> tuple[Highlight, ...]:
    asked: dict[str, list[Text]] = {}
    for clause in _asked(query):
        for target in text_targets(clause.field, definition):
            name = f"{target.column.name}.{target.path}" if target.path else target.column.name
            asked.setdefault(name, []).append(clause)
    made = [
        _highlight(name, text, clauses, definition.language)
        for name, clauses in asked.items()
        for text in texts(row, definition.target(name))
    ]
    return tuple(each for each in made if each is not None)[:HIGHLIGHTS_MAX]


def _asked(query: Query) -> Iterator[Text]:
    """Texts that are wanted; what must not be there is not shown."""
    if isinstance(query, Text):
        yield query
    elif not isinstance(query, Not):
        for clause in inner(query):
            yield from _asked(clause)


def _highlight(name: str, text: str, clauses: Sequence[Text], language: str) -> Highlight | None:
    found = tokens(text, language)
    numbers = sorted({number for clause in clauses for number in _found(clause, found, language)})
    if not numbers:
        return None
    spans = [(found[number].start, found[number].end) for number in numbers]
    start = _fragment_start(text, spans[0][0])
    end = start + FRAGMENT_CHARACTERS
    shown = tuple((a - start, b - start) for a, b in spans if b <= end)
    return Highlight(name, text[start:end], shown)


def _found(clause: Text, found: Sequence[Token], language: str) -> list[int]:
    """The numbers of the words that a clause finds."""
    asked = analyse(clause.text, language)
    stems = [token.stem for token in found]
    if clause.mode is Mode.PHRASE:
        length, run = len(asked.stems), list(asked.stems)
        starts = [at for at in range(len(stems) - length + 1) if stems[at : at + length] == run]
        return [at + step for at in starts for step in range(length)]
    wanted = set(asked.stems[:-1] if clause.mode is Mode.PREFIX else asked.stems)
    numbers = [number for number, stem in enumerate(stems) if stem in wanted]
    if clause.mode is Mode.PREFIX:
        beginning = asked.words[-1]
        numbers += [n for n, t in enumerate(found) if t.word.startswith(beginning) or t.stem.startswith(beginning)]
    return numbers


def _fragment_start(text: str, first: int) -> int:
    """A little before the first word, at the beginning of one."""
    if len(text) <= FRAGMENT_CHARACTERS or first < FRAGMENT_CHARACTERS // 3:
        return 0
    space = text.rfind(" ", 0, first - FRAGMENT_CHARACTERS // 4)
    return space + 1 if space > 0 and first - space < FRAGMENT_CHARACTERS // 2 else first

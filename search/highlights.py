"""Which words of a row a query found: by the same analysis that found them, on the row itself. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from search import evaluate
from search.analysis import Token, analyse, tokens
from search.elements import as_rows, inside
from search.evaluate import text_targets, texts
from search.index import IndexDefinition, Row
from search.query import Element, Mode, Not, Query, Text, inner

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
    asked: dict[tuple[str, str], list[Text]] = {}
    for name, text, clause in _asked(query, row, definition):
        asked.setdefault((name, text), []).append(clause)
    made = (_highlight(name, text, clauses, definition.language) for (name, text), clauses in asked.items())
    return tuple(each for each in made if each is not None)[:HIGHLIGHTS_MAX]


def _asked(query: Query, row: Row, definition: IndexDefinition) -> Iterator[tuple[str, str, Text]]:
    """The row's texts, each with its field's name and what is wanted of it; what must not be there is not shown."""
    if isinstance(query, Text):
        for target in text_targets(query.field, definition):
            for text in texts(row, target):
                yield _joined(target.column.name, target.path), text, query
    elif isinstance(query, Element):
        yield from _in_elements(query, row, definition)
    elif not isinstance(query, Not):
        for clause in inner(query):
            yield from _asked(clause, row, definition)


def _in_elements(query: Element, row: Row, definition: IndexDefinition) -> Iterator[tuple[str, str, Text]]:
    """Of those elements that meet the clause."""
    target, within = definition.target(query.field), inside(definition, query.field)
    holds = evaluate.compile(query.clause, within)
    for element in filter(holds, as_rows(row, target)):
        for name, text, clause in _asked(query.clause, element, within):
            yield _joined(_joined(target.column.name, target.path), name), text, clause


def _joined(name: str, path: str) -> str:
    return f"{name}.{path}" if name and path else name or path


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

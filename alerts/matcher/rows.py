"""Rows as numbers: each row's terms, codes and point, many rows in a few flat arrays.

What a value says is remembered for a while: most columns of a row are the same before and after, and cities and kinds
come again and again.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from alerts.matcher.codes import coder
from alerts.matcher.lexicon import ABSENT, Lexicon
from alerts.matcher.probes import Told, raw_of, told_by
from alerts.matcher.tokens import Numbers
from search.index import IndexDefinition, Row

ANSWERS_MAX: Final = 10_000
"""Values remembered of each probe, with their terms."""
TERMS_MAX: Final = 100_000
"""Terms remembered of each probe, those included that nobody asks for."""


@dataclass(frozen=True, slots=True)
class Rows:
    """`None` among them has no terms, no codes and no point, and is not there."""

    there: npt.NDArray[np.uint8]
    term_starts: npt.NDArray[np.int32]
    """By row and probe: where its terms begin; one more at the end."""
    terms: npt.NDArray[np.int32]
    code_starts: npt.NDArray[np.int32]
    codes: npt.NDArray[np.int64]
    points: npt.NDArray[np.float64]
    """Latitude and longitude a row, NaN without."""
    probes: int
    scales: int

    def __len__(self) -> int:
        return len(self.there)

    def numbers(self) -> Numbers:
        return Numbers(
            self.probes, self.term_starts, self.terms, self.scales, self.code_starts, self.codes, self.points
        )


_Answer: TypeAlias = Callable[[Row], Iterable[int]]


class Reader:
    """Reads rows by what the lexicon asks; call `Reader.read` after terms were added, and it asks for those too."""

    def __init__(self, definition: IndexDefinition, lexicon: Lexicon) -> None:
        self._definition, self._lexicon = definition, lexicon
        self._generation: tuple[int, int] | None = None
        self._answers: list[_Answer] = []
        self._codes: list[Callable[[Row], Sequence[int]]] = []

    def read(self, rows: Sequence[Row | None]) -> Rows:
        if self._generation != self._lexicon.generation:
            self._prepare()
        geo = self._definition.geo
        terms, codes, points = array("i"), array("q"), array("d")
        term_starts, code_starts = array("i"), array("i")
        for row in rows:
            for answer in self._answers:
                term_starts.append(len(terms))
                if row is not None:
                    terms.extend(answer(row))
            for coded in self._codes:
                code_starts.append(len(codes))
                if row is not None:
                    codes.extend(coded(row))
            point = geo.point(row) if geo and row is not None else None
            points.extend(point or _NOWHERE)
        term_starts.append(len(terms))
        code_starts.append(len(codes))
        return Rows(
            np.array([row is not None for row in rows], np.uint8),
            np.array(term_starts, np.int32),
            np.array(terms, np.int32),
            np.array(code_starts, np.int32),
            np.array(codes, np.int64),
            np.array(points, np.float64),
            len(self._answers),
            len(self._codes),
        )

    def _prepare(self) -> None:
        definition, lexicon = self._definition, self._lexicon
        self._answers = [
            _answer(raw_of(probe, definition), told_by(probe, definition, lexicon.lengths), number, lexicon)
            for number, probe in enumerate(lexicon.probes)
        ]
        self._codes = [coder(scale, definition) for scale in lexicon.scales]
        self._generation = lexicon.generation


_ABSENT: Final = frozenset([ABSENT])
_NOWHERE: Final = (float("nan"), float("nan"))


def _answer(raw: Callable[[Row], Sequence[Any]], told: Told, probe: int, lexicon: Lexicon) -> _Answer:
    """The terms of one probe in a row, each once."""
    known: dict[Any, frozenset[int]] = {}
    numbers: dict[str, int] = {}
    nothing: frozenset[int] = frozenset()

    def of_value(value: Any) -> frozenset[int]:
        found = known.get(value)
        if found is None:
            if len(known) >= ANSWERS_MAX:
                known.clear()
            found = known[value] = frozenset(map(of_key, told(value))) - _ABSENT
        return found

    def of_key(key: str) -> int:
        found = numbers.get(key)
        if found is None:
            if len(numbers) >= TERMS_MAX:
                numbers.clear()
            found = numbers[key] = lexicon.find(probe, key)
        return found

    def answer(row: Row) -> Iterable[int]:
        values = raw(row)
        if len(values) == 1:
            return of_value(values[0])
        return nothing.union(*map(of_value, values)) if values else nothing

    return answer

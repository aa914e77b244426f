"""A segment being made: subscriptions by the query that they share, queries as conjunctions of numbered literals."""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable
from functools import lru_cache
from itertools import product
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from alerts.matcher.anchors import Dim, Option, Shape, choose, options, shapes_worth
from alerts.matcher.filing import keys_of, laid_out
from alerts.matcher.lexicon import Lexicon
from alerts.matcher.literals import Between, Compiler, Literal
from alerts.matcher.observed import Observed
from alerts.matcher.programs import WORDS_MAX, literal_words, met, program
from alerts.matcher.rows import Rows
from alerts.matcher.table import placed
from alerts.subscription import Entry, Watched
from search.index import IndexDefinition
from search.query import Query

Arrays: TypeAlias = dict[str, npt.NDArray[Any]]

SHAPED_FROM: Final = 10_000
"""Conjunctions that the shapes of keys are chosen by."""


class Draft:
    """Fill it with `add`, then `arrays` once."""

    def __init__(self, definition: IndexDefinition, lexicon: Lexicon) -> None:
        self._lexicon, self._compiler = lexicon, Compiler(definition, lexicon)
        self._literals: dict[Literal, int] = {}
        self._known: dict[Hashable, int] = {}
        self.queries: list[Query] = []
        self._conjunctions: list[tuple[int, tuple[int, ...], bool]] = []
        """Query, literals, whether they say all."""
        self._owned: tuple[array[int], array[int], array[int]] = (array("i"), array("q"), array("i"))
        """Query, subscription, what it watches."""
        self._watched: dict[Watched, int] = {}

    def add(self, entry: Entry) -> None:
        watched = self._watched.setdefault(entry.watched, len(self._watched))
        for column, value in zip(self._owned, (self._query(entry.query), entry.id, watched), strict=True):
            column.append(value)

    def add_all(self, entries: Iterable[Entry]) -> None:
        for entry in entries:
            self.add(entry)

    @property
    def watched(self) -> list[Watched]:
        return list(self._watched)

    def _query(self, query: Query) -> int:
        """Queries with the same literals are one, however they are written."""
        literals = self._literals
        key, says_all = set(), True
        for made in self._compiler.alternatives(query):
            key.add((tuple(sorted(literals.setdefault(each, len(literals)) for each in made.literals)), made.is_exact))
            says_all &= made.is_exact and not any(isinstance(e, Between) and not e.is_exact for e in made.literals)
        known: Hashable = frozenset(key) if says_all else (frozenset(key), repr(query))
        found = self._known.get(known)
        if found is None:
            found = self._known[known] = len(self.queries)
            self.queries.append(query)
            self._conjunctions.extend((found, each, is_exact) for each, is_exact in key)
        return found

    def arrays(self, seen: Rows) -> Arrays:
        """`seen` are rows read by the same lexicon."""
        observed = Observed(seen, self._lexicon, (each for each in self._literals if isinstance(each, Between)))
        edges = observed.edges
        return {
            **self._filed(observed),
            **self._owners(),
            "edges": np.array([edge for each in edges for edge in each], np.int64),
            "edge_starts": np.cumsum([0, *map(len, edges)], dtype=np.int64),
        }

    def _owners(self) -> Arrays:
        query, ids, watched = (np.array(column, np.int64) for column in self._owned)
        order = np.argsort(query, kind="stable")
        starts = np.zeros(len(self.queries) + 1, np.int64)
        np.cumsum(
            np.bincount(query, minlength=len(self.queries)) if len(query) else [0] * len(self.queries), out=starts[1:]
        )
        owner_ids = ids[order].astype(np.int64)
        by_id = np.argsort(owner_ids, kind="stable")
        return {
            "owner_starts": starts,
            "owner_ids": owner_ids,
            "owner_watched": watched[order].astype(np.int32),
            "ids_sorted": owner_ids[by_id],
            "ids_places": by_id.astype(np.int32),
        }

    def _shapes(self, ways: list[list[Option]], observed: Observed) -> set[Shape]:
        """Worked out on some of the conjunctions."""
        some = self._conjunctions[:: len(self._conjunctions) // SHAPED_FROM + 1]
        anchors = [choose([(n, ways[n]) for n in numbers if ways[n]]) for _, numbers, _ in some]
        return shapes_worth(anchors, len(self._conjunctions), lru_cache(lambda dim: observed.tokens(dim[0], dim[1])))

    def _filed(self, observed: Observed) -> Arrays:
        """Every conjunction under the keys of its anchor, and all programs of a key side by side."""
        literals = list(self._literals)
        ways = [options(literal, observed) for literal in literals]
        words_of = [literal_words(literal) for literal in literals]
        dims: dict[Dim, int] = {}
        shapes: dict[tuple[int, ...], int] = {}
        filed_shape, filed_tokens, filed_as = array("i"), array("q"), array("i")
        words, starts = array("q"), array("q", [0])
        allowed = self._shapes(ways, observed)
        for query, numbers, is_exact in self._conjunctions:
            anchor = choose([(number, ways[number]) for number in numbers if ways[number]], allowed)
            shape = tuple(dims.setdefault(option.dim, len(dims)) for option in anchor.options)
            shape_number = shapes.setdefault(shape, len(shapes))
            share = {number: option.share for number, option in zip(anchor.literals, anchor.options, strict=True)}
            judged = [(met(literals[n], observed, share.get(n)), words_of[n]) for n in numbers]
            made = program(query, is_exact, judged)
            assert len(made) <= WORDS_MAX
            missing = (-1,) * (3 - len(shape))
            for tokens in product(*(option.tokens for option in anchor.options)):
                filed_shape.append(shape_number)
                filed_tokens.extend(tokens + missing)
                filed_as.append(len(starts) - 1)
            words.extend(made)
            starts.append(len(words))
        keys = keys_of(np.array(filed_shape, np.int32), np.array(filed_tokens, np.int64).reshape(-1, 3))
        order = np.argsort(keys, kind="stable")
        laid, list_keys, list_starts = laid_out(
            order, keys, np.array(filed_as, np.int32), np.array(starts), np.array(words, np.int64)
        )
        padded = [(*shape, *(-1,) * (3 - len(shape))) for shape in shapes]
        return {
            "words": laid,
            "table": placed(list_keys, list_starts),
            "dims": np.array(list(dims), np.int32).reshape(-1, 3),
            "shapes": np.array(padded, np.int32).reshape(-1, 3),
        }

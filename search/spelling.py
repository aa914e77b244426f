"""Did you mean: words of a query that no row has, replaced by near ones that rows have.

Elasticsearch names near stems and words (its term suggester); which word stood behind a stem is read from a row that
has it, so that what is offered is always a word that somebody wrote.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher
from typing import Any, Final

from search.analysis import analyse, tokens
from search.answers import DidYouMean
from search.compile import Dsl, live
from search.evaluate import texts
from search.index import Column, IndexDefinition, Target, decode_row
from search.query import And, Element, Mode, Not, Or, Query, Text, inner
from search.query_text import to_text

NEAR_MAX: Final = 3
"""Candidates a column."""


class Speller:
    def __init__(self, definition: IndexDefinition, search: Callable[[Dsl], Any]) -> None:
        self._definition, self._search = definition, search

    def mend(self, query: Query) -> DidYouMean | None:
        asked = [word for word in dict.fromkeys(self._words(query)) if word]
        if not asked or not self._definition.text_columns:
            return None
        better = self._better(asked)
        if not better:
            return None
        made = self._mended(query, better)
        return DidYouMean(to_text(made, self._definition), made)

    def _words(self, query: Query) -> list[str]:
        """The beginning of a word is not a word."""
        found: list[str] = []
        for clause in _texts(query):
            if self._is_known(clause):
                words = analyse(clause.text, self._definition.language).words
                found += words[:-1] if clause.mode is Mode.PREFIX else words
        return found

    def _is_known(self, clause: Text) -> bool:
        """Asked where words are counted; what is asked elsewhere is left as it is."""
        return clause.field is None or clause.field in self._definition.text

    def _mended(self, query: Query, better: dict[str, str]) -> Query:
        if isinstance(query, And | Or):
            return type(query)(tuple(self._mended(clause, better) for clause in query.clauses))
        if isinstance(query, Not):
            return Not(self._mended(query.clause, better))
        return _better_text(query, better) if isinstance(query, Text) and self._is_known(query) else query

    def _better(self, asked: Sequence[str]) -> dict[str, str]:
        answer = self._search(self._body(asked))
        missing = [word for n, word in enumerate(asked) if not answer["aggregations"][f"w{n}"]["doc_count"]]
        chosen = {word: self._chosen(word, answer["suggest"]) for word in missing}
        return {word: found for word, found in chosen.items() if found}

    def _body(self, asked: Sequence[str]) -> Dsl:
        """How often each word occurs, and what is near to it."""
        language = self._definition.language
        counts = {f"w{n}": {"filter": self._anywhere(analyse(word, language).stems[0])} for n, word in enumerate(asked)}
        suggest: Dsl = {"text": " ".join(asked)}
        options = {"size": NEAR_MAX, "suggest_mode": "missing", "analyzer": "whitespace"}
        suggest.update({field: {"term": {"field": field, **options}} for field in self._fields()})
        return {"size": 0, "query": live({"match_all": {}}), "aggs": counts, "suggest": suggest}

    def _fields(self) -> list[str]:
        columns = self._definition.text_columns
        return [field for column in columns for field in (column.stems_field, column.words_field)]

    def _anywhere(self, stem: str) -> Dsl:
        return {"bool": {"should": [{"term": {c.stems_field: stem}} for c in self._definition.text_columns]}}

    def _chosen(self, word: str, suggest: Any) -> str | None:
        """The nearest candidate; of equals the most frequent one."""
        options = [
            (option["score"], option["freq"], option["text"])
            for field in self._fields()
            for entry in suggest[field]
            if entry["text"] == word
            for option in entry["options"]
        ]
        for _, _, candidate in sorted(options, reverse=True):
            if written := self._as_written(candidate, word):
                return written
        return None

    def _as_written(self, candidate: str, word: str) -> str | None:
        """A word of some row that has the candidate, as a word or as its stem: the one most like what was asked."""
        stem = analyse(candidate, self._definition.language).stems[0]
        either = {"bool": {"should": [self._anywhere(candidate), self._anywhere(stem)]}}
        answer = self._search({"size": 1, "query": live(either), "stored_fields": ["row"]})
        for hit in answer["hits"]["hits"]:
            row = decode_row(self._definition, hit["fields"]["row"][0])
            found = {
                token.word
                for column in self._definition.text_columns
                for text in self._texts(column, row)
                for token in tokens(text, self._definition.language)
                if token.stem in (candidate, stem)
            }
            return max(found, key=lambda each: (SequenceMatcher(None, each, word).ratio(), each), default=None)
        return None

    @staticmethod
    def _texts(column: Column, row: Any) -> list[str]:
        return texts(row, Target(column))


def _texts(query: Query) -> Iterator[Text]:
    """Those asked of the row; the words of elements are not counted."""
    if isinstance(query, Text):
        yield query
    elif not isinstance(query, Element):
        for clause in inner(query):
            yield from _texts(clause)


def _better_text(clause: Text, better: dict[str, str]) -> Text:
    text, at = "", 0
    for token in tokens(clause.text):
        text += clause.text[at : token.start] + better.get(token.word, clause.text[token.start : token.end])
        at = token.end
    return replace(clause, text=text + clause.text[at:])

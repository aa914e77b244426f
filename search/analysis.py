"""The one analysis of text: used by the index, by the evaluator, by highlights and by everything that matches a row.

    "Gärten, South-facing" ─▶ fold garten, south-facing ─▶ words garten · south · facing ─▶ stems garten · south · face

Folding is Unicode NFKD without diacritics, then casefold, character by character, so that every folded character knows
where it came from. Words are runs of letters and digits (with the vowel signs that some scripts need). Stems are
Snowball's. Words are cut at WORD_CHARACTERS_MAX, in rows and queries alike. Who changes any of this changes ANALYSIS:
an index made with another analysis, or with another version of the stemmer, is refused.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import version
from threading import Lock
from typing import Final, NamedTuple

import snowballstemmer

ANALYSIS: Final = f"1, snowball {version('snowballstemmer')}"
"""Names the rules; kept with every index."""
WORD_CHARACTERS_MAX: Final = 100
STEMS_CACHED_MAX: Final = 200_000
PIECES_CHARACTERS_CACHED_MAX: Final = 4_000_000
"""Of a language's pieces together."""
TEXTS_CACHED_MAX: Final = 2_000
LANGUAGES: Final = frozenset(snowballstemmer.algorithms())
DEFAULT_LANGUAGE: Final = "english"


class Token(NamedTuple):
    """A word of a text: what a highlight points at. Its number is its place in the list."""

    word: str
    """Folded."""
    stem: str
    start: int
    end: int
    """In characters of the text as it was written."""


class Analysed(NamedTuple):
    """What is asked of a text: its words and stems, in order."""

    words: tuple[str, ...]
    stems: tuple[str, ...]


class Stemmed(NamedTuple):
    """What is indexed of a text."""

    stems: str
    """In their order."""
    others: str
    """Those of its words that are not their own stem, in any order; one may stand there twice."""


class _Folds(dict[int, str]):
    """For str.translate: each character's folded form, worked out when it is first met."""

    def __missing__(self, code: int) -> str:
        folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(code)).casefold())
        self[code] = kept = "".join(c for c in folded if not unicodedata.combining(c))
        return kept


def _signs() -> str:
    """The marks that survive folding and belong to words: vowel signs of Indic scripts and the like."""
    marks = (chr(code) for code in range(0x300, 0xFE30) if unicodedata.category(chr(code))[0] == "M")
    return "".join(re.escape(mark) for mark in marks if not unicodedata.combining(mark))


_FOLDS: Final = _Folds()
_ASCII_WORD: Final = re.compile(r"[a-z0-9]+")
_WORD: Final = re.compile(rf"[^\W_](?:[^\W_]|[{_signs()}])*")


def fold(text: str) -> str:
    return text.lower() if text.isascii() else text.translate(_FOLDS)


def words(text: str) -> list[str]:
    """The folded words, in order."""
    folded = fold(text)
    found = (_ASCII_WORD if folded.isascii() else _WORD).findall(folded)
    if len(folded) <= WORD_CHARACTERS_MAX or max(map(len, found), default=0) <= WORD_CHARACTERS_MAX:
        return found
    return [word[:WORD_CHARACTERS_MAX] for word in found]


class Stems(dict[str, str]):
    """A language's stems by folded word, worked out when a word is first met; forgotten when there are too many."""

    def __init__(self, language: str) -> None:
        super().__init__()
        self._stemmer, self._lock = snowballstemmer.stemmer(language), Lock()

    def __missing__(self, word: str) -> str:
        if _is_number(word):
            return word
        if len(self) >= STEMS_CACHED_MAX:
            self.clear()
        with self._lock:  # a stemmer works on one word at a time
            self[word] = made = str(self._stemmer.stemWord(word)) or word
        return made


def _is_number(word: str) -> bool:
    """Its own stem in every language. Each is rarely met again, so none is remembered in the place of a word."""
    return word.isdigit() and word.isascii()


@lru_cache(maxsize=len(LANGUAGES))
def stems_of(language: str) -> Stems:
    return Stems(language)


class _Pieces(dict[str, str]):
    """The stems of each piece of a text between white space, such as `South-facing,`: they come again and again.

    White space belongs to no word and folding goes by the character, so a text is what its pieces are, one by one.
    """

    def __init__(self, language: str) -> None:
        super().__init__()
        self._stems = stems_of(language)
        self.others: dict[str, str] = {}
        """Of pieces with words that are not their own stem: those."""
        self.characters = 0

    def __missing__(self, piece: str) -> str:
        if _is_number(piece):
            return piece[:WORD_CHARACTERS_MAX]
        found, stems = words(piece), self._stems
        others = " ".join([word for word in found if stems[word] != word])
        if others:
            self.others[piece] = others
        self.characters += len(piece)
        self[piece] = made = " ".join([stems[word] for word in found])
        return made


@lru_cache(maxsize=len(LANGUAGES))
def stemmer(language: str) -> Callable[[str], Stemmed]:
    """Of whole texts. Threads may share it: what one of them remembers too much of, it leaves to the others."""
    known = _Pieces(language)

    def stemmed(text: str) -> Stemmed:
        nonlocal known
        if known.characters >= PIECES_CHARACTERS_CACHED_MAX:
            known = _Pieces(language)
        pieces, mine = text.split(), known
        stems = " ".join(filter(None, map(mine.__getitem__, pieces)))
        return Stemmed(stems, " ".join(map(mine.others.__getitem__, mine.others.keys() & pieces)))

    return stemmed


@lru_cache(maxsize=TEXTS_CACHED_MAX)
def analyse(text: str, language: str = DEFAULT_LANGUAGE) -> Analysed:
    """Remembered for a while: many searches are asked of the same row."""
    found = words(text)
    return Analysed(tuple(found), tuple(map(stems_of(language).__getitem__, found)))


def tokens(text: str, language: str = DEFAULT_LANGUAGE) -> list[Token]:
    """The same words and stems, with where each of them stands in the text."""
    folded, origins = _folded_with_origins(text)
    pattern, stems = _ASCII_WORD if folded.isascii() else _WORD, stems_of(language)
    made = []
    for match in pattern.finditer(folded):
        word = match[0][:WORD_CHARACTERS_MAX]
        made.append(Token(word, stems[word], origins[match.start()], origins[match.end() - 1] + 1))
    return made


def _folded_with_origins(text: str) -> tuple[str, range | list[int]]:
    """The folded text, and for each of its characters the one of the text that it came from."""
    if text.isascii():
        return text.lower(), range(len(text))
    pieces = [_FOLDS[ord(character)] for character in text]
    return "".join(pieces), [index for index, piece in enumerate(pieces) for _ in piece]

"""Inside json columns: which path leads to which value, and the one token in the index that says so.

A json column's inner shape is not declared, so every path into it can be asked: `agent.name`, `photos.caption`. Arrays
are looked through: a condition holds when any value at the path meets it, and two conditions may be met by different
elements. An element, an object that stands in an array, can also be asked by itself: then paths begin in it. Text,
numbers and booleans are told apart: the number 5 is not the text "5". The document as a whole is no value, and neither
is null.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, TypeAlias

from search.encoding import sortable
from search.kinds import decimal_form, decimal_of, text_form

DEPTH_MAX: Final = 50
PATHS_CACHED_MAX: Final = 10_000
INTEGERS_CACHED_MAX: Final = 10_000

Leaf: TypeAlias = bool | int | float | Decimal | str


def leaves(document: Any) -> list[tuple[str, Leaf]]:
    """Every value with its dotted path; what lies deeper than DEPTH_MAX is not searchable."""
    found: list[tuple[str, Leaf]] = []
    _gather(document, "", DEPTH_MAX, found)
    return found


def _gather(document: Any, path: str, depth: int, found: list[tuple[str, Leaf]]) -> None:
    if document is None or depth == 0:
        return
    if isinstance(document, dict):
        for name, inner in document.items():
            _gather(inner, f"{path}.{name}" if path else name, depth - 1, found)
    elif isinstance(document, list):
        for inner in document:
            _gather(inner, path, depth - 1, found)
    else:
        found.append((path, document))


def at_path(document: Any, path: str) -> Iterator[Leaf]:
    return (leaf for found, leaf in leaves(document) if found == path)


def below(document: Any, path: str) -> bool:
    """Whether there is any value at the path, or under it."""
    return any(found == path or found.startswith(f"{path}.") for found, _ in leaves(document))


def elements(document: Any) -> list[tuple[str, dict[str, Any]]]:
    """Every object that stands in an array, with the array's dotted path, whatever is around it."""
    found: list[tuple[str, dict[str, Any]]] = []
    _gather_elements(document, "", DEPTH_MAX, False, found)
    return found


def _gather_elements(
    document: Any, path: str, depth: int, in_array: bool, found: list[tuple[str, dict[str, Any]]]
) -> None:
    if depth == 0:
        return
    if isinstance(document, dict):
        if in_array:
            found.append((path, document))
        for name, inner in document.items():
            if isinstance(inner, dict | list):
                _gather_elements(inner, f"{path}.{name}" if path else name, depth - 1, False, found)
    elif isinstance(document, list):
        for inner in document:
            if isinstance(inner, dict | list):
                _gather_elements(inner, path, depth - 1, True, found)


def elements_at(document: Any, path: str) -> Iterator[dict[str, Any]]:
    return (element for found, element in elements(document) if found == path)


def leaf_form(leaf: Leaf) -> tuple[str, Any]:
    """What is compared: values of different sorts are never equal, and have no order."""
    if isinstance(leaf, bool):
        return "b", leaf
    if isinstance(leaf, str):
        return "s", text_form(leaf)
    return "n", decimal_form(leaf if isinstance(leaf, int) else decimal_of(leaf))


@lru_cache(maxsize=PATHS_CACHED_MAX)
def escaped(path: str) -> str:
    """Without what separates tokens (white space) or ends a path (= and :)."""
    if path.isidentifier() and path.isascii():
        return path
    return "".join(c if c.isalnum() or c in "._-" else f"%{ord(c):x};" for c in path)


_sortable_integer: Final = lru_cache(maxsize=INTEGERS_CACHED_MAX)(sortable)


def token(path: str, leaf: Leaf) -> str:
    """`name=sParis`, `width=n3400002800`, `open=btrue`."""
    if isinstance(leaf, bool):
        return f"{escaped(path)}=b{'true' if leaf else 'false'}"
    if isinstance(leaf, str):
        return f"{escaped(path)}=s{text_form(leaf)}"
    return f"{escaped(path)}=n{_sortable_integer(leaf) if isinstance(leaf, int) else sortable(decimal_of(leaf))}"


def ends(path: str, leaf: Leaf) -> tuple[str, str]:
    """Tokens of the same path and sort lie from the first of these up to the second, exclusive."""
    sort = leaf_form(leaf)[0]
    return f"{escaped(path)}={sort}", f"{escaped(path)}={chr(ord(sort) + 1)}"

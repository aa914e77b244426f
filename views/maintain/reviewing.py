"""What a changed view would change for its readers: the rows of the one that they use beside those of the next.

Both go on meanwhile, so a row that is on its way may count. Rows are compared in the columns that both have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from views.maintain.contents import has_same_key, key_json, paired, rows
from views.maintain.group import Group
from views.maintain.registry import Review

EXAMPLES: Final = 5
_Rows = Iterator[tuple[bytes, bytes]]


def review(old: Group, new: Group, view: str, examples: int = EXAMPLES) -> Review:
    before, after = old.store(view), new.store(view)
    columns_before, columns_after = ({field.name for field in store.fields} for store in (before, after))
    counts, shown = dict.fromkeys(("added", "removed", "changed", "equal"), 0), list[str]()
    with rows(old, view) as one, rows(new, view) as two:
        pairs = paired(one, two) if has_same_key(before, after) else _apart(one, two)
        for left, right in pairs:
            kind = _kind(left, right, columns_before & columns_after)
            counts[kind] += 1
            if kind != "equal" and len(shown) < examples:
                store, row = (after, right) if right is not None else (before, left)
                shown.append(f"{kind} {key_json(store, row or b'{}').decode()}")
    return Review(
        **counts,
        columns_added=tuple(sorted(columns_after - columns_before)),
        columns_removed=tuple(sorted(columns_before - columns_after)),
        examples=tuple(shown),
    )


def _apart(one: _Rows, two: _Rows) -> Iterator[tuple[bytes | None, bytes | None]]:
    """With another key no row is the same."""
    yield from ((row, None) for _, row in one)
    yield from ((None, row) for _, row in two)


def _kind(left: bytes | None, right: bytes | None, common: set[str]) -> str:
    if left is None or right is None:
        return "added" if left is None else "removed"
    if left == right:
        return "equal"
    old, new = (msgspec.json.decode(row, type=dict[str, msgspec.Raw]) for row in (left, right))
    return "equal" if all(bytes(old[name]) == bytes(new[name]) for name in common) else "changed"

"""Programs side by side under the keys that rows find them by: compiled, since a base has millions of copies."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from alerts.matcher.compiled import compiled

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_STIR: Final = np.uint64(0xBF58476D1CE4E5B9)


@compiled
def mixed(key: Any, token: Any) -> Any:
    """A key for a combination of tokens, in their order. Two that have one by chance share a list, no more."""
    made = (key ^ np.uint64(token)) * _ODD
    made ^= made >> np.uint64(29)
    made *= _STIR
    return made ^ (made >> np.uint64(32))


@compiled
def keys_of(shapes: Any, tokens: Any) -> Any:
    """The key of each filing: its shape, then its three tokens (-1 for none)."""
    keys = np.empty(len(shapes), np.uint64)
    for at in range(len(shapes)):
        key = mixed(np.uint64(0), np.uint64(shapes[at]))
        for place in range(3):
            if tokens[at, place] >= 0:
                key = mixed(key, np.uint64(tokens[at, place]))
        keys[at] = key
    return keys


@compiled
def laid_out(order: Any, keys: Any, conjunctions: Any, starts: Any, words: Any) -> Any:
    """Lists of programs one after the other, each with how many words it has; the lists' keys, and where each begins.

    `order` are the filings by key.
    """
    total = lists = 0
    for number in range(len(order)):
        at = order[number]
        lists += number == 0 or keys[at] != keys[order[number - 1]]
        total += starts[conjunctions[at] + 1] - starts[conjunctions[at]]
    made = np.empty(total + lists, np.int64)
    list_keys, list_starts = np.empty(lists, np.uint64), np.empty(lists, np.int64)
    end, list_ = 0, -1
    for number in range(len(order)):
        at = order[number]
        if number == 0 or keys[at] != keys[order[number - 1]]:
            list_ += 1
            list_keys[list_], list_starts[list_] = keys[at], end
            made[end] = 0
            end += 1
        conjunction = conjunctions[at]
        for word in range(starts[conjunction], starts[conjunction + 1]):
            made[end] = words[word]
            end += 1
        made[list_starts[list_]] = end - list_starts[list_] - 1
    return made, list_keys, list_starts

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
def laid_out(order: Any, conjunctions: Any, starts: Any, words: Any) -> Any:
    """Programs copied one after the other, in the order of the lists that they are in, and where each begins."""
    total = 0
    for at in order:
        total += starts[conjunctions[at] + 1] - starts[conjunctions[at]]
    made = np.empty(total, np.int64)
    ends = np.empty(len(order) + 1, np.int64)
    end = 0
    ends[0] = 0
    for number in range(len(order)):
        conjunction = conjunctions[order[number]]
        for word in range(starts[conjunction], starts[conjunction + 1]):
            made[end] = words[word]
            end += 1
        ends[number + 1] = end
    return made, ends

"""The demo's only source of chance, under every generator and every action.

Guarantee: the same seed gives the same draws, on every supported version of Python. For this only `Random.random()` is
used, whose sequence Python promises to keep (it makes no such promise for `choice`, `gauss` or `shuffle`), and no
function of the platform's maths library.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate
from typing import Generic, TypeVar
from uuid import UUID

T = TypeVar("T")


class Draw:
    """A stream of draws, named by a seed: independent streams have different names."""

    __slots__ = ("random",)

    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed).random

    def below(self, limit: int) -> int:
        return int(self.random() * limit)

    def between(self, low: int, high: int) -> int:
        """Both ends included."""
        return low + int(self.random() * (high - low + 1))

    def one(self, options: Sequence[T]) -> T:
        return options[int(self.random() * len(options))]

    def some(self, options: Sequence[T], count: int) -> list[T]:
        """Up to `count` different options, in the order in which they stand."""
        drawn = {self.below(len(options)) for _ in range(count)}
        return [options[index] for index in sorted(drawn)]

    def chance(self, share: float) -> bool:
        return self.random() < share

    def bell(self) -> float:
        """Around 0, within -1 and 1, most often near 0."""
        return (self.random() + self.random() + self.random()) / 1.5 - 1.0

    def uuid(self) -> UUID:
        words = (int(self.random() * 2**32) for _ in range(4))
        value = 0
        for word in words:
            value = value << 32 | word
        return UUID(int=value, version=4)


class Weighted(Generic[T]):
    """Options of which some are drawn more often than others."""

    __slots__ = ("_limits", "_options")

    def __init__(self, options: Sequence[T], weights: Sequence[float]) -> None:
        if len(options) != len(weights) or not options:
            raise ValueError("as many weights as options, and at least one")
        self._options = options
        self._limits = list(accumulate(weights))

    def draw(self, draw: Draw) -> T:
        """The last option takes what rounding leaves over."""
        found = bisect_right(self._limits, draw.random() * self._limits[-1])
        return self._options[min(found, len(self._options) - 1)]


def zipf(options: Sequence[T]) -> Weighted[T]:
    """The first option is drawn twice as often as the second, three times as often as the third, and so on."""
    return Weighted(options, [1.0 / rank for rank in range(1, len(options) + 1)])

"""Counts a minute as upright bars, for an SVG. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

WIDTH: Final = 1_000
HEIGHT: Final = 100
GAP: Final = 3


@dataclass(frozen=True, slots=True)
class Bar:
    x: float
    y: float
    width: float
    height: float
    said: str


@dataclass(frozen=True, slots=True)
class Bars:
    bars: tuple[Bar, ...]
    top: int
    """What the upper edge stands for."""
    width: int = WIDTH
    height: int = HEIGHT


def bars(counts: Sequence[tuple[str, int]]) -> Bars:
    """From what each is called and its count, left to right."""
    top = nice(max((count for _, count in counts), default=0))
    step = WIDTH / max(len(counts), 1)
    found = []
    for number, (name, count) in enumerate(counts):
        height = HEIGHT * count / top
        found.append(
            Bar(round(number * step, 1), round(HEIGHT - height, 1), round(step - GAP, 1), round(height, 1), name)
        )
    return Bars(tuple(found), top)


def nice(most: float) -> int:
    """The smallest of 1, 2, 5, 10, 20, 50 … that is not below."""
    size = 1
    while True:
        for digit in (1, 2, 5):
            if digit * size >= most:
                return digit * size
        size *= 10

"""Functions over arrays, compiled when first called and kept on disk: the loops that Python is too slow for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The same function as machine code. Other threads may run meanwhile."""
    return cast(F, njit(cache=True, nogil=True)(function))

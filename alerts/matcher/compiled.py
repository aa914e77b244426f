"""Functions over arrays, compiled when first called and kept on disk: the loops that Python is too slow for."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

_HERE = Path(__file__).parent
_config: Any = numba.config
_njit: Any = njit


def _kept_in() -> str:
    """A folder for these very sources: what is kept of a function has its callees in it, which may be of other modules,
    and is looked for by the date of its own module alone."""
    digest = hashlib.sha256()
    for module in sorted(_HERE.glob("*.py")):
        digest.update(module.read_bytes())
    given = _config.CACHE_DIR
    if not given and not os.access(_HERE, os.W_OK):
        return ""  # what cannot be written to does not change under us
    return str(Path(given or _HERE / "__pycache__") / f"compiled-{digest.hexdigest()[:16]}")


_config.CACHE_DIR = _kept_in()

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The same function as machine code. Other threads may run meanwhile."""
    return cast(F, njit(cache=True, nogil=True)(function))


def borrowing(function: F) -> F:
    """The same, for what makes no array: who owns those that it is given is not counted at every step.

    Counting took most of the time of small functions that are given tuples of arrays.
    """
    return cast(F, _njit(cache=True, nogil=True, _nrt=False)(function))


_PREFETCH = "llvm.prefetch.p0"


def _prefetch(_typing: Any, array: Any, index: Any) -> Any:
    """Asks for the line of memory in which that element of a contiguous array lies, and goes on meanwhile."""

    def generated(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        made = context.make_array(signature.args[0])(context, builder, arguments[0])
        element = builder.gep(made.data, [arguments[1]])
        line, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        sort = ir.FunctionType(ir.VoidType(), [line, number, number, number])
        asked = builder.module.globals.get(_PREFETCH) or ir.Function(builder.module, sort, _PREFETCH)
        to_read, near, data = (number(value) for value in (0, 3, 1))
        builder.call(asked, [builder.bitcast(element, line), to_read, near, data])
        return context.get_dummy_value()

    return types.void(array, index), generated


prefetch: Any = intrinsic(_prefetch)

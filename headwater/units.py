"""Numbers for people: sizes and durations, the same everywhere."""

from __future__ import annotations

from typing import Final

_BYTE_UNITS: Final = ("kB", "MB", "GB", "TB", "PB")


def bytes_text(count: float) -> str:
    """1234567 as `1.2 MB` (powers of 1000)."""
    if abs(count) < 1000:
        return f"{count:.0f} B"
    for unit in _BYTE_UNITS:
        count /= 1000
        if abs(count) < 999.95 or unit == _BYTE_UNITS[-1]:
            break
    return f"{count:.1f} {unit}"


def duration_text(seconds: float) -> str:
    """0.0042 as `4 ms`, 3.21 as `3.2 s`, 4000 as `1 h 6 min`, 200000 as `2 d 7 h`."""
    if seconds < 0:
        return f"-{duration_text(-seconds)}"
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, size_below, unit_below in ((86_400, "d", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // size_below} {unit_below}"
    return f"{whole} s"

"""The terms that queries ask for, by number: those of the base in mapped files, those that came later in a dictionary.

Numbers are given in order and never change until the next base, so that all segments of a matcher read a row's terms
alike. A key is `probe number, NUL, text`; what is looked up is compared whole, so a hash in common fools nobody.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from alerts.matcher.codes import Scale
from alerts.matcher.probes import Probe, Sort
from alerts.matcher.table import free_slots

ABSENT: Final = -1
_FILES: Final = ("term_slots", "term_offsets", "term_bytes", "term_probes")


class Lexicon:
    """Not for several threads at once."""

    def __init__(self, probes: Sequence[Probe] = (), base: dict[str, npt.NDArray[Any]] | None = None) -> None:
        self.probes: list[Probe] = list(probes)
        self._numbers = {probe: number for number, probe in enumerate(self.probes)}
        self.scales: list[Scale] = []
        self._base = base
        self._base_terms = len(base["term_probes"]) if base else 0
        self._added: dict[bytes, int] = {}
        self._added_probes: list[int] = []
        self.lengths: set[int] = set()
        """Of the beginnings of words that are asked for."""

    def __len__(self) -> int:
        return self._base_terms + len(self._added)

    @property
    def generation(self) -> tuple[int, int]:
        """Changes when a row may answer otherwise than before."""
        return len(self), len(self.probes) + len(self.scales)

    def probe(self, probe: Probe) -> int:
        found = self._numbers.get(probe)
        if found is None:
            found = self._numbers[probe] = len(self.probes)
            self.probes.append(probe)
        return found

    def scale(self, scale: Scale) -> int:
        if scale not in self.scales:
            self.scales.append(scale)
        return self.scales.index(scale)

    def add(self, probe: int, text: str) -> int:
        key = _key(probe, text)
        found = self._find(key)
        if found == ABSENT:
            found = self._added[key] = len(self)
            self._added_probes.append(probe)
            if self.probes[probe].sort is Sort.BEGINNING:
                self.lengths.add(len(text))
        return found

    def find(self, probe: int, text: str) -> int:
        """ABSENT when no query asks for it."""
        return self._find(_key(probe, text))

    def _find(self, key: bytes) -> int:
        found = self._added.get(key)
        if found is None:
            return self._find_in_base(key) if self._base else ABSENT
        return found

    def _find_in_base(self, key: bytes) -> int:
        assert self._base is not None
        slots, offsets, texts = self._base["term_slots"], self._base["term_offsets"], self._base["term_bytes"]
        mask = len(slots) - 1
        at = _hash(key) & mask
        while (term := int(slots[at])) != ABSENT:
            if texts[offsets[term] : offsets[term + 1]].tobytes() == key:
                return term
            at = (at + 1) & mask
        return ABSENT

    def probes_of(self) -> npt.NDArray[np.int32]:
        """The probe of every term."""
        added = np.array(self._added_probes, np.int32)
        return added if self._base is None else np.concatenate([self._base["term_probes"], added])

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """For files. Only of a lexicon without a base: the next base begins anew."""
        assert self._base is None
        keys = list(self._added)
        offsets = np.zeros(len(keys) + 1, np.int64)
        np.cumsum([len(key) for key in keys], out=offsets[1:])
        slots = free_slots(np.array([_hash(key) for key in keys], np.uint64))
        made = (slots, offsets, np.frombuffer(b"".join(keys), np.uint8), np.array(self._added_probes, np.int32))
        return dict(zip(_FILES, made, strict=True))

    @classmethod
    def of_files(
        cls,
        probes: Sequence[Probe],
        scales: Sequence[Scale],
        lengths: Sequence[int],
        arrays: dict[str, npt.NDArray[Any]],
    ) -> Lexicon:
        made = cls(probes, {name: arrays[name] for name in _FILES})
        made.scales.extend(scales)
        made.lengths.update(lengths)
        return made


def _key(probe: int, text: str) -> bytes:
    return f"{probe}\0{text}".encode("utf-8", "surrogatepass")


def _hash(key: bytes) -> int:
    return int.from_bytes(blake2b(key, digest_size=8).digest(), "little")


def folder_arrays(folder: Path) -> dict[str, npt.NDArray[Any]]:
    """Every array of a base, mapped: pages are shared by all processes that read them."""
    return {file.stem: np.load(file, mmap_mode="r") for file in sorted(folder.glob("*.npy"))}

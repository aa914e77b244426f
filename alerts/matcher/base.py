"""The base on disk: a folder of mapped arrays for each version, and one file that names the newest.

    <folder>/current       the name of the newest base
    <folder>/base-<n>/     *.npy, base.json; whole when `current` names it, and never changed after

Several processes map the same files, so they share their memory. Replaced bases are removed, all but the last: who
still has one mapped keeps it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np

from alerts.matcher.codes import Scale
from alerts.matcher.draft import Arrays, Draft
from alerts.matcher.lexicon import Lexicon, folder_arrays
from alerts.matcher.probes import Probe, Sort
from alerts.subscription import Watched
from cdc.errors import ConfigurationError
from search.index import IndexDefinition
from search.query import Query
from search.query_json import from_json, to_json

LAYOUT: Final = 2
_CURRENT: Final = "current"
_NAME: Final = "base-"
_META: Final = "base.json"


class Meta(msgspec.Struct):
    layout: int
    version: str
    """What the caller stamped it with: up to where subscriptions are in it."""
    subscriptions: int
    view: str
    index: dict[str, Any]
    """How the view is searched; another analysis or column means another base."""
    probes: list[tuple[str, str]]
    scales: list[tuple[str, str]]
    lengths: list[int]
    watched: list[Watched]


@dataclass(frozen=True, slots=True)
class Base:
    meta: Meta
    arrays: Arrays
    lexicon: Lexicon
    query: Callable[[int], Query]
    made_at: float


def write(
    folder: Path, version: str, definition: IndexDefinition, draft: Draft, lexicon: Lexicon, made: Arrays
) -> Path:
    """The base's own folder. One writer at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{_NAME}{max([0, *map(_number, folder.glob(f'{_NAME}*'))]) + 1}"
    target.mkdir()
    for name, array in {**made, **lexicon.arrays(), **_queries(draft.queries)}.items():
        np.save(target / f"{name}.npy", array)
    meta = Meta(
        LAYOUT, version, len(made["owner_ids"]), definition.view, definition.meta(),
        [(probe.sort.value, probe.field) for probe in lexicon.probes],
        [(scale.field, scale.sort) for scale in lexicon.scales],
        sorted(lexicon.lengths), draft.watched,
    )  # fmt: skip
    (target / _META).write_bytes(msgspec.json.encode(meta))
    named = folder / f"{_CURRENT}.new"
    named.write_text(target.name)
    os.replace(named, folder / _CURRENT)
    for old in sorted(folder.glob(f"{_NAME}*"), key=_number)[:-2]:
        shutil.rmtree(old)
    return target


def read(folder: Path, definition: IndexDefinition) -> Base:
    """The newest. Raises ConfigurationError when there is none, or one made for another shape of the view."""
    try:
        inner = folder / (folder / _CURRENT).read_text()
        meta = msgspec.json.decode((inner / _META).read_bytes(), type=Meta)
    except FileNotFoundError:
        raise ConfigurationError(f"no base of subscriptions in {folder}", hint="build one first") from None
    if (meta.layout, meta.view, meta.index) != (LAYOUT, definition.view, definition.meta()):
        raise ConfigurationError(
            f"the base in {folder} was made for another shape of {definition.view}", hint="build it anew"
        )
    arrays = folder_arrays(inner)
    probes = [Probe(Sort(sort), field) for sort, field in meta.probes]
    lexicon = Lexicon.of_files(probes, [Scale(*scale) for scale in meta.scales], meta.lengths, arrays)
    return Base(meta, arrays, lexicon, _reader(arrays, definition), (inner / _META).stat().st_mtime)


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix(_NAME))


def _queries(queries: Sequence[Query]) -> Arrays:
    encoder = msgspec.json.Encoder()
    texts = [encoder.encode(to_json(query)) for query in queries]
    starts = np.zeros(len(texts) + 1, np.int64)
    np.cumsum([len(text) for text in texts], out=starts[1:])
    return {"query_starts": starts, "query_bytes": np.frombuffer(b"".join(texts), np.uint8)}


def _reader(arrays: Arrays, definition: IndexDefinition) -> Callable[[int], Query]:
    starts, texts = arrays["query_starts"], arrays["query_bytes"]

    def read_query(number: int) -> Query:
        return from_json(msgspec.json.decode(texts[starts[number] : starts[number + 1]].tobytes()), definition)

    return read_query

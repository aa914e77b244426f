"""`headwater bench sinks`: rows a second into each sink, beside what the place's own client writes in bulk.

The raw figure is the limit that a sink can come near to: the same rows, already as the place wants them, without
versions, tombstones, marks and lookups. Both are taken in turns in one run, so their ratio holds on a busy machine.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

from elasticsearch import Elasticsearch

from headwater.bench import sinks_warehouse
from headwater.bench.conditions import Machine
from headwater.bench.progress import Progress
from headwater.deployment import Deployment
from headwater.sinks import sink_kinds
from search.documents import DocumentBuilder
from search.index import define
from views.plan import Field
from views.sinks.cache_keys import CacheKeys
from views.sinks.lane import LaneLimits
from views.sinks.sink import Change, Mark, ViewShape
from views.sqltypes import named, numeric

CHUNK_ROWS: Final = 5_000
VIEW: Final = "listing"
Rate = Callable[[Deployment, ViewShape, Sequence[Change]], float]
"""Rows a second."""
_TEXT: Final = "A bright flat with a balcony towards the garden, close to schools, the park and the river. "


@dataclass(frozen=True, slots=True)
class SinksPlan:
    rows: int = 100_000
    rounds: int = 3


@dataclass(frozen=True, slots=True)
class SinksConditions:
    machine: Machine
    plan: SinksPlan
    row_bytes: int
    chunk_rows: dict[str, int]
    """As many are written at a time as when the sink follows its topic."""
    raw_chunk_rows: int


def run(deployment: Deployment, machine: Machine, progress: Progress, plan: SinksPlan) -> dict[str, Any]:
    shape = _shape(f"bench_{secrets.token_hex(4)}")
    changes = [_change(number) for number in range(plan.rows)]
    found: dict[str, Any] = {}
    for name, (mine, raw) in _SINKS.items():
        ours, theirs = [], []
        for number in range(plan.rounds):
            progress.step(f"{name}, round {number + 1} of {plan.rounds}")
            theirs.append(raw(deployment, shape, changes))
            ours.append(mine(deployment, shape, changes))
        ratios = [each / limit for each, limit in zip(ours, theirs, strict=True)]
        found[name] = {
            "rows_per_s": round(median(ours)),
            "raw_rows_per_s": round(median(theirs)),
            "ratio": round(median(ratios), 2),
            "rounds": [{"rows_per_s": round(o), "raw_rows_per_s": round(t)} for o, t in zip(ours, theirs, strict=True)],
        }
    size = sum(len(change.after or b"") for change in changes) // len(changes)
    return {**found, "conditions": SinksConditions(machine, plan, size, _chunks(deployment), CHUNK_ROWS)}


def _shape(source: str) -> ViewShape:
    columns = (
        Field("id", named("bigint"), nullable=False),
        Field("title", named("text")),
        Field("city", named("text")),
        Field("kind", named("text")),
        Field("price", numeric(12, 2)),
        Field("bedrooms", named("integer")),
        Field("lat", named("double precision")),
        Field("lon", named("double precision")),
        Field("listed_at", named("timestamp with time zone")),
    )
    return ViewShape(source, VIEW, columns, ("id",), {"text": "title"})


def _change(number: int) -> Change:
    row = (
        f'{{"id":{number},"title":"{_TEXT}{number}","city":"city {number % 200}","kind":"flat","price":{number}.50,'
        f'"bedrooms":{number % 6},"lat":48.{number % 10_000:04},"lon":2.{number % 10_000:04},'
        f'"listed_at":"2026-01-31T12:00:00+00:00"}}'
    )
    return Change(f'{{"id":{number}}}'.encode(), row.encode(), number)


def _chunks(deployment: Deployment) -> dict[str, int]:
    lanes = LaneLimits().chunk_rows_max
    return {name: kind.rows_per_apply_max or lanes for name, kind in sink_kinds(deployment).items()}


def _sunk(name: str) -> Rate:
    def sunk(deployment: Deployment, shape: ViewShape, changes: Sequence[Change]) -> float:
        sink, size = sink_kinds(deployment)[name].open(shape, 1), _chunks(deployment)[name]
        try:
            sink.prepare()
            began = time.monotonic()
            for start in range(0, len(changes), size):
                sink.apply(changes[start : start + size], Mark("bench", start + size))
            return len(changes) / (time.monotonic() - began)
        finally:
            sink.drop()
            sink.close()

    return sunk


def _raw_cache(deployment: Deployment, shape: ViewShape, changes: Sequence[Change]) -> float:
    """SET in pipelines."""
    base = CacheKeys(shape.source, shape.view).generation(9)
    with deployment.redis.client() as client:
        began = time.monotonic()
        for start in range(0, len(changes), CHUNK_ROWS):
            pipe = client.pipeline(transaction=False)
            for change in changes[start : start + CHUNK_ROWS]:
                pipe.set(f"{base}:{change.key.decode()}", change.after or b"")
            pipe.execute()
        rate = len(changes) / (time.monotonic() - began)
        for start in range(0, len(changes), CHUNK_ROWS):
            client.unlink(*(f"{base}:{change.key.decode()}" for change in changes[start : start + CHUNK_ROWS]))
        return rate


def raw_search(deployment: Deployment, shape: ViewShape, changes: Sequence[Change]) -> float:
    """_bulk with documents made beforehand, into an index of the same mapping."""
    definition, index = define(shape), f"{shape.source}-raw"
    builder = DocumentBuilder(definition)
    bodies = [_bulk(builder, changes[start : start + CHUNK_ROWS]) for start in range(0, len(changes), CHUNK_ROWS)]
    with deployment.elasticsearch.client() as client:
        client.indices.create(index=index, mappings=definition.mapping(), settings={"refresh_interval": "-1"})
        try:
            began = time.monotonic()
            for body in bodies:
                _sent(client, index, body)
            client.indices.refresh(index=index)
            return len(changes) / (time.monotonic() - began)
        finally:
            client.indices.delete(index=index)


def _bulk(builder: DocumentBuilder, changes: Sequence[Change]) -> bytes:
    lines = [b'{"index":{}}\n' + builder.encoded(change.after or b"{}") + b"\n" for change in changes]
    return b"".join(lines)


def _sent(client: Elasticsearch, index: str, body: bytes) -> None:
    headers = {"content-type": "application/x-ndjson", "accept": "application/json"}
    client.perform_request("POST", f"/{index}/_bulk", headers=headers, body=body)


_SINKS: Final[dict[str, tuple[Rate, Rate]]] = {
    "cache": (_sunk("cache"), _raw_cache),
    "search": (_sunk("search"), raw_search),
    "warehouse": (sinks_warehouse.filled, sinks_warehouse.raw_filled),
    "warehouse_merge": (sinks_warehouse.merged, sinks_warehouse.raw_merged),
}
"""Ours, and the place's own client."""

"""What is kept how long: topics and Delta tables, what they hold, what leaves next and when. Only looks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from cdc.addresses import KafkaAddress
from cdc.archive import ArchiveReader, archive_folder
from cdc.archive_delta import DeltaFolder
from cdc.reader import read_range
from cdc.topics import find_state, topic_settings, topic_state
from headwater.views.place import Place
from views.maintain.publisher import view_topic
from views.sinks.letters import letters_topic
from views.sinks.warehouse_folders import CURRENT, HISTORY, live_generation, view_folder

UPKEEP_COMMITS: Final = 200
"""How many commits of a table are looked back for its last compaction and vacuum."""
_COMPACT: Final = "OPTIMIZE"
_VACUUM: Final = "VACUUM END"


@dataclass(frozen=True, slots=True)
class Kept:
    """One topic or table."""

    name: str
    kind: str
    """topic or table."""
    records: int
    """Offsets between the first and the last, or rows."""
    size_bytes: int | None
    oldest_at: datetime | None
    policy: str
    leaves_next: str
    leaves_at: datetime | None = None
    compacted_at: datetime | None = None
    vacuumed_at: datetime | None = None
    note: str = ""


def look(place: Place) -> list[Kept]:
    """The change log first, then views by name, each with its tables."""
    return list(_everything(place))


def _everything(place: Place) -> Iterator[Kept]:
    deployment, views = place.deployment, sorted(place.registry.wanted().views)
    source, folder = deployment.source, deployment.settings.warehouse_folder
    if (changes := topic(place, source.changes_topic)) is not None:
        yield _beside_archive(place, changes)
    if (archive := delta_table("change log archive", archive_folder(folder, source).path)) is not None:
        yield archive
    for view in views:
        if (found := topic(place, view_topic(source, view))) is not None:
            yield found
        where = view_folder(folder, source.name, view)
        generation = live_generation(where)
        for part in (HISTORY, CURRENT) if generation is not None else ():
            label = f"warehouse {view} {part} (generation {generation})"
            if (table := delta_table(label, where / f"g{generation}" / part)) is not None:
                yield table
    if (letters := topic(place, letters_topic(source))) is not None:
        yield letters


def topic(place: Place, name: str) -> Kept | None:
    kafka = place.deployment.kafka
    state = find_state(kafka, name)
    if state is None:
        return None
    settings = topic_settings(kafka, name)
    oldest_at = _oldest_at(kafka, name, state.low, state.high)
    policy, leaves, leaves_at = topic_policy(settings, oldest_at)
    size = topic_bytes(place, name)
    return Kept(name, "topic", state.high - state.low, size, oldest_at, policy, leaves, leaves_at)


def topic_policy(settings: dict[str, str], oldest_at: datetime | None) -> tuple[str, str, datetime | None]:
    """How the topic lets go, what leaves next, and when at the earliest. Pure."""
    if "compact" in settings.get("cleanup.policy", "delete"):
        whole, bound = (int(settings.get(f"{word}.compaction.lag.ms", "0")) for word in ("min", "max"))
        words = f"newest of each key; every version for {_span(whole)}"
        if bound < 2**62:
            words += f", at most {_span(bound)}"
        return words, "older versions of a key", None
    retention_ms = int(settings.get("retention.ms", "-1"))
    if retention_ms < 0:
        return "for ever", "nothing", None
    leaves_at = oldest_at + timedelta(milliseconds=retention_ms) if oldest_at else None
    return f"everything for {_span(retention_ms)}", "the oldest segment", leaves_at


def delta_table(name: str, path: Path) -> Kept | None:
    folder = DeltaFolder(path)
    found = folder.look()
    if found is None:
        return None
    files = _files(found.table)
    made = {each.get("operation"): each for each in reversed(found.table.history(UPKEEP_COMMITS))}
    return Kept(
        name,
        "table",
        sum(int(each.get("num_records") or 0) for each in files),
        sum(int(each["size_bytes"]) for each in files),
        _instant(min((each["modification_time"] for each in files), default=None)),
        "rows for ever; files that no reader needs "
        + found.table.metadata().configuration.get("delta.deletedFileRetentionDuration", "").removeprefix("interval "),
        "files that were merged",
        compacted_at=_instant(made.get(_COMPACT, {}).get("timestamp")),
        vacuumed_at=_instant(made.get(_VACUUM, {}).get("timestamp")),
        note="" if found.is_ours else "somebody else has written to it",
    )


def topic_bytes(place: Place, name: str) -> int | None:
    """On the disk of the embedded broker; a cluster of the user's own is not asked."""
    if not place.deployment.settings.kafka.embedded:
        return None
    folder = place.deployment.settings.data_folder / "data" / "kafka" / "data" / f"{name}-0"
    return sum(file.stat().st_size for file in folder.glob("*.log")) if folder.is_dir() else None


def _beside_archive(place: Place, changes: Kept) -> Kept:
    """What Kafka lets go is lost where the archive is behind, or there is none."""
    deployment = place.deployment
    state = topic_state(deployment.kafka, deployment.source.changes_topic)
    ranges = ArchiveReader(deployment.source, deployment.settings.warehouse_folder).ranges()
    reached = ranges.next_offset(state.topic_id, state.low)
    if not deployment.settings.warehouse.archive:
        return replace(changes, note="not archived: what leaves is lost")
    behind = state.high - reached
    return replace(changes, note=f"archived up to {reached:,}, {behind:,} behind" if behind else "archived")


def _oldest_at(kafka: KafkaAddress, name: str, low: int, high: int) -> datetime | None:
    for chunk in read_range(kafka, name, low, high):
        return datetime.fromtimestamp(chunk[0].written_at_ms / 1000, UTC)
    return None


def _files(table: Any) -> list[dict[str, Any]]:
    import pyarrow as pa

    return list(pa.table(table.get_add_actions(flatten=True)).to_pylist())


def _instant(at: Any) -> datetime | None:
    if at is None or isinstance(at, datetime):
        return at.astimezone(UTC) if at is not None and at.tzinfo else at.replace(tzinfo=UTC) if at else None
    return datetime.fromtimestamp(int(at) / 1000, UTC)


def _span(ms: int) -> str:
    hours = ms / 3_600_000
    return f"{hours / 24:g} days" if hours >= 24 and hours % 24 == 0 else f"{hours:g} hours"

"""The change log's topic without what it told of them, at once: it is cut off behind the last such record.

    archived, erased there ─▶ everybody has read past it ─▶ Kafka removes what lies before

Records cannot be taken out of the middle of a topic, so everything before goes with them; who wants it later reads the
archive, as if the topic's retention had passed. Who stands before that point would read a log without their deletion
there, and keep their rows: then nothing is cut off.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from cdc import eras
from cdc.archive import ArchiveReader
from cdc.epochs import mark_of
from cdc.errors import ConfigurationError, LogError, ViewError
from cdc.topics import delete_before, topic_state
from headwater.erasing.log_places import LogArchive, LogTopic, is_theirs
from headwater.erasing.person import Person
from headwater.erasing.receipt import Line
from headwater.views.place import Place

READ_S_MAX: Final = 60.0
POLL_S: Final = 0.5


@dataclass(frozen=True)
class Cut:
    """Where the topic is to begin."""

    offset: int
    """After the whole transaction that tells of them last."""
    theirs: int
    """Records of theirs before it."""


def require_archive(place: Place) -> None:
    """Raises, before anything is erased, if the topic is the only copy."""
    if not place.deployment.settings.warehouse.archive:
        raise ConfigurationError(
            "the change log is not archived",
            detail="what is cut off its topic would be lost for whoever builds a view from the log",
            hint="warehouse.archive = true; or without --now, and it is gone with the topic's retention",
        )


def let_go(place: Place, person: Person) -> Line:
    """Last of all, so that nothing brings them back: the archive and the copies of states hold nothing of theirs."""
    log, archive = LogTopic(place.deployment, person), LogArchive(place.deployment, person)
    cut = _cut(log, person)
    if cut is None:
        return Line(log.name, 0)
    _require_archived(place, archive, cut)
    deadline = time.monotonic() + READ_S_MAX
    while behind := list(_behind(place, cut.offset)):
        if time.monotonic() > deadline:
            raise _needed(behind)
        time.sleep(POLL_S)
    os.sync()  # the archive is the only copy from here on
    delete_before(place.deployment.kafka, place.deployment.source.changes_topic, cut.offset)
    note = f"nobody can read what was before offset {cut.offset} any more; its last file goes by segment.ms"
    return Line(log.name, cut.theirs, erased=cut.theirs, note=note)


def _cut(log: LogTopic, person: Person) -> Cut | None:
    """None if the topic holds nothing of theirs."""
    theirs, offset, is_open = 0, None, False
    for record in log.records():
        if is_theirs(person, record):
            theirs, is_open = theirs + 1, True
        if is_open:
            offset = record.position.offset + 1
            is_open = not mark_of(record.value).completes
    return None if offset is None else Cut(offset, theirs)


def _require_archived(place: Place, archive: LogArchive, cut: Cut) -> None:
    """All of it but theirs, without a gap."""
    deployment = place.deployment
    state = topic_state(deployment.kafka, deployment.source.changes_topic)
    reader = ArchiveReader(deployment.source, deployment.settings.warehouse_folder)
    if reader.reach(state.topic_id, cut.offset) > reader.reach(state.topic_id, state.low):
        raise LogError(
            f"the change log is not archived up to {cut.offset}",
            detail=f"the archive holds {reader.ranges()}",
            hint="headwater retention; erase again then",
        )
    if left := archive.count():
        raise LogError(f"the archive still holds {left} records of theirs", hint="erase again")


def _behind(place: Place, offset: int) -> Iterator[str]:
    """Who has not read so far."""
    era = eras.current(place.deployment.kafka, place.deployment.source).era
    state, proven = place.registry.state(), place.registry.gaps().proven
    for name, group in state.groups.items():
        if group.offset < offset or group.era not in (0, era):
            views = sorted(view for view, status in state.views.items() if status.group == name)
            yield f"{', '.join(views) or name} at offset {group.offset}"
    if proven is not None and proven.era == era and proven.offset < offset:
        yield f"the canary at offset {proven.offset}"


def _needed(by: list[str]) -> ViewError:
    return ViewError(
        "somebody still needs the change log's records",
        detail="; ".join(by),
        hint="headwater views; or without --now, and they are gone with the topic's retention",
    )

"""Single rows of a view written to its sinks again: asked of the maintainer, then looked at until they are right.

A row is published once more as the view has it, with a newer version, so that every sink takes it in place of whatever
it holds (views/maintain/repairs.py). That mends sinks; a view that is not what its SQL gives has to be built again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from cdc.errors import ConfigurationError, ViewError
from headwater.views.apply import nobody
from headwater.views.compare import chosen
from headwater.views.kept import Frontiers, KeptView, open_view
from headwater.views.place import Place
from headwater.views.verify_history import VIEW, VerifyRun, Why, now_us
from headwater.views.verify_keys import SinkLooked, look_at_sink
from headwater.views.verify_view import history_of, result_of_keys
from headwater.views.view_sinks import opened, sinks_with_rows, topic_of
from views.maintain.repairs import AskedKey, ask

ATTEMPTS_MAX: Final = 3
"""A place may have been given a version that is a little ahead of ours: each attempt is a newer one."""
DONE_S_MAX: Final = 60.0
SUNK_S_MAX: Final = 60.0
POLL_S: Final = 0.2


@dataclass(frozen=True)
class Repaired:
    view: str
    keys: tuple[str, ...]
    sinks: tuple[SinkLooked, ...]
    attempts: int
    took_s: float

    @property
    def is_equal(self) -> bool:
        return not any(sink.wrong for sink in self.sinks)


def known_wrong(place: Place, view: str) -> list[bytes]:
    """Keys that some sink was found to have wrong, and that were not found right since."""
    places = history_of(place).wrong().get(view, {})
    return list(dict.fromkeys(key.encode() for name, keys in places.items() if name != VIEW for key in keys))


def rows_to_tell(place: Place, view: str, keys: Sequence[bytes]) -> dict[bytes, bytes]:
    """What the view has under keys, as it would be told again; a key without a row is left out."""
    kept = open_view(place.registry, Frontiers(place.deployment.kafka, place.deployment.source).look(), view)
    named = {each.encoded: each.key.encode() for each in chosen(kept.store, keys)}
    return {named[entry]: row for entry, row in kept.read(list(named)).items()}


def repair_keys(place: Place, view: str, keys: Sequence[bytes], by: str) -> Repaired:
    """Raises ViewError when nobody keeps the view, ConfigurationError for what is no key of it."""
    began_at_us, began = now_us(), time.monotonic()
    if not place.registry.is_kept():
        raise nobody(place.registry.state())
    frontiers = Frontiers(place.deployment.kafka, place.deployment.source)
    kept = open_view(place.registry, frontiers.look(), view)
    asked = [AskedKey(each.key, each.encoded) for each in chosen(kept.store, keys)]
    if len(asked) < len(set(keys)):
        raise ConfigurationError(
            f"not a key of {view}",
            detail=f"the key is ({', '.join(f'{field.name} {field.type}' for field in kept.store.key_fields)})",
            hint=f"headwater repair {view} --key '{{…}}'",
        )
    attempts, sinks = 0, list[SinkLooked]()
    while attempts < ATTEMPTS_MAX and (not attempts or any(each.wrong for each in sinks)):
        attempts += 1
        tell_again(place, frontiers, view, asked)
        sinks = _looked(place, kept, frontiers, keys)
    found = Repaired(view, tuple(each.key for each in asked), tuple(sinks), attempts, time.monotonic() - began)
    results = tuple(result_of_keys(each.sink, each.keys, each.wrong, each.lsn, each.generation) for each in sinks)
    run = VerifyRun(view, Why.REPAIR, by, began_at_us, found.took_s, results, repaired=found.keys)
    history_of(place).add(run, {each.sink: each.wrong for each in sinks}, looked=found.keys)
    return found


def tell_again(place: Place, frontiers: Frontiers, view: str, keys: Sequence[AskedKey]) -> None:
    before = frontiers.look()[view].next_offset
    request = ask(place.registry, view, keys)
    deadline = time.monotonic() + DONE_S_MAX
    while request.is_open:
        if time.monotonic() > deadline:
            request.done()
            raise ViewError(
                f"rows of {view} were not told again within {DONE_S_MAX:g} s",
                detail="the view is being built, or its maintainer is busy",
                hint="headwater views",
            )
        time.sleep(POLL_S)
    if frontiers.wait(view, lambda frontier: frontier.next_offset > before, DONE_S_MAX) is None:
        raise ViewError(f"view {view} was dropped meanwhile", hint="headwater views")


def _looked(place: Place, kept: KeptView, frontiers: Frontiers, keys: Sequence[bytes]) -> list[SinkLooked]:
    """Every sink, once it includes what was told again."""
    target = frontiers.look()[kept.view].next_offset
    found = []
    for kind in sinks_with_rows(place, kept).values():
        with opened(place, kept, kind) as here:
            deadline = time.monotonic() + SUNK_S_MAX + kind.interval_s
            while (mark := here.sink.mark()) is None or mark.next_offset < target:
                if time.monotonic() > deadline:
                    raise ViewError(
                        f"the {here.name} of {kept.view} does not take what it is told",
                        detail=f"it is at {mark.next_offset if mark else 'nothing'}, not {target}",
                        hint=f"headwater views {kept.view}",
                    )
                time.sleep(POLL_S)
            found.append(look_at_sink(here, kept, topic_of(place, kept.view), frontiers, keys))
    return found

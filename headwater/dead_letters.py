"""Dead letters for who runs the service: which are open, and what becomes of them.

Replaying writes the refused change to its place again, from this process and beside the lane that keeps it: newer wins,
so a row that came meanwhile is never taken back. What is refused again stays, with the newest reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from cdc.errors import ConfigurationError, HeadwaterError, LogError, SinkError
from headwater.sinks import sink_kinds
from headwater.views.kept import Frontiers, open_view
from headwater.views.place import Place
from views.maintain.publisher import view_topic
from views.sinks.following import ViewTopic
from views.sinks.letters import DeadLetter, Letters, held_keys, read_letters
from views.sinks.sink import Change, Refused, SinkKind, ViewShape

TAKEN: Final = "taken"
REFUSED: Final = "refused"
FAILED: Final = "failed"
LIST: Final = "headwater deadletters list"
NAMED_MAX: Final = 10
"""Of the letters that one beginning fits, so many are named."""


@dataclass(frozen=True)
class Chosen:
    """Which letters a person means; nothing given is all."""

    view: str = ""
    sink: str = ""
    ids: tuple[str, ...] = ()
    """Or beginnings of them that fit one each."""


@dataclass(frozen=True)
class Replayed:
    letter: DeadLetter
    outcome: str
    """taken, refused again, or failed: the place could not be asked."""
    reason: str = ""


def open_letters(place: Place, chosen: Chosen) -> list[DeadLetter]:
    """Oldest first. Raises ConfigurationError for an id that names none of them, or several."""
    found = [
        letter
        for letter in read_letters(place.deployment.kafka, place.deployment.source)
        if chosen.view in ("", letter.view) and chosen.sink in ("", letter.sink)
    ]
    named = {_named(found, id_).id for id_ in chosen.ids}
    return [letter for letter in found if letter.id in named] if chosen.ids else found


def _named(letters: Sequence[DeadLetter], id_: str) -> DeadLetter:
    """An empty one, as of a shell's variable that was never set, begins every id: it means none."""
    if not id_:
        raise ConfigurationError("an id is empty", detail="name the letter", hint=LIST)
    fitting = [letter for letter in letters if letter.id.short.startswith(id_)]
    if not fitting:
        raise ConfigurationError(f"no open letter {id_}", hint=LIST)
    if len(fitting) > 1:
        shown = [letter.id.short for letter in fitting[:NAMED_MAX]] + ["…"] * (len(fitting) > NAMED_MAX)
        raise ConfigurationError(f"{len(fitting)} open letters begin with {id_}", detail=", ".join(shown), hint=LIST)
    return fitting[0]


def held_now(place: Place, view: str, sink: str) -> set[str]:
    """The keys that open letters hold in the generation that readers use."""
    source = place.deployment.source
    generation = _kind(place, sink).current(source.name, view)
    found = {} if generation is None else held_keys(place.deployment.kafka, source, view, sink, generation)
    return {key.decode() for key in found}


def incomplete(letters: Sequence[DeadLetter]) -> dict[tuple[str, str, int], int]:
    """By view, sink and generation: how many keys are not as they should be."""
    return dict(Counter((each.view, each.sink, each.generation) for each in letters))


def drop(place: Place, letters: Sequence[DeadLetter]) -> None:
    """Closes them. The place keeps what it has of their keys, which may be old or nothing."""
    if letters:
        Letters(place.deployment.kafka, place.deployment.source).close([each.id for each in letters])


def replay(place: Place, letters: Sequence[DeadLetter]) -> list[Replayed]:
    """Writes each to its place again. A place that cannot be asked fails its own letters only."""
    if not letters:
        return []
    box = Letters(place.deployment.kafka, place.deployment.source)
    where = sorted(letters, key=lambda each: each.id)
    found: list[Replayed] = []
    for (view, sink, generation), mine in groupby(where, key=lambda each: each.id[:3]):
        mine_all = list(mine)
        try:
            found += _replayed(place, box, view, sink, generation, mine_all)
        except HeadwaterError as error:
            reason = ": ".join(filter(None, (error.fact, error.detail)))
            found += [Replayed(each, FAILED, reason) for each in mine_all]
    return found


def _replayed(
    place: Place, box: Letters, view: str, sink: str, generation: int, letters: Sequence[DeadLetter]
) -> Iterator[Replayed]:
    deployment = place.deployment
    kept = open_view(place.registry, Frontiers(deployment.kafka, deployment.source).look(), view)
    shape = kept.group.shape(view, deployment.source)
    kind = _kind(place, sink)
    topic = ViewTopic(deployment.kafka, view_topic(deployment.source, view))
    changes = {each.key: _change(topic, each) for each in letters}
    refused = {each.change.key.decode(): each for each in _written(kind, shape, generation, list(changes.values()))}
    box.close([each.id for each in letters if each.key not in refused])
    box.tell(shape, sink, generation, list(refused.values()))
    for each in letters:
        again = refused.get(each.key)
        yield Replayed(each, REFUSED, again.error) if again else Replayed(each, TAKEN)


def _written(kind: SinkKind, shape: ViewShape, generation: int, changes: Sequence[Change]) -> list[Refused]:
    number = generation or kind.current(shape.source, shape.view)
    if number is None:
        raise SinkError(f"the {kind.name} of {shape.view} is not filled", hint=f"headwater views {shape.view}")
    with closing(kind.open(shape, number)) as sink:
        return sink.again(changes)


def _kind(place: Place, sink: str) -> SinkKind:
    kinds = sink_kinds(place.deployment)
    if sink not in kinds:
        raise ConfigurationError(f"no sink {sink}", detail=f"there are {', '.join(kinds)}")
    return kinds[sink]


def _change(topic: ViewTopic, letter: DeadLetter) -> Change:
    """As it was published. Where compaction has removed it a newer one is there: the letter's own row does no harm."""
    try:
        for piece in topic.changes(letter.version, letter.version + 1):
            for change in piece:
                if change.version == letter.version and change.key.decode() == letter.key:
                    return change
    except LogError:
        if letter.is_cut:
            raise
    if letter.is_cut:
        raise LogError(
            "the row is not in the view's topic any more",
            detail="a newer one has taken its place, and the letter holds only its beginning",
            hint="headwater deadletters drop",
        )
    return Change(letter.key.encode(), None if letter.row is None else letter.row.encode(), letter.version)

"""Dead letters for who runs the service: which are open, and what becomes of them.

Replaying writes the refused change to its place again, from this process and beside the lane that keeps it: newer wins,
so a row that came meanwhile is never taken back. What is refused again stays, with the newest reason.

A lane may refuse a newer row of a key at any time, and its letter then takes the older one's place. So what is open is
looked at once more right before letters are closed or told, and one about a newer row is left: it is not the one that
was replayed, or that a person has seen. Kafka compares nothing when it writes: one that comes between is closed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
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
from views.sinks.letters import DeadLetter, LetterId, Letters, OpenLetters, Taken, held_keys, read_letters
from views.sinks.sink import Change, Refused, SinkKind, ViewShape

TAKEN: Final = "taken"
REFUSED: Final = "refused"
FAILED: Final = "failed"
NEWER: Final = "newer"
AT_ONCE: Final = 1_000
"""Letters, between two looks at what is open."""
VERSION: Final = "@"
LIST: Final = "headwater deadletters list"
NAMED_MAX: Final = 10
"""Of the letters that one beginning fits, so many are named."""


@dataclass(frozen=True)
class Chosen:
    """Which letters a person means; nothing given is all."""

    view: str = ""
    sink: str = ""
    ids: tuple[str, ...] = ()
    """Or beginnings of them that fit one each. `3f2a91c0de@512` is that letter only while it is about version 512."""


@dataclass(frozen=True)
class Replayed:
    letter: DeadLetter
    outcome: str
    """taken, refused again, failed: the place could not be asked; or newer: a newer row was refused meanwhile, so that
    its letter is open."""
    reason: str = ""


def open_letters(place: Place, chosen: Chosen) -> list[DeadLetter]:
    """Oldest first. Raises ConfigurationError for an id that names none of them, several, or one that has changed."""
    found = [
        letter
        for letter in read_letters(place.deployment.kafka, place.deployment.source)
        if chosen.view in ("", letter.view) and chosen.sink in ("", letter.sink)
    ]
    named = {_named(found, id_).id for id_ in chosen.ids}
    return [letter for letter in found if letter.id in named] if chosen.ids else found


def _named(letters: Sequence[DeadLetter], id_: str) -> DeadLetter:
    """An empty one, as of a shell's variable that was never set, begins every id: it means none."""
    beginning, _, version = id_.partition(VERSION)
    if not beginning:
        raise ConfigurationError("an id is empty", detail="name the letter", hint=LIST)
    fitting = [letter for letter in letters if letter.id.short.startswith(beginning)]
    if not fitting:
        raise ConfigurationError(f"no open letter {beginning}", hint=LIST)
    if len(fitting) > 1:
        shown = [letter.id.short for letter in fitting[:NAMED_MAX]] + ["…"] * (len(fitting) > NAMED_MAX)
        fact = f"{len(fitting)} open letters begin with {beginning}"
        raise ConfigurationError(fact, detail=", ".join(shown), hint=LIST)
    [letter] = fitting
    if version and version != str(letter.version):
        detail = f"version {letter.version} of key {letter.key}, and not {version}"
        raise ConfigurationError(f"letter {beginning} is about a newer row now", detail=detail, hint=LIST)
    return letter


def held_now(place: Place, view: str, sink: str) -> set[str]:
    """The keys that open letters hold in the generation that readers use."""
    source = place.deployment.source
    generation = _kind(place, sink).current(source.name, view)
    found = {} if generation is None else held_keys(place.deployment.kafka, source, view, sink, generation)
    return {key.decode() for key in found}


def incomplete(letters: Sequence[DeadLetter]) -> dict[tuple[str, str, int], int]:
    """By view, sink and generation: how many keys are not as they should be."""
    return dict(Counter((each.view, each.sink, each.generation) for each in letters))


def drop(place: Place, letters: Sequence[DeadLetter]) -> list[DeadLetter]:
    """Closes them, and returns those that it closed: one that is about a newer row by now, or closed, is left. The
    place keeps what it has of their keys, which may be old or nothing."""
    if not letters:
        return []
    deployment = place.deployment
    box, known = Letters(deployment.kafka, deployment.source), OpenLetters(deployment.kafka, deployment.source)
    dropped: list[DeadLetter] = []
    for piece in _pieces(letters):
        now = known.look()
        mine = [each for each in piece if _is_as_it_was(each, now)]
        box.close([each.id for each in mine])
        dropped += mine
    return dropped


def replay(place: Place, letters: Sequence[DeadLetter]) -> list[Replayed]:
    """Writes each to its place again. A place that cannot be asked fails its own letters only."""
    if not letters:
        return []
    deployment = place.deployment
    box, known = Letters(deployment.kafka, deployment.source), OpenLetters(deployment.kafka, deployment.source)
    where = sorted(letters, key=lambda each: each.id)
    found: list[Replayed] = []
    for _, mine in groupby(where, key=lambda each: each.id[:3]):
        for piece in _pieces(list(mine)):
            try:
                found += _replayed(place, box, known, piece)
            except HeadwaterError as error:
                reason = ": ".join(filter(None, (error.fact, error.detail)))
                found += [Replayed(each, FAILED, reason) for each in piece]
    return found


def _replayed(place: Place, box: Letters, known: OpenLetters, letters: Sequence[DeadLetter]) -> list[Replayed]:
    """Letters of one place."""
    deployment, (view, sink, generation, _) = place.deployment, letters[0].id
    kept = open_view(place.registry, Frontiers(deployment.kafka, deployment.source).look(), view)
    shape = kept.group.shape(view, deployment.source)
    topic = ViewTopic(deployment.kafka, view_topic(deployment.source, view))
    changes = {each.key: _change(topic, each) for each in letters}
    written = _written(_kind(place, sink), shape, generation, list(changes.values()))
    refused = {each.change.key.decode(): each for each in written}
    now = known.look()  # as late as can be, and then one word about all of them
    mine = [each for each in letters if _is_as_it_was(each, now)]
    told = [refused.get(each.key) or Taken(each.key.encode(), each.version) for each in mine]
    box.tell(shape, sink, generation, told)
    return [_outcome(each, refused.get(each.key), now.get(each.id)) for each in letters]


def _outcome(letter: DeadLetter, refused: Refused | None, now: DeadLetter | None) -> Replayed:
    if now is not None and now.version != letter.version:
        return Replayed(letter, NEWER, f"version {now.version} of the key was refused meanwhile: {now.error}")
    return Replayed(letter, REFUSED, refused.error) if refused else Replayed(letter, TAKEN)


def _is_as_it_was(letter: DeadLetter, now: Mapping[LetterId, DeadLetter]) -> bool:
    return letter.id in now and now[letter.id].version == letter.version


def _pieces(letters: Sequence[DeadLetter]) -> Iterator[Sequence[DeadLetter]]:
    return (letters[at : at + AT_ONCE] for at in range(0, len(letters), AT_ONCE))


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

"""Grouping as properties: each row once, one message a target, nothing early, nothing for those who want nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.channels.webhook import WebhookLimits
from alerts.grouping import Decision, Knowledge, Pending, Target, decide, first_due, target_of
from alerts.local_times import after_quiet, local_day
from alerts.messages import ITEMS_BYTES_MAX, body, event_of
from alerts.notification_json import payload, restored
from alerts.saved_search import SavedSearch
from tests.alerts.store.wishes import wish

NOW = datetime(2026, 10, 25, 0, 45, tzinfo=UTC)  # in Paris, the first of two quarters to three
ADA, BOB = {"channel": "email", "target": "ada@example.com"}, {"channel": "feed"}


def search(id_: int, **given: Any) -> SavedSearch:
    return SavedSearch(id_, "ada", wish(**given), f"token {id_}", NOW, NOW)


def pending(id_: int, subscription: int = 1, **given: Any) -> Pending:
    given = {"key": f'{{"id":{id_}}}', "version": id_, "event": "entered", "recorded_at": NOW, **given}
    return Pending(id_, id_, subscription, given.pop("view", "listing"), **given)


def known(*searches: SavedSearch, **given: Any) -> Knowledge:
    return Knowledge({each.id: each for each in searches}, **given)


@st.composite
def situations(draw: st.DrawFn) -> tuple[list[Pending], Knowledge]:
    when = st.integers(-200_000, 0).map(lambda s: NOW + timedelta(seconds=s))
    searches = []
    for id_ in range(1, draw(st.integers(1, 4)) + 1):
        quiet = draw(
            st.sampled_from(
                [{}, {"quiet_from": "22:00", "quiet_to": "07:00"}, {"quiet_from": "02:00", "quiet_to": "03:00"}]
            )
        )
        given = {
            **draw(st.sampled_from([ADA, BOB])),
            **quiet,
            "frequency": draw(st.sampled_from(["instant", "instant", "hourly", "daily", "weekly"])),
            "time_zone": draw(st.sampled_from(["UTC", "Europe/Paris", "America/New_York", "Asia/Tokyo"])),
            "digest_hour": draw(st.integers(0, 23)),
            "cap_per_day": draw(st.sampled_from([None, None, 1, 2])),
            "paused": draw(st.sampled_from([False, False, False, True])),
            "expires_at": draw(st.sampled_from([None, None, NOW, NOW + timedelta(1)])),
        }
        searches.append(search(id_, **given))
    rows = [
        pending(
            number,
            draw(st.integers(1, len(searches) + 1)),
            key=draw(st.sampled_from(['{"id":1}', '{"id":2}'])),
            version=draw(st.integers(1, 4)),
            event=draw(st.sampled_from(["entered", "left", "changed"])),
            recorded_at=draw(when),
        )
        for number in range(1, draw(st.integers(0, 12)) + 1)
    ]
    targets = [Target("email", "ada@example.com"), Target("feed", "")]
    return rows, known(
        *searches,
        suppressed=frozenset(draw(st.sampled_from([[], [], [targets[0]]]))),
        told_at=draw(st.dictionaries(st.sampled_from(targets), when)),
        told_times=draw(st.dictionaries(st.integers(1, 4), st.lists(when, max_size=3).map(tuple))),
        burst_s=draw(st.sampled_from([0.0, 60.0, 3600.0])),
    )


def told_in(decision: Decision) -> dict[int, Target]:
    return {row.id: draft.target for draft in decision.drafts for row in draft.rows}


@given(situations())
def test_each_row_is_told_or_waits_or_is_dropped(situation: tuple[list[Pending], Knowledge]) -> None:
    rows, knowledge = situation
    decision = decide(rows, knowledge, NOW)
    told = [row.id for draft in decision.drafts for row in draft.rows]
    assert sorted([*told, *decision.postponed, *decision.dropped]) == sorted(row.id for row in rows)
    assert all(at > NOW for at in decision.postponed.values())


@given(situations())
def test_a_target_is_told_once_and_all_that_is_told_belongs_to_it(situation: tuple[list[Pending], Knowledge]) -> None:
    rows, knowledge = situation
    drafts = decide(rows, knowledge, NOW).drafts
    assert len({draft.target for draft in drafts}) == len(drafts)
    for draft in drafts:
        assert list(draft.rows) == sorted(draft.rows, key=lambda row: row.sequence)
        for row in draft.rows:
            assert target_of(knowledge.searches[row.subscription_id]) == draft.target


@given(situations())
def test_nobody_is_told_who_wants_nothing(situation: tuple[list[Pending], Knowledge]) -> None:
    rows, knowledge = situation
    decision = decide(rows, knowledge, NOW)
    for row in rows:
        found = knowledge.searches.get(row.subscription_id)
        silent = found is None or found.silence(NOW) is not None or target_of(found) in knowledge.suppressed
        assert (row.id in decision.dropped) == silent


@given(situations())
def test_a_change_is_told_to_a_target_at_one_time(situation: tuple[list[Pending], Knowledge]) -> None:
    rows, knowledge = situation
    decision = decide(rows, knowledge, NOW)
    told, fates = told_in(decision), dict[Any, set[bool]]()
    for row in rows:
        if row.id not in decision.dropped:
            place = target_of(knowledge.searches[row.subscription_id])
            fates.setdefault((place, row.view, row.key, row.version), set()).add(row.id in told)
    assert all(len(fate) == 1 for fate in fates.values())


@given(situations())
def test_a_message_has_a_reason_to_be_sent_now(situation: tuple[list[Pending], Knowledge]) -> None:
    """Of each change that is told, one row at least is due, awake, not capped and not in a burst."""
    rows, knowledge = situation
    bundles: dict[Any, list[Pending]] = {}
    for draft in decide(rows, knowledge, NOW).drafts:
        for row in draft.rows:
            bundles.setdefault((draft.target, row.key, row.version), []).append(row)
    for (target, _, _), bundle in bundles.items():
        assert any(_may_be_told(row, target, knowledge) for row in bundle)


def _may_be_told(row: Pending, target: Target, knowledge: Knowledge) -> bool:
    asked = knowledge.searches[row.subscription_id].wish
    today = [at for at in knowledge.told_times.get(row.subscription_id, ()) if at >= local_day(NOW, asked.zone)[0]]
    last = knowledge.told_at.get(target)
    return (
        first_due(asked, row.recorded_at) <= NOW
        and after_quiet(NOW, asked.quiet_hours, asked.zone) == NOW
        and (asked.cap_per_day is None or len(today) < asked.cap_per_day)
        and (asked.frequency != "instant" or last is None or NOW - last >= timedelta(seconds=knowledge.burst_s))
    )


@given(situations())
def test_what_waits_is_told_when_its_time_has_come(situation: tuple[list[Pending], Knowledge]) -> None:
    """And not before: nothing is lost, nothing waits for ever. A cap counts anew the next day."""
    rows, knowledge = situation
    waiting = decide(rows, knowledge, NOW).postponed
    by_id = {row.id: row for row in rows}
    for id_, at in waiting.items():
        just_before = decide([by_id[id_]], knowledge, at - timedelta(microseconds=1))
        assert id_ not in told_in(just_before)
        then = decide([by_id[id_]], knowledge, at)
        assert id_ in told_in(then) or id_ in then.dropped


@given(situations())
def test_a_second_look_finds_the_same(situation: tuple[list[Pending], Knowledge]) -> None:
    rows, knowledge = situation
    assert decide(rows, knowledge, NOW) == decide(list(reversed(rows)), knowledge, NOW)


# By example


def test_an_item_of_several_searches_is_one_message_naming_all() -> None:
    searches = [search(1, label="Paris", **ADA), search(2, label="Flats", frequency="weekly", **ADA)]
    rows = [pending(1, 1, key="{}", version=5), pending(2, 2, key="{}", version=5), pending(3, 2)]
    [draft] = decide(rows, known(*searches), NOW).drafts
    assert [row.id for row in draft.rows] == [1, 2], "what waits for the digest and came alone goes on waiting"
    told = _body(draft, searches)
    [item] = told["items"]
    assert [(each["id"], each["label"]) for each in item["searches"]] == [("1", "Paris"), ("2", "Flats")]


def test_a_burst_is_one_message() -> None:
    asked, place = search(1, **ADA), Target("email", "ada@example.com")
    first = decide([pending(1)], known(asked, burst_s=60), NOW)
    assert len(first.drafts) == 1
    more = [pending(n, recorded_at=NOW + timedelta(seconds=n)) for n in (2, 3, 4)]
    knowledge = known(asked, burst_s=60, told_at={place: NOW})
    waiting = decide(more, knowledge, NOW + timedelta(seconds=5))
    assert set(waiting.postponed.values()) == {NOW + timedelta(seconds=60)}
    [draft] = decide(more, knowledge, NOW + timedelta(seconds=60)).drafts
    assert len(draft.rows) == 3


def test_a_cap_postpones_to_the_next_day_of_the_owner() -> None:
    asked = search(1, cap_per_day=2, time_zone="Europe/Paris", **ADA)
    today = {1: (NOW - timedelta(hours=2), NOW - timedelta(hours=1))}
    assert decide([pending(1)], known(asked, told_times=today), NOW).postponed == {
        1: datetime(2026, 10, 25, 23, tzinfo=UTC)
    }
    yesterday = {1: (NOW - timedelta(hours=3), NOW - timedelta(hours=1))}
    assert len(decide([pending(1)], known(asked, told_times=yesterday), NOW).drafts) == 1


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ({"frequency": "hourly"}, datetime(2026, 10, 25, 23, tzinfo=UTC)),
        ({"frequency": "daily"}, datetime(2026, 10, 26, 7, tzinfo=UTC)),
        ({"frequency": "daily", "digest_hour": 0}, datetime(2026, 10, 25, 23, tzinfo=UTC)),
        ({"frequency": "weekly"}, datetime(2026, 10, 26, 7, tzinfo=UTC)),
        ({"frequency": "weekly", "digest_hour": 0}, datetime(2026, 10, 25, 23, tzinfo=UTC)),
        ({"frequency": "weekly", "digest_weekday": 7}, datetime(2026, 11, 1, 7, tzinfo=UTC)),
    ],
)
def test_a_cap_postpones_a_digest_to_its_hour(wanted: dict[str, Any], expected: datetime) -> None:
    """Of the owner's next day or later: a digest at eight is no message at midnight, one at midnight not a day late."""
    asked = search(1, cap_per_day=1, time_zone="Europe/Paris", **wanted, **ADA)
    knowledge = known(asked, told_times={1: (NOW - timedelta(hours=1),)})
    waiting = pending(1, recorded_at=NOW - timedelta(days=8))
    for now in (NOW, expected - timedelta(seconds=1)):
        assert decide([waiting], knowledge, now).postponed == {1: expected}
    assert len(decide([waiting], knowledge, expected).drafts) == 1


def test_an_item_in_a_digest_is_told_from_its_first_to_its_last() -> None:
    prices = [(None, 100), (100, 95), (95, 90)]
    rows = [
        pending(n, key="{}", version=n, before=_row(old), after=_row(new), event=event, reason=event)
        for n, ((old, new), event) in enumerate(zip(prices, ["entered", "dropped", "dropped"], strict=True))
    ]
    [draft] = decide(rows, known(search(1, **ADA)), NOW).drafts
    [item] = _body(draft, [search(1)])["items"]
    assert (item["before"], item["after"], item["event"]) == (None, {"price": 90}, "entered")
    assert item["searches"][0]["reason"] == "entered; dropped"
    assert event_of([*rows, replace(rows[0], version=9, event="left")]) == "left"


def test_a_clean_up_is_one_message_that_counts_the_rest() -> None:
    rows = [pending(n, event="left") for n in range(500)]
    [draft] = decide(rows, known(search(1, **ADA)), NOW).drafts
    told = _body(draft, [search(1)], items_max=20)
    assert (len(told["items"]), told["items_left_out"], told["sequence"]) == (20, 480, 7)


def test_a_message_of_large_rows_is_one_that_webhooks_take() -> None:
    sizes = [20_000] * 40 + [2 * ITEMS_BYTES_MAX] + [10] * 3
    rows = [pending(n, key=f'{{"id":{n}}}', after=json.dumps({"text": "x" * size})) for n, size in enumerate(sizes)]
    [draft] = decide(rows, known(search(1, **ADA)), NOW).drafts
    told = restored(body("id", "ada", 7, draft, {1: search(1)}, NOW, "", 100))
    assert len(payload(told)) < WebhookLimits().payload_bytes_max
    assert [item.key["id"] for item in told.items] == [*range(len(told.items) - 3), 41, 42, 43]
    assert (len(told.items) > 30, told.items_count) == (True, 44)


def test_numbers_keep_their_digits_in_a_message() -> None:
    row = pending(1, after='{"price":7.50,"n":12345678901234567890123}')
    [draft] = decide([row], known(search(1)), NOW).drafts
    made = body("id", "ada", 7, draft, {1: search(1)}, NOW, "", 10)
    assert b'"after":{"price":7.50,"n":12345678901234567890123}' in made


def _row(price: int | None) -> str | None:
    return None if price is None else json.dumps({"price": price})


def _body(draft: Any, searches: list[SavedSearch], items_max: int = 100) -> Mapping[str, Any]:
    by_id = {each.id: each for each in searches}
    made = body("id", "ada", 7, draft, by_id, NOW, "https://x/unsubscribe", items_max)
    return dict(msgspec.json.decode(made))

"""What other systems got wrong, a case each: after every epoch the views are what their SQL gives in Postgres."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from cdc.errors import DecodeError, ViewRefused
from cdc.events import UNCHANGED, ChangeEvent
from tests.views.lab import Lab
from views.changes import Delta

pytestmark = pytest.mark.stack

DDL = """
    create table agents (id integer primary key, name text, city text, bio text);
    create table listings (
        id integer primary key, agent_id integer, city text, price numeric(12, 2), score double precision, note text);
    create table photos (listing_id integer, place integer, url text, primary key (listing_id, place));
    create table hits (path text, took double precision);
    alter table hits replica identity full;
"""
CARD = """create materialized view card as
    select l.id, l.price, a.id as agent, a.name, a.bio from listings l join agents a on a.id = l.agent_id;"""
OUTER = """create materialized view outer_card as
    select l.id, a.id as agent, a.name from listings l left join agents a on a.id = l.agent_id;"""
BY_CITY = """create materialized view by_city as
    select city, count(*) as n, sum(price) as total, min(price) as least, max(price) as most from listings
    group by city;"""
SCORES = """create materialized view scores as
    select city, sum(score) as total, min(score) as least, max(score) as most from listings group by city;"""
ALBUM = """create materialized view album as
    select l.id, a.name,
        (select coalesce(json_agg(p.url order by p.place), '[]') from photos p where p.listing_id = l.id) as photos
    from listings l join agents a on a.id = l.agent_id;"""

LARGE = "x" * 500
Open = Callable[..., Lab]


@pytest.fixture
def lab(scratch: psycopg.Connection) -> Iterator[Open]:
    """Tables with two agents and three listings, and these views over them, in step."""
    opened: list[Lab] = []

    def open_(*views: str) -> Lab:
        lab = Lab(scratch, DDL, "\n".join(views))
        opened.append(lab)
        lab.epoch(
            f"insert into agents values (1, 'Ada', 'Bonn', '{LARGE}'), (2, 'Bo', 'Oslo', null)",
            "insert into listings values (1, 1, 'Bonn', 10, 1), (2, 1, 'Bonn', 20, 2), (3, 2, null, 30, 3)",
        )
        return lab

    yield open_
    for each in opened:
        each.close()


def rows(deltas: list[Delta]) -> dict[tuple[object, ...], Any]:
    """By key the row as it is, None where it left."""
    return {delta.key: delta.after for delta in deltas}


def test_a_join_key_and_the_value_behind_it_change_in_one_transaction(lab: Open) -> None:
    """With the other side at its new state, both deltas would count the pair twice."""
    kept = lab(CARD, OUTER)
    changed = kept.epoch(
        "update listings set agent_id = 2 where id = 1", "update agents set name = 'Bodil', bio = 'new' where id = 2"
    )
    assert rows(changed["card"])[1,]["name"] == "Bodil"


def test_both_sides_of_a_join_appear_in_one_transaction(lab: Open) -> None:
    changed = lab(CARD).epoch(
        "insert into listings values (9, 9, 'Rome', 1)", "insert into agents values (9, 'Cy', 'Rome')"
    )
    assert rows(changed["card"])[9,]["name"] == "Cy"


def test_both_sides_of_a_join_disappear_in_one_transaction(lab: Open) -> None:
    changed = lab(CARD, OUTER).epoch("delete from agents where id = 1", "delete from listings where agent_id = 1")
    assert rows(changed["card"]) == rows(changed["outer_card"]) == {(1,): None, (2,): None}


def test_a_null_join_key_matches_nothing(lab: Open) -> None:
    kept = lab(CARD, OUTER)
    kept.epoch("update listings set agent_id = null")
    kept.epoch("update listings set agent_id = 1 where id = 2")


def test_null_is_one_group(lab: Open) -> None:
    kept = lab(BY_CITY)
    kept.epoch("insert into listings values (4, 1, null, null), (5, 1, '', 5)")
    changed = kept.epoch("delete from listings where city is null")
    assert rows(changed["by_city"]) == {(None,): None}
    kept.epoch("update listings set city = null where city = 'Bonn'")


def test_a_group_that_empties_leaves_and_comes_back(lab: Open) -> None:
    kept = lab(BY_CITY)
    assert rows(kept.epoch("delete from listings where city = 'Bonn'")["by_city"]) == {("Bonn",): None}
    changed = kept.epoch("insert into listings values (7, 1, 'Bonn', 3)")
    assert rows(changed["by_city"])["Bonn",]["n"] == 1


def test_a_group_that_empties_and_fills_in_one_epoch_is_only_changed(lab: Open) -> None:
    kept = lab(BY_CITY)
    kept.commit("delete from listings where city = 'Bonn'")
    (delta,) = kept.epoch("insert into listings values (7, 1, 'Bonn', 3)")["by_city"]
    assert delta.before is not None
    assert delta.after is not None


def test_a_group_of_nulls_only_sums_to_null_and_not_to_zero(lab: Open) -> None:
    kept = lab(BY_CITY)
    changed = kept.epoch("update listings set price = null where city = 'Bonn'")
    assert rows(changed["by_city"])["Bonn",]["total"] is None


def test_a_result_without_groups_is_one_row_also_over_nothing(lab: Open) -> None:
    kept = lab("create materialized view whole as select count(*) as n, sum(price) as total from listings;")
    kept.epoch("truncate listings")
    kept.epoch("insert into listings values (1, 1, 'Bonn', 10)")
    kept.epoch("delete from listings")


def test_an_outer_join_gains_and_loses_its_last_match(lab: Open) -> None:
    kept = lab(OUTER)
    changed = kept.epoch("delete from agents where id = 2")
    assert rows(changed["outer_card"])[3,]["agent"] is None
    kept.epoch("insert into agents values (2, 'Bo again')")
    kept.epoch("update agents set id = 5 where id = 2")
    kept.commit("update agents set id = 2 where id = 5")
    kept.epoch("delete from agents where id = 2")


def test_an_outer_join_loses_one_match_of_two_and_then_the_other(lab: Open) -> None:
    kept = lab("""create materialized view pages with (key = 'agent, listing') as
        select a.id as agent, l.id as listing from agents a left join listings l on l.agent_id = a.id;""")
    kept.epoch("delete from listings where id = 1")
    changed = kept.epoch("delete from listings where id = 2")
    assert rows(changed["pages"]) == {(1, 2): None, (1, None): {"agent": 1, "listing": None}}
    kept.epoch("insert into listings values (1, 1), (2, 1)")


def test_both_sides_of_a_full_join_lose_their_partner_at_once(lab: Open) -> None:
    kept = lab("""create materialized view sides with (key = 'agent, listing') as
        select a.id as agent, l.id as listing from agents a full join listings l on l.agent_id = a.id;""")
    kept.epoch("update listings set agent_id = agent_id + 1")
    kept.epoch("delete from agents where id = 1", "update listings set agent_id = 7 where id = 1")
    kept.epoch("truncate agents", "truncate listings")
    kept.epoch("insert into listings values (1, 1)")
    kept.epoch("insert into agents values (1)")


def test_the_condition_of_an_outer_join_turns_true_and_false(lab: Open) -> None:
    kept = lab("""create materialized view near as select l.id, a.id as agent
        from listings l left join agents a on a.id = l.agent_id and a.city = l.city;""")
    kept.epoch("update agents set city = 'Oslo' where id = 1")
    kept.epoch("update listings set city = 'Oslo'")
    kept.epoch("update agents set city = null")


def test_the_extreme_is_deleted_and_the_next_takes_its_place(lab: Open) -> None:
    kept = lab(BY_CITY)
    changed = kept.epoch("delete from listings where id = 2")
    assert str(rows(changed["by_city"])["Bonn",]["most"]) == "10.00"
    kept.epoch("insert into listings values (4, 1, 'Bonn', 10)")
    changed = kept.epoch("delete from listings where id = 1")
    assert str(rows(changed["by_city"])["Bonn",]["most"]) == "10.00", "another row has the same price"
    kept.epoch("update listings set price = null where id = 4")


def test_a_sum_of_floats_does_not_drift(lab: Open) -> None:
    """1e16 + 1 - 1e16 is 0 in floats; a sum that only adds and subtracts would keep that."""
    kept = lab(SCORES)
    kept.epoch("update listings set city = 'Bonn', score = 1")
    kept.epoch("insert into listings values (4, 1, 'Bonn', 0, 1e16)")
    changed = kept.epoch("delete from listings where id = 4")
    assert rows(changed["scores"])["Bonn",]["total"] == 3.0
    for _ in range(20):
        kept.epoch("update listings set score = score + 0.1 where id = 1")
        kept.epoch("update listings set score = score - 0.1 where id = 1")


def test_not_a_number_comes_and_goes(lab: Open) -> None:
    """Whatever is added to NaN stays NaN: it cannot be subtracted again."""
    kept = lab(SCORES)
    changed = kept.epoch("update listings set score = 'NaN' where id = 1")
    assert str(rows(changed["scores"])["Bonn",]["most"]) == "nan", "NaN is the largest number"
    kept.epoch("insert into listings values (4, 1, 'Bonn', 0, 'NaN')")
    kept.epoch("delete from listings where id = 4")
    changed = kept.epoch("update listings set score = 1.5 where id = 1")
    assert rows(changed["scores"])["Bonn",]["total"] == 3.5


def test_infinities_come_and_go(lab: Open) -> None:
    kept = lab(SCORES)
    kept.epoch("update listings set score = 'Infinity' where id = 1")
    kept.epoch("update listings set score = '-Infinity' where id = 2")
    kept.epoch("update listings set score = 1 where id = 1")
    kept.epoch("update listings set score = 1 where id = 2")


def test_instants_without_end_are_ordered(scratch: psycopg.Connection) -> None:
    ddl = "create table terms (id integer primary key, starts date, ends timestamptz);"
    views = """create materialized view span as select min(starts) as first, max(ends) as last from terms;
        create materialized view endless as select id, ends from terms where ends > '2200-01-01';"""
    with Lab(scratch, ddl, views) as kept:
        kept.epoch("insert into terms values (1, '2024-02-29', '2024-03-01'), (2, '-infinity', 'infinity')")
        kept.epoch("update terms set ends = '-infinity' where id = 2")
        kept.epoch("delete from terms where id = 2")


def test_zero_below_zero_is_the_same_value(lab: Open) -> None:
    kept = lab(
        "create materialized view kinds as select city, count(distinct score) as n from listings group by city;",
        """create materialized view groups as
            select count(*) as n from (select score from listings group by score) g;""",
    )
    kept.epoch("update listings set score = '-0' where id = 1", "update listings set score = 0 where id = 2")
    changed = kept.epoch("update listings set score = 0 where id = 3")
    assert {"n": 1} in rows(changed["groups"]).values()
    kept.epoch("delete from listings where id = 2")


def test_zero_below_zero_joins_zero(scratch: psycopg.Connection) -> None:
    ddl = """create table lefts (id integer primary key, x double precision);
        create table rights (id integer primary key, x double precision);"""
    views = "create materialized view met as select l.id, r.id as other from lefts l join rights r on r.x = l.x;"
    with Lab(scratch, ddl, views) as kept:
        kept.epoch("insert into lefts values (1, '-0'), (2, 0)", "insert into rights values (1, 0), (2, 'NaN')")
        kept.epoch("insert into lefts values (3, 'NaN')")
        kept.epoch("update rights set x = '-0' where id = 1")
        kept.epoch("delete from lefts where id = 1")


def test_the_sign_of_a_zero_is_kept_in_a_row(lab: Open) -> None:
    kept = lab("create materialized view plain as select id, score from listings;")
    kept.epoch("update listings set score = 0 where id = 1")
    changed = kept.epoch("update listings set score = '-0' where id = 1")
    assert str(rows(changed["plain"])[1,]["score"]) == "-0.0"


def test_a_number_keeps_its_scale(scratch: psycopg.Connection) -> None:
    ddl = "create table sums (id integer primary key, fixed numeric(20, 4), loose numeric);"
    views = """create materialized view plain as select id, fixed, loose, fixed * 2 as twice from sums;
        create materialized view whole as select sum(fixed) as total, avg(fixed) as average from sums;"""
    with Lab(scratch, ddl, views) as kept:
        kept.epoch("insert into sums values (1, 1, 1.0), (2, 1234567890123456.7891, 1.00), (3, 0.0001, -0.00)")
        kept.epoch("update sums set loose = 1.000 where id = 1")
        kept.epoch("delete from sums where id = 2")


def test_a_small_number_without_a_scale_keeps_its_zeros(scratch: psycopg.Connection) -> None:
    ddl = "create table sums (id integer primary key, loose numeric);"
    with Lab(scratch, ddl, "create materialized view plain as select id, loose from sums;") as kept:
        kept.epoch("insert into sums values (1, 0.00000000000000000001)")


def test_one_number_in_two_scales_is_a_change_of_the_row(scratch: psycopg.Connection) -> None:
    ddl = "create table sums (id integer primary key, loose numeric);"
    with Lab(scratch, ddl, "create materialized view plain as select id, loose from sums;") as kept:
        kept.epoch("insert into sums values (1, 1.0)")
        changed = kept.epoch("update sums set loose = 1.00")
        assert [delta.after for delta in changed["plain"]] == [{"id": 1, "loose": "1.00"}]


def test_a_sum_of_large_numbers_is_exact(scratch: psycopg.Connection) -> None:
    ddl = "create table sums (id integer primary key, n bigint);"
    with Lab(scratch, ddl, "create materialized view whole as select sum(n) as n, avg(n) as a from sums;") as kept:
        kept.epoch("insert into sums select i, 9223372036854775807 from generate_series(1, 5) i")
        kept.epoch("insert into sums select i, -9223372036854775808 from generate_series(6, 9) i")
        kept.epoch("delete from sums where id < 4")


def test_a_numeric_that_is_no_number_is_refused_and_not_kept_as_something_else(lab: Open) -> None:
    kept = lab(BY_CITY)
    kept.connection.execute("update listings set price = 'NaN' where id = 1")
    with pytest.raises(DecodeError, match=r"listings\.price cannot be kept"):
        kept.kept.epoch(kept.recorder.events())


def test_a_changed_primary_key_is_a_delete_and_an_insert(lab: Open) -> None:
    kept = lab(CARD, OUTER, ALBUM)
    changed = kept.epoch("update listings set id = 11 where id = 1")
    assert rows(changed["card"]).keys() == {(1,), (11,)}
    kept.epoch("update agents set id = 3 where id = 1")


def test_two_rows_exchange_their_keys_in_one_transaction(lab: Open) -> None:
    lab(CARD, OUTER).epoch(
        "update listings set id = 99 where id = 1",
        "update listings set id = 1 where id = 2",
        "update listings set id = 2 where id = 99",
    )


def test_a_key_moves_on_to_the_next_row(lab: Open) -> None:
    kept = lab(CARD, BY_CITY)
    kept.epoch("delete from listings where id = 1", "update listings set id = 1 where id = 2")
    kept.epoch("insert into listings values (2, 2, 'Oslo', 1)")


def test_rows_after_a_truncate_in_the_same_transaction_stay(lab: Open) -> None:
    kept = lab(CARD, OUTER, BY_CITY)
    kept.epoch(
        "insert into listings values (4, 1, 'Rome', 1)",
        "truncate listings",
        "insert into listings values (1, 2, 'Bonn', 7)",
    )
    kept.epoch("truncate agents", "insert into agents values (2, 'Bo')", "truncate agents")


def test_a_truncate_of_rows_without_a_key(lab: Open) -> None:
    kept = lab("create materialized view pages as select path, count(*) as n from hits group by path;")
    kept.epoch("insert into hits values ('/', 1), ('/', 1), ('/a', null)")
    kept.epoch("truncate hits", "insert into hits values ('/', 1)")


def test_equal_rows_without_a_key_leave_one_by_one(lab: Open) -> None:
    kept = lab("create materialized view pages as select path, count(*) as n, sum(took) as t from hits group by path;")
    kept.epoch("insert into hits values ('/', 1), ('/', 1), ('/', 1)")
    one = "ctid = (select ctid from hits limit 1)"
    changed = kept.epoch(f"delete from hits where {one}")
    assert rows(changed["pages"])["/",]["n"] == 2
    kept.epoch(f"update hits set took = 2 where {one}")


def test_a_large_value_that_stayed_goes_through_a_join(lab: Open) -> None:
    kept = lab(CARD)
    kept.commit("update agents set name = 'Adele' where id = 1")
    events = kept.recorder.events()
    assert [event.after["bio"] for event in events if event.after] == [UNCHANGED]
    changed = kept.take(events)
    assert {row["bio"] for row in rows(changed["card"]).values()} == {LARGE}


def test_a_large_value_stays_while_its_key_changes(lab: Open) -> None:
    kept = lab(CARD)
    changed = kept.epoch("delete from agents where id = 2", "update agents set id = 2 where id = 1")
    assert rows(changed["card"])[3,]["bio"] == LARGE


def test_a_large_value_is_inserted_and_left_alone_in_one_transaction(lab: Open) -> None:
    kept = lab(CARD)
    kept.epoch(
        f"insert into agents values (8, 'Di', 'Bonn', '{'y' * 900}')",
        "update agents set name = 'Dina' where id = 8",
        "update listings set agent_id = 8 where id = 1",
    )


def test_a_parent_changes_right_after_its_child_is_inserted(lab: Open) -> None:
    """PGSync looks the document up in the index, where it is not yet, and stays wrong for ever."""
    kept = lab(ALBUM)
    kept.commit("insert into listings values (4, 1, 'Rome', 1)", "insert into photos values (4, 1, 'a.jpg')")
    kept.commit("update agents set name = 'Adele' where id = 1")
    changed = kept.epoch("update listings set price = 2 where id = 4")
    assert rows(changed["album"])[4,]["name"] == "Adele"


@pytest.mark.parametrize("cut", [0, 1, 2, 3], ids=lambda cut: f"cut_after_{cut}")
def test_a_child_changes_in_or_right_after_the_epoch_of_its_parent(lab: Open, cut: int) -> None:
    kept = lab(ALBUM)
    steps = [
        "insert into listings values (4, 1, 'Rome', 1)",
        "insert into photos values (4, 1, 'a.jpg'), (4, 2, 'b.jpg')",
        "update photos set place = 3 where listing_id = 4 and place = 1",
        "update agents set name = 'Adele' where id = 1",
    ]
    for number, step in enumerate(steps):
        kept.commit(step)
        if number == cut:
            kept.epoch()
    kept.epoch()
    kept.epoch("delete from photos where listing_id = 4", "delete from listings where id = 4")


def test_a_child_comes_before_its_parent(lab: Open) -> None:
    kept = lab(ALBUM, CARD)
    kept.epoch("insert into photos values (6, 1, 'early.jpg')")
    kept.epoch("insert into listings values (6, 7, 'Rome', 1)")
    changed = kept.epoch("insert into agents values (7, 'Late')")
    assert rows(changed["album"])[6,]["photos"] == '["early.jpg"]'


def test_a_child_moves_to_another_parent(lab: Open) -> None:
    kept = lab(ALBUM)
    kept.epoch("insert into photos values (1, 1, 'a.jpg')")
    changed = kept.epoch("update photos set listing_id = 2")
    assert {key: row["photos"] for key, row in rows(changed["album"]).items()} == {(1,): "[]", (2,): '["a.jpg"]'}


def test_events_that_come_twice_count_once(lab: Open) -> None:
    kept = lab(CARD, BY_CITY, OUTER)
    kept.commit("insert into listings values (4, 1, 'Bonn', 40)", "delete from listings where id = 1")
    events = kept.recorder.events()
    kept.take([*events, *events])
    assert kept.take(events) == {"card": [], "by_city": [], "outer_card": []}


def test_rows_without_a_key_that_come_twice_count_once(lab: Open) -> None:
    kept = lab("create materialized view pages as select path, count(*) as n from hits group by path;")
    kept.commit("insert into hits values ('/', 1), ('/', 1)")
    events = kept.recorder.events()
    kept.take([*events, *events])
    assert kept.take(events) == {"pages": []}


def test_a_tail_of_the_log_read_again_with_more_behind_it(lab: Open) -> None:
    kept = lab(CARD, BY_CITY)
    kept.commit("update listings set price = 1", "update listings set city = 'Oslo' where id = 1")
    first = kept.recorder.events()
    kept.take(first)
    kept.commit("delete from listings where id = 2")
    kept.take([*first[1:], *kept.recorder.events()])


def test_an_epoch_that_was_cut_off_is_run_again(lab: Open) -> None:
    kept = lab(CARD, OUTER, BY_CITY, ALBUM)
    for stage in range(len(kept.kept.engine.dataflow.graph.stages)):
        kept.commit("update listings set price = price + 1, agent_id = 3 - agent_id")
        events = kept.recorder.events()
        kept.kept.cut_off(events, stage)
        kept.kept.restart()
        kept.take(events)
        kept.kept.repeat()


def test_what_was_rolled_back_was_never_there(lab: Open) -> None:
    kept = lab(BY_CITY)
    with kept.connection.transaction(force_rollback=True):
        kept.connection.execute("delete from listings")
    assert kept.epoch("update listings set price = 11 where id = 1")["by_city"][0].key == ("Bonn",)


def test_a_change_that_comes_to_nothing_says_nothing(lab: Open) -> None:
    kept = lab(CARD, OUTER, BY_CITY)
    changed = kept.epoch(
        "update listings set price = 1 where id = 1",
        "delete from listings where id = 1",
        "insert into listings values (1, 1, 'Bonn', 10, 1)",
    )
    assert changed == {"card": [], "outer_card": [], "by_city": []}


def test_a_null_in_the_list_empties_not_in(lab: Open) -> None:
    kept = lab(
        "create materialized view idle as select id from agents where id not in (select agent_id from listings);"
    )
    kept.epoch("insert into agents values (5, 'Eve')")
    changed = kept.epoch("insert into listings values (4, null)")
    assert rows(changed["idle"]) == {(5,): None}
    kept.epoch("delete from listings where id = 4")
    kept.epoch("truncate listings")


def test_the_first_of_equals_is_decided_by_the_key(lab: Open) -> None:
    kept = lab("create materialized view first as select id, price from listings order by price desc, id limit 2;")
    kept.epoch("update listings set price = 5")
    kept.epoch("insert into listings values (0, 1, 'Bonn', 5)")
    kept.epoch("delete from listings where id = 0")
    kept.epoch("update listings set price = null where id = 1")


def test_text_is_ordered_by_its_bytes(lab: Open) -> None:
    kept = lab("""create materialized view names as select min(name collate "C") as a, max(name collate "C") as z
        from agents;""")
    kept.epoch("insert into agents values (3, 'émile'), (4, 'zoe'), (5, 'Zoe'), (6, '𝔷'), (7, 'ﬀ')")
    kept.epoch("delete from agents where id = 6")


def test_a_null_among_the_arrays_of_a_document_stands_on_no_line_of_its_own(scratch: psycopg.Connection) -> None:
    """Postgres begins a line for each array but the first, and none for a NULL."""
    ddl = "create table bags (id integer primary key, tags text[]);"
    with Lab(
        scratch, ddl, "create materialized view all_bags as select json_agg(tags order by id) as b from bags;"
    ) as kept:
        kept.epoch("insert into bags values (1, '{a}'), (2, null), (3, '{b,c}'), (4, null)")
        kept.epoch("update bags set tags = null where id = 1")
        kept.epoch("delete from bags where id < 3")


def test_one_parent_of_very_many_children_changes(lab: Open) -> None:
    kept = lab(CARD)
    kept.epoch("insert into listings select i, 2, 'Oslo', i from generate_series(100, 5000) i")
    changed = kept.epoch("update agents set name = 'Bodil' where id = 2")
    assert len(changed["card"]) == 4902


def test_a_name_with_capitals_and_blanks_is_the_same_column(scratch: psycopg.Connection) -> None:
    ddl = 'create table odd ("Id" integer primary key, "select" text, "two words" integer);'
    views = """create materialized view odd_view as select "Id", "select" as kind, "two words" from odd
        where "two words" > 1;"""
    with Lab(scratch, ddl, views) as kept:
        kept.epoch("insert into odd values (1, 'a', 2), (2, null, 1)")
        kept.epoch('update odd set "two words" = 5')


def test_what_changes_by_itself_is_refused(scratch: psycopg.Connection) -> None:
    ddl = "create table terms (id integer primary key, ends timestamptz);"
    with pytest.raises(ViewRefused, match="now"):
        Lab(scratch, ddl, "create materialized view open as select id from terms where ends > now();")


def events_of(events: list[ChangeEvent]) -> list[str]:
    return [event.op.value for event in events]


def test_the_recorder_tells_what_the_log_would(lab: Open) -> None:
    """The cases above stand on it."""
    kept = lab(CARD)
    kept.commit("update agents set id = 7 where id = 1", "update agents set city = 'x' where id = 7", "truncate photos")
    moved, came, updated, emptied = kept.recorder.events()
    assert events_of([moved, came, updated, emptied]) == ["delete", "insert", "update", "truncate"]
    assert moved.lsn == came.lsn
    assert moved.before == {"id": 1, "name": None, "city": None, "bio": None}
    assert came.after == {"id": 7, "name": "Ada", "city": "Bonn", "bio": UNCHANGED}
    assert updated.before is None

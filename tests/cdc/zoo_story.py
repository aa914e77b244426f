"""What happens to a few ordinary tables of the zoo: every kind of change, in transactions that have names."""

from __future__ import annotations

from typing import Final

STORY_SCHEMA: Final = """
create table zoo.owner (id int primary key, name text not null, note text default 'none', born date);
create table zoo.pet (
    owner_id int not null, nick text not null, price numeric(10,2) not null default 9.50, bio text, data bytea,
    tags text[], mood zoo.mood, "odd ""name" int, snapshot text, op text,
    cents bigint generated always as ((price * 100)::bigint) stored,
    primary key (owner_id, nick)
);
alter table zoo.pet alter bio set storage external, alter data set storage external, alter tags set storage external;
create table zoo.full_row (id int primary key, v text not null, xs double precision[]);
alter table zoo.full_row replica identity full;
alter table zoo.full_row alter v set storage external, alter xs set storage external;
create table zoo.keyless (a int, b text);
alter table zoo.keyless replica identity full;
create table zoo.by_index (code text not null, v int);
create unique index by_index_code on zoo.by_index (code);
alter table zoo.by_index replica identity using index by_index_code;
create table zoo."Odd, Näme" (id int primary key, v int);
create table zoo.parted (id int, region text, primary key (id, region)) partition by list (region);
create table zoo.parted_eu partition of zoo.parted for values in ('eu');
"""

STORY_TABLES: Final = ("owner", "pet", "full_row", "keyless", "by_index", "Odd, Näme", "parted")

STORY_BEFORE: Final = (
    "insert into zoo.owner values (1, 'ann', null, '1980-05-06'), (2, 'bob', default, null)",
    "insert into zoo.pet (owner_id, nick, bio, data, tags, snapshot, op) values (1, 'rex', repeat('b', 3000),"
    " decode(repeat('ab', 3000), 'hex'), (select array_agg('t'||i) from generate_series(1, 700) i), 'true', 'r')",
    "insert into zoo.full_row values (1, repeat('f', 3000), (select array_agg(i) from generate_series(1, 700) i))",
    "insert into zoo.keyless values (1, 'x'), (1, 'x')",
    "insert into zoo.by_index values ('k1', 1)",
    'insert into zoo."Odd, Näme" values (1, 1)',
    "insert into zoo.parted values (1, 'eu')",
)

STORY: Final = (
    ("one row", ("insert into zoo.owner (id, name) values (3, 'cy')",)),
    ("null where a default is", ("insert into zoo.owner values (4, 'di', null, null)",)),
    ("many rows and tables", (
        "insert into zoo.owner values (5, 'ed'), (6, 'flo')",
        "insert into zoo.pet (owner_id, nick, mood, \"odd \"\"name\") values"
        " (5, 'cat', 'sad', 7), (6, 'dog', null, null)",
        "update zoo.owner set note = 'has pet' where id in (5, 6)",
    )),
    ("toast untouched", ("update zoo.pet set mood = 'ok' where nick = 'rex'",)),
    ("toast touched", ("update zoo.pet set bio = 'short', tags = '{}' where nick = 'rex'",)),
    ("key change with toast", ("update zoo.pet set nick = 'rexy' where nick = 'rex'",)),
    ("full identity", (
        "update zoo.full_row set v = v || '!'", "delete from zoo.full_row",
        "insert into zoo.full_row values (2, 'new')",
    )),
    ("delete", ("delete from zoo.owner where id = 2",)),
    ("delete of a wide row", ("delete from zoo.pet where nick = 'dog'",)),
    ("no key", ("update zoo.keyless set b = 'y'", "delete from zoo.keyless")),
    ("index key", (
        "update zoo.by_index set v = 2", "update zoo.by_index set code = 'k2'", "delete from zoo.by_index",
    )),
    ("odd names", ('update zoo."Odd, Näme" set v = 2',)),
    ("partition", ("insert into zoo.parted values (2, 'eu')",)),
    ("truncate", ("truncate zoo.owner, zoo.pet",)),
    ("messages", (
        "select pg_logical_emit_message(true, 'headwater', 'in a transaction')",
        "insert into zoo.owner values (7, 'gus')",
    )),
    ("loose message", ("select pg_logical_emit_message(false, 'headwater', '\\x00ff'::bytea)",)),
    ("column added", (
        "alter table zoo.owner add column age int default 3", "insert into zoo.owner values (8, 'hal')",
    )),
    ("column dropped", (
        "alter table zoo.owner drop column note", "insert into zoo.owner (id, name) values (9, 'ida')",
    )),
    ("savepoint", (
        "insert into zoo.owner (id, name) values (10, 'jo')", "savepoint s",
        "insert into zoo.owner (id, name) values (11, 'gone')", "rollback to s",
        "insert into zoo.owner (id, name) values (12, 'kim')",
    )),
)  # fmt: skip
"""Named transactions, one after the other."""

SIGNAL: Final = (
    "insert into headwater.signal values ('zoo', 'execute-snapshot',"
    ' \'{"data-collections": ["zoo.full_row"], "type": "incremental"}\')'
)
"""Asks for an incremental snapshot of a table that the story leaves with one row."""
SIGNAL_DONE: Final = "select count(*) > 0 from headwater.signal where type = 'snapshot-window-close'"

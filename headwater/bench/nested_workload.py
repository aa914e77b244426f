"""The benchmark's market: a listing as a document, with its agent as an object in it and its photos as a list."""

from __future__ import annotations

from typing import Any, Final, LiteralString

import psycopg

from cdc.events import TableName

VIEW: Final = "listing_page"
TABLES: Final = tuple(TableName("public", name) for name in ("agents", "listings", "photos"))
PHOTOS: Final = 4
"""Of each listing."""
LISTINGS_SHARE: Final = 100
"""Listings an agent."""

DDL: Final[LiteralString] = """
    create table agents (id bigint primary key, name text not null, agency text not null);
    create table listings (
        id bigint primary key, agent_id bigint not null, title text not null, city text not null,
        price numeric(12, 2) not null, bedrooms integer not null, listed_at timestamptz not null default now()
    );
    create table photos (
        listing_id bigint not null, position integer not null, url text not null, caption text,
        primary key (listing_id, position)
    )
"""
_LOAD: Final[tuple[LiteralString, ...]] = (
    "insert into agents select g, 'agent ' || g, 'agency ' || g %% 50 from generate_series(1, %(agents)s) g",
    "insert into listings select g, 1 + g %% %(agents)s, 'a bright flat by the river, number ' || g,"
    " 'city ' || g %% 300, 1000 * (100 + g %% 900), g %% 6 from generate_series(1, %(listings)s) g",
    "insert into photos select g, p, 'https://photos.example.com/' || g || '/' || p || '.jpg', 'room ' || p"
    " from generate_series(1, %(listings)s) g, generate_series(1, %(photos)s) p",
)

PAGE: Final = f"""create materialized view {VIEW} as
    select l.id, l.title, l.city, l.price, l.bedrooms, l.listed_at,
        json_build_object('id', a.id, 'name', a.name, 'agency', a.agency) as agent,
        (select coalesce(json_agg(json_build_object('url', p.url, 'caption', p.caption) order by p.position), '[]')
         from photos p where p.listing_id = l.id) as photos
    from listings l join agents a on a.id = l.agent_id"""


def load(conn: psycopg.Connection[Any], listings: int) -> None:
    numbers = {"agents": max(1, listings // LISTINGS_SHARE), "listings": listings, "photos": PHOTOS}
    for statement in _LOAD:
        conn.execute(statement, numbers)
    conn.execute("analyze")

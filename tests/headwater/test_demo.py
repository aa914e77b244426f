"""The demo: the same data from the same seed, loaded once and whole, beside a user's own tables, by its verbs."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import psycopg
import pytest
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import Connection
from typer.testing import CliRunner

from cdc.addresses import PostgresAddress
from cdc.errors import ConfigurationError, SourceError
from headwater import demo
from headwater.cli import demo as cli
from headwater.demo import mover as mover_module
from headwater.demo.dataset import BASE_AT, chunks
from headwater.demo.draw import Draw, Weighted, zipf
from headwater.demo.load import EVERY_TABLE
from headwater.demo.market import reprice
from headwater.demo.rows import ROWS
from headwater.demo.shop_actions import next_revision
from tests.headwater.demo_checks import broken_invariants, contents

DEADLINE_S = 30.0
AT = datetime(2026, 11, 1, 12, 0, tzinfo=UTC)
SMALL = demo.Size(60)

CHECKSUM_42 = "812e159a4de19e7b74e0f1ceb7f3e9b6db24e5891a0882ab778283dc21a69161"


@pytest.fixture
def conn(postgres: PostgresAddress) -> Iterator[Connection[Any]]:
    with psycopg.connect(postgres.conninfo(), autocommit=True) as opened:
        yield opened


@pytest.fixture
def loaded(conn: Connection[Any]) -> Connection[Any]:
    demo.load(conn, SMALL)
    return conn


def checksum(size: demo.Size, seed: int) -> str:
    digest = hashlib.sha256()
    for chunk in chunks(size, seed):
        for part in chunk:
            digest.update(f"{part.table}\n".encode())
            for row in part.rows:
                digest.update(f"{tuple(row)!r}\n".encode())
    return digest.hexdigest()


# --- the data, without Postgres -----------------------------------------------------------------------------------


def test_a_seed_gives_the_same_bytes_for_ever() -> None:
    """Pinned: whoever changes the vocabulary or the draws on purpose writes the new value here."""
    assert checksum(demo.Size(500), 42) == CHECKSUM_42


def test_another_process_gives_the_same_bytes() -> None:
    """Another process has another hash seed, so nothing may depend on the order of a set of strings."""
    program = "from tests.headwater.test_demo import *; print(checksum(SMALL, 7))"
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
        for hash_seed in ("1", "2")
    }
    assert told == {checksum(SMALL, 7)}


def test_seeds_differ() -> None:
    assert len({checksum(SMALL, seed) for seed in range(5)}) == 5


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(-(2**63), 2**63 - 1), listings=st.integers(1, 120))
def test_whatever_the_seed_the_data_is_consistent(seed: int, listings: int) -> None:
    size = demo.Size(listings)
    rows: dict[str, list[Any]] = defaultdict(list)
    for chunk in chunks(size, seed):
        for part in chunk:
            rows[part.table] += part.rows
        assert_consistent(rows)  # after every chunk, since each is a transaction
    expected = {"agents": size.agents, "listings": listings, "products": size.products, "page_hits": size.hits}
    assert {table: len(rows[table]) for table in expected} == expected


def assert_consistent(rows: dict[str, list[Any]]) -> None:
    listings = {listing.id: listing for listing in rows["listings"]}
    assert {listing.agent_id for listing in listings.values()} <= {agent.id for agent in rows["agents"]}
    latest = {price.listing_id: price for price in rows["price_history"]}
    assert {number: price.price for number, price in latest.items()} == {n: x.price for n, x in listings.items()}
    for before, after in zip(rows["price_history"], rows["price_history"][1:], strict=False):
        if before.listing_id == after.listing_id:
            assert before.changed_at <= after.changed_at <= BASE_AT
            assert before.price != after.price
    for table in ("photos", "viewings"):
        assert {row.listing_id for row in rows[table]} <= listings.keys()
    for listing in listings.values():
        assert listing.listed_at <= listing.updated_at <= BASE_AT
        assert listing.price > 0
        assert listing.area_m2 > 0
    owed: Counter[str] = Counter()
    for order in rows["orders"]:
        owed[order.sku] += order.quantity if order.state == "placed" else 0
    assert {stock.sku: stock.returnable for stock in rows["stock"]} == {p.sku: owed[p.sku] for p in rows["products"]}
    for table, key in (("orders", "id"), ("products", "sku"), ("viewings", "id"), ("price_history", "id")):
        assert len({getattr(row, key) for row in rows[table]}) == len(rows[table])


def test_the_market_looks_like_one() -> None:
    rows = defaultdict(list)
    for chunk in chunks(demo.Size(3_000), 42):
        for part in chunk:
            rows[part.table] += part.rows
    listings = rows["listings"]
    by_agent = Counter(listing.agent_id for listing in listings).most_common()
    assert by_agent[0][1] > 8 * by_agent[len(by_agent) // 2][1]  # a few agents have most of the market
    average = {
        city: sum(x.price / x.area_m2 for x in flats) / len(flats)
        for city in {x.city for x in listings}
        if (flats := [x for x in listings if x.city == city and x.kind == "flat"])
    }
    assert len(average) == 12
    assert max(average, key=average.__getitem__) in {"Paris", "London"}
    assert min(average, key=average.__getitem__) == "Marseille"
    assert {x.kind for x in listings} == {"house", "flat", "studio", "loft", "cottage", "land"}
    assert any("south facing garden" in x.description for x in listings if x.has_garden)
    assert not any("garden" in x.description for x in listings if not x.has_garden)
    assert all(len(x.survey) > 2_500 for x in listings if x.survey)
    assert any(x.survey for x in listings)


@given(seed=st.text(), low=st.integers(-50, 50), width=st.integers(0, 50))
def test_draws_stay_within_their_bounds(seed: str, low: int, width: int) -> None:
    draw = Draw(seed)
    for _ in range(20):
        assert low <= draw.between(low, low + width) <= low + width
        assert -1.0 <= draw.bell() <= 1.0
        assert draw.uuid().version == 4
        assert 1 <= len(draw.some("abcdef", 4)) <= 4


def test_weights_are_kept() -> None:
    draw = Draw("weights")
    drawn = Counter(Weighted("abc", (1, 0, 3)).draw(draw) for _ in range(4_000))
    assert drawn["b"] == 0
    assert 2.5 < drawn["c"] / drawn["a"] < 3.5
    drawn = Counter(zipf("abcd").draw(draw) for _ in range(4_000))
    assert 1.7 < drawn["a"] / drawn["b"] < 2.3


@given(seed=st.integers(), euro=st.integers(1, 10_000_000))
def test_a_new_price_is_another_price(seed: int, euro: int) -> None:
    price = Decimal(euro)
    other = reprice(Draw(str(seed)), price)
    assert other != price
    assert other > 0


def test_a_renamed_product_never_gets_an_old_name() -> None:
    names = ["KIT-00012"]
    for _ in range(30):
        names.append(next_revision(names[-1]))
    assert names[1:4] == ["KIT-00012-R2", "KIT-00012-R3", "KIT-00012-R4"]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("listings", [0, -1, 10_000_001])
def test_sizes_have_limits(listings: int) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot load {listings} listings"):
        demo.Size(listings)


# --- loading ------------------------------------------------------------------------------------------------------


def test_a_load_puts_in_what_it_reports(conn: Connection[Any]) -> None:
    seen: list[int] = []
    report = demo.load(conn, SMALL, seed=3, progress=seen.append)
    found = demo.read_status(conn)
    assert found.complete
    assert (found.seed, found.listings_loaded) == (3, 60)
    assert found.rows == report.rows
    assert sum(seen) == report.rows_total
    assert broken_invariants(conn) == {}
    survey = conn.execute("SELECT count(*) FROM public.listings WHERE pg_column_size(survey) > 2500").fetchone()
    assert survey is not None
    assert survey[0] == sum(bool(x.survey) for chunk in chunks(SMALL, 3) for x in chunk[0].rows if hasattr(x, "survey"))


def test_two_loads_of_a_seed_are_the_same(conn: Connection[Any]) -> None:
    demo.load(conn, SMALL, seed=5)
    first = contents(conn)
    demo.load(conn, SMALL, seed=5, reset=True)
    assert contents(conn) == first
    demo.load(conn, SMALL, seed=6, reset=True)
    assert contents(conn) != first


def test_a_second_load_is_refused_and_changes_nothing(loaded: Connection[Any]) -> None:
    before = contents(loaded)
    with pytest.raises(SourceError, match="already loaded") as refusal:
        demo.load(loaded, SMALL)
    assert refusal.value.hint == "headwater demo load --reset"
    assert demo.ensure_loaded(loaded, SMALL) is None
    assert contents(loaded) == before


def test_a_load_that_was_cut_off_is_known_and_begun_anew(conn: Connection[Any]) -> None:
    def cut_off(rows: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demo.load(conn, SMALL, progress=cut_off)
    assert not demo.read_status(conn).complete
    with pytest.raises(SourceError, match="did not finish"):
        demo.load(conn, SMALL)
    assert demo.ensure_loaded(conn, SMALL) is not None
    assert demo.read_status(conn).complete
    assert broken_invariants(conn) == {}


def test_reset_empties_the_tables_and_starts_the_numbers_again(loaded: Connection[Any]) -> None:
    demo.reset(loaded)
    found = demo.read_status(loaded)
    assert found.installed
    assert not found.complete
    assert set((found.rows or {}).values()) == {0}
    assert loaded.execute("SELECT nextval('public.listings_id_seq')").fetchone() == (1,)
    demo.reset(loaded)


@pytest.mark.parametrize("act", [demo.load, demo.reset, demo.read_status])
def test_a_table_of_the_users_own_is_left_alone(
    conn: Connection[Any], act: Callable[[Connection[Any]], object]
) -> None:
    conn.execute("CREATE TABLE public.orders (id int PRIMARY KEY)")
    conn.execute("INSERT INTO public.orders VALUES (1)")
    with pytest.raises(SourceError, match="tables of its own") as refusal:
        act(conn)
    assert refusal.value.detail == "public.orders"
    assert conn.execute("SELECT id FROM public.orders").fetchall() == [(1,)]
    assert conn.execute("SELECT to_regclass('public.listings')").fetchone() == (None,)


def test_one_load_at_a_time(postgres: PostgresAddress, conn: Connection[Any]) -> None:
    def load_too(rows: int) -> None:
        with psycopg.connect(postgres.conninfo(), autocommit=True) as other:
            for act in (demo.load, demo.reset):
                with pytest.raises(SourceError, match="another load or reset"):
                    act(other)

    demo.load(conn, SMALL, progress=load_too)
    assert demo.read_status(conn).complete
    demo.reset(conn)


def test_the_rows_are_the_columns(loaded: Connection[Any]) -> None:
    for table, row in ROWS.items():
        found = loaded.execute(
            "SELECT column_name FROM information_schema.columns WHERE table_schema = 'public' AND table_name = %s"
            " ORDER BY ordinal_position",
            (table,),
        ).fetchall()
        assert tuple(name for (name,) in found) == row._fields


# --- the command line ---------------------------------------------------------------------------------------------


@pytest.fixture
def invoke(postgres: PostgresAddress, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setattr(cli, "_address", lambda: postgres)
    app = typer.Typer()
    cli.register(app)

    def call(*words: str) -> str:
        done = CliRunner().invoke(app, ["demo", *words], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    return call


def test_the_verbs_as_json(invoke: Callable[..., str]) -> None:
    assert json.loads(invoke("status", "--json"))["installed"] is False
    report = json.loads(invoke("load", "--listings", "30", "--seed", "9", "--json"))
    assert report["rows"]["listings"] == 30
    status = json.loads(invoke("status", "--json"))
    assert (status["complete"], status["seed"], status["rows"]) == (True, 9, report["rows"])
    moved = json.loads(invoke("run", "--transactions", "25", "--rate", "1000", "--json"))
    assert moved["transactions"] == sum(moved["actions"].values()) == 25
    assert json.loads(invoke("reset", "--json"))["rows"]["listings"] == 0


def test_the_verbs_for_people(invoke: Callable[..., str]) -> None:
    assert "headwater demo load" in invoke("status")
    assert "rows/s" in invoke("load", "--listings", "30")
    assert "loaded with 30 listings from seed 42" in invoke("status")
    assert "25 transactions" in invoke("run", "--transactions", "25", "--rate", "1000")
    assert "transactions" in invoke("run", "--seconds", "0.3", "--rate", "50")
    assert "empty" in invoke("reset")


def test_a_verb_says_why_it_refuses(invoke: Callable[..., str]) -> None:
    with pytest.raises(SourceError, match="not loaded"):
        invoke("run", "--transactions", "1")


def test_the_defaults_in_the_help_are_the_demo_s() -> None:
    assert (cli.LISTINGS, cli.SEED, cli.RATE_PER_S) == (demo.LISTINGS, demo.SEED, mover_module.RATE_PER_S)


def test_the_demo_names_all_its_tables(loaded: Connection[Any]) -> None:
    found = loaded.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace ORDER BY 1"
    ).fetchall()
    assert sorted(EVERY_TABLE) == [name for (name,) in found]
    assert {table.name for table in demo.TABLES} == set(ROWS)

"""Postgres is the oracle: after every epoch a view holds what its SQL gives in Postgres, whatever the transactions, how
they are cut into epochs, and however often the engine is stopped, cut off in the middle, and run again."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from cdc.catalog import Catalog
from cdc.catalog_reader import load
from tests.views.kept import expected, held, planned, run_cut_off
from tests.views.shop import DDL, ROWS, Shop
from views.changes import changes
from views.engine import Engine
from views.sql import ViewPlan

pytestmark = pytest.mark.stack

VIEWS = """
create materialized view plain as
    select id, line, amount, note, tags, placed_at from orders where amount > 1 or units < 0;
create materialized view card as
    select o.id, o.line, o.amount, c.city, c.vip, o.amount * 2 as twice
    from orders o join customers c on c.id = o.customer_id;
create materialized view outer_card as
    select o.id, o.line, c.id as customer, c.city from orders o left join customers c on c.id = o.customer_id;
create materialized view spent as
    select c.id, c.city, count(o.id) as orders, sum(o.amount) as total, min(o.amount) as least,
        max(o.placed_at) as last, avg(o.amount) as average, sum(o.units) as units, bool_and(o.amount > 1) as dear
    from customers c left join orders o on o.customer_id = c.id group by c.id, c.city;
create materialized view by_city as
    select city, count(*) as customers, count(distinct vip) as kinds, min(joined) as first from customers group by city;
create materialized view document as
    select c.id, c.city, json_agg(json_build_object('id', o.id, 'note', o.note) order by o.id, o.line) as orders
    from customers c join orders o on o.customer_id = c.id group by c.id, c.city;
create materialized view everything as
    select count(*) as n, sum(amount) as total, max(units) as most, array_agg(id order by id, line) as ids from orders;
create materialized view idle as
    select id, city from customers c where not exists (select 1 from orders o where o.customer_id = c.id);
create materialized view buyers as select id, city from customers where id in (select customer_id from orders);
create materialized view strangers as select id from customers where id not in (select customer_id from orders);
create materialized view cities as select distinct city, vip from customers;
create materialized view top as select id, line, amount from orders order by amount desc nulls last, id, line limit 3;
create materialized view top_each as
    select id, line, customer_id, amount from (
        select id, line, customer_id, amount,
            row_number() over (partition by customer_id order by amount desc, id, line) as place
        from orders) ranked
    where place <= 2;
create materialized view running as
    select id, line, sum(amount) over (partition by customer_id order by id, line) as so_far,
        rank() over (partition by customer_id order by units) as rank from orders;
create materialized view both as
    select 'order' as kind, id, amount from orders where amount is not null
    union select 'customer', id, null::numeric(10, 2) from customers;
create materialized view kinds as
    select kind, count(*) as n, sum(id) as ids from (
        select 'order' as kind, id from orders union all select 'customer', id from customers) u
    group by kind;
create materialized view pages as
    select page, count(*) as visits, sum(seconds) as seconds, count(customer_id) as known from visits group by page;
create materialized view seen as
    select v.page, c.city, count(*) as visits
    from visits v join customers c on c.id = v.customer_id group by v.page, c.city;
create materialized view full_city with (key = 'city, orders_city') as
    select c.city, o.city as orders_city, c.n, o.total
    from (select city, count(*) as n from customers where city is not null group by city) c
    full join (
        select c.city, sum(o.amount) as total from orders o join customers c on c.id = o.customer_id
        where c.city is not null group by c.city) o
    on o.city = c.city;
create materialized view rich as
    select customer_id, sum(amount) as total from orders group by customer_id having sum(amount) > 1;
create materialized view right_card as
    select o.id, o.line, c.id as customer from customers c right join orders o on c.id = o.customer_id;
create materialized view later as
    select o.id, o.line, c.id as customer
    from orders o left join customers c on o.customer_id = c.id and c.joined > date '2023-01-01' and o.id <> c.id + 1;
create materialized view share as
    select id, line, amount, (select max(amount) from orders) as most, (select count(*) from customers) as customers
    from orders;
create materialized view nested as
    select c.id, (select coalesce(json_agg(o.note order by o.id, o.line), '[]')
                  from orders o where o.customer_id = c.id) as notes from customers c;
create materialized view labels as
    select customer_id, string_agg(note, ',' order by id, line) as notes, array_agg(distinct units) as units,
        max(note) as last from orders group by customer_id;
create materialized view kinds_of_amounts as
    select customer_id, count(distinct amount) as amounts, count(distinct note) filter (where line = 1) as notes,
        bool_or(amount > 50) as dear, avg(units) as units from orders group by customer_id;
create materialized view rivals as
    select id, city from customers c
    where exists (select 1 from customers o where o.city = c.city and o.id > c.id);
create materialized view steps as
    select id, line, lag(amount) over (partition by customer_id order by id, line) as before,
        count(*) over (partition by customer_id) as n from orders;
create materialized view heavy as
    select customer_id, sum(weight) as weight, max(weight) as most from orders group by customer_id;
create materialized view pairs with (key = 'a, a_line, b, b_line') as
    select a.id as a, a.line as a_line, b.id as b, b.line as b_line
    from orders a join orders b on a.customer_id = b.customer_id and a.id < b.id;
"""


@pytest.fixture(scope="module")
def connection(scratch: psycopg.Connection) -> psycopg.Connection:
    scratch.execute(DDL)
    return scratch


@pytest.fixture(scope="module")
def catalog(connection: psycopg.Connection) -> Catalog:
    return load(connection, list(ROWS))


@pytest.fixture(scope="module")
def plans(catalog: Catalog) -> dict[str, ViewPlan]:
    return planned(VIEWS, catalog)


@settings(max_examples=30, phases=[Phase.generate], deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_views_equal_their_sql(
    data: st.DataObject, connection: psycopg.Connection, catalog: Catalog, plans: dict[str, ViewPlan]
) -> None:
    connection.execute("truncate customers, orders, visits")
    shop = Shop(connection)
    shards = data.draw(st.integers(1, 3))
    roots = {name: plan.root for name, plan in plans.items()}
    outputs: dict[str, list[pa.Table]] = {name: [] for name in plans}
    with tempfile.TemporaryDirectory() as folder, ExitStack() as closing:
        engine = closing.enter_context(Engine(roots, catalog, Path(folder), shards=shards, durable=False))
        for epoch in range(data.draw(st.integers(1, 5))):
            events = [
                event
                for number in range(data.draw(st.integers(0, 3)))
                for event in shop.transaction(data.draw, epoch * 10 + number)  # type: ignore[arg-type]
            ]
            stages = len(engine.dataflow.graph.stages)
            if data.draw(st.booleans()):
                run_cut_off(engine, epoch, events, data.draw(st.integers(0, stages - 1)))
            if data.draw(st.booleans()):
                closing.close()
                engine = closing.enter_context(Engine(roots, catalog, Path(folder), shards=shards, durable=False))
            deltas = engine.step(epoch, events)
            if data.draw(st.booleans()):
                again = engine.step(epoch, events)
                assert {name: table.to_pylist() for name, table in again.items()} == {
                    name: table.to_pylist() for name, table in deltas.items()
                }
            for name, plan in plans.items():
                outputs[name].append(deltas[name])
                changes(name, plan.root.fields, plan.key, deltas[name])
                assert held(plan, outputs[name]) == expected(plan, connection), f"{name} after epoch {epoch}"

"""The catalog: what every published table looks like, as rows of a captured table.

A schema change rewrites the table's row in the same transaction, through an event trigger, so that readers of the log
learn of it in order: after the last change of the old shape and before the first of the new one. The event triggers
themselves are made by headwater/migrate.py, because they need a superuser and the rest does not.
"""

from __future__ import annotations

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

CATALOG = """
    create table headwater.catalog (
        relation oid primary key,
        schema_name text not null,
        table_name text not null,
        columns jsonb not null,
        key_columns text[] not null,
        replica_identity text not null,
        version bigint not null,
        recorded_at timestamptz not null
    )
"""

# Domains are followed to what they are made of and arrays to their elements, in whatever order they are nested.
# The type modifier of an array belongs to its elements; a domain brings its own.
DESCRIBE_TYPE = """
    create function headwater.describe_type(type_id oid, modifier integer) returns jsonb
    language plpgsql stable set search_path = pg_catalog, pg_temp
    as $$
    declare
        base_id oid := type_id;
        base_modifier integer := modifier;
        dims integer := 0;
        base pg_type;
        described jsonb;
    begin
        loop
            select * into strict base from pg_type where oid = base_id;
            if base.typtype = 'd' then
                base_id := base.typbasetype;
                base_modifier := base.typtypmod;
            elsif exists (select from pg_type e where e.oid = base.typelem and e.typarray = base_id) then
                base_id := base.typelem;
                dims := 1;
            else
                exit;
            end if;
        end loop;
        described := jsonb_build_object(
            'type', format_type(type_id, modifier),
            'base', format_type(base_id, base_modifier),
            'kind', base.typtype,
            'dims', dims);
        if base.typtype = 'c' then
            described := described || jsonb_build_object('fields', headwater.describe_columns(base.typrelid));
        elsif base.typtype = 'e' then
            described := described || jsonb_build_object('labels',
                (select jsonb_agg(enumlabel order by enumsortorder) from pg_enum where enumtypid = base_id));
        elsif base.typtype in ('r', 'm') then
            described := described || jsonb_build_object('subtype',
                (select format_type(rngsubtype, null) from pg_range where base_id in (rngtypid, rngmultitypid)));
        end if;
        return described;
    end
    $$
"""

DESCRIBE_COLUMNS = """
    create function headwater.describe_columns(relation oid) returns jsonb
    language sql stable set search_path = pg_catalog, pg_temp
    as $$
        select coalesce(
            jsonb_agg(
                jsonb_build_object('name', attname, 'not_null', attnotnull, 'generated', attgenerated)
                || headwater.describe_type(atttypid, atttypmod)
                order by attnum),
            '[]')
        from pg_attribute
        where attrelid = relation and attnum > 0 and not attisdropped
    $$
"""

# The key is what tells rows apart in the log: the replica identity's index where one was chosen, else the primary key.
DESCRIBE = """
    create function headwater.describe(relation regclass) returns headwater.catalog
    language sql stable set search_path = pg_catalog, pg_temp
    as $$
        select
            c.oid, n.nspname::text, c.relname::text, headwater.describe_columns(c.oid),
            coalesce(
                (
                    select array_agg(a.attname::text order by k.place)
                    from pg_index i
                    cross join unnest(i.indkey::smallint[]) with ordinality k (attnum, place)
                    join pg_attribute a on a.attrelid = i.indrelid and a.attnum = k.attnum
                    where i.indrelid = c.oid and k.place <= i.indnkeyatts
                        and case c.relreplident when 'i' then i.indisreplident else i.indisprimary end
                ),
                '{}'),
            c.relreplident::text, 0::bigint, now()
        from pg_class c join pg_namespace n on n.oid = c.relnamespace
        where c.oid = relation
    $$
"""

# Writes only what differs, so that a schema change is one row in the log. Versions come from a sequence: a table that
# leaves the publication and comes back never has an old version's number again.
REFRESH = """
    create function headwater.refresh_catalog() returns integer
    language plpgsql set search_path = pg_catalog, pg_temp
    as $$
    declare
        wanted headwater.catalog[];
        removed integer;
        written integer;
    begin
        select coalesce(array_agg(headwater.describe(p.oid)), '{}') into wanted
        from (
            select distinct c.oid
            from pg_publication_tables t
            join pg_namespace n on n.nspname = t.schemaname
            join pg_class c on c.relnamespace = n.oid and c.relname = t.tablename
            where starts_with(t.pubname::text, 'headwater_')
        ) p;
        delete from headwater.catalog where relation not in (select w.relation from unnest(wanted) w);
        get diagnostics removed = row_count;
        insert into headwater.catalog as old
        select w.relation, w.schema_name, w.table_name, w.columns, w.key_columns, w.replica_identity,
            nextval('headwater.catalog_version'), now()
        from unnest(wanted) w
        where not exists (
            select from headwater.catalog c
            where (c.relation, c.schema_name, c.table_name, c.columns, c.key_columns, c.replica_identity)
                = (w.relation, w.schema_name, w.table_name, w.columns, w.key_columns, w.replica_identity))
        on conflict (relation) do update set
            schema_name = excluded.schema_name, table_name = excluded.table_name, columns = excluded.columns,
            key_columns = excluded.key_columns, replica_identity = excluded.replica_identity,
            version = excluded.version, recorded_at = excluded.recorded_at;
        get diagnostics written = row_count;
        return removed + written;
    end
    $$
"""

# Runs inside the DDL of people who may never have heard of Headwater: temporary objects cost nothing, and a failure
# here is a warning and never the end of their statement. Preflight finds a catalog that is out of date.
ON_DDL = """
    create function headwater.on_ddl() returns event_trigger
    language plpgsql security definer set search_path = pg_catalog, pg_temp
    as $$
    begin
        if tg_event = 'sql_drop' then
            if not exists (
                select from pg_event_trigger_dropped_objects()
                where not is_temporary and object_type in (
                    'table', 'table column', 'table constraint', 'index', 'type', 'publication', 'publication relation')
            ) then
                return;
            end if;
        elsif (select coalesce(bool_and(schema_name = 'pg_temp'), false) from pg_event_trigger_ddl_commands()) then
            return;
        end if;
        perform headwater.refresh_catalog();
    exception when others then
        raise warning using
            message = 'headwater: the catalog was not refreshed after ' || tg_tag || ': ' || sqlerrm,
            hint = 'select headwater.refresh_catalog()';
    end
    $$
"""

UP = (
    CATALOG,
    # Deletes then carry the whole row: readers need its table's name.
    "alter table headwater.catalog replica identity full",
    "create sequence headwater.catalog_version owned by headwater.catalog.version",
    DESCRIBE_TYPE,
    DESCRIBE_COLUMNS,
    DESCRIBE,
    REFRESH,
    ON_DDL,
    "revoke execute on function headwater.refresh_catalog() from public",
)

DOWN = (
    "drop event trigger if exists headwater_ddl",
    "drop event trigger if exists headwater_drop",
    "drop function headwater.on_ddl()",
    "drop function headwater.refresh_catalog()",
    "drop function headwater.describe(regclass)",
    "drop function headwater.describe_columns(oid)",
    "drop function headwater.describe_type(oid, integer)",
    "drop table headwater.catalog",
)


def upgrade() -> None:
    for statement in UP:
        op.execute(statement)


def downgrade() -> None:
    for statement in DOWN:
        op.execute(statement)

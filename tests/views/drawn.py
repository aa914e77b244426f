"""Drawn at random: tables, and views over them put together from small parts.

    tables ─▶ relations ─ filter, join, group, distinct, union, first rows, exists, window, nested ─▶ views

A relation knows its columns' types and what tells its rows apart, so that the next part can be put on it. `SPEC` is the
catalogue of types: what values a column takes, and what may be asked of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Final

from hypothesis import strategies as st


@dataclass(frozen=True)
class Kind:
    """A type: literals for its values, and a condition on a column of it."""

    values: tuple[str, ...]
    condition: str = "{0} is not null"
    aggregates: tuple[str, ...] = ()
    groups: bool = True
    """Whether rows may be grouped and joined by it."""
    orders: bool = True


_SUMS: Final = ("sum({0})", "avg({0})", "min({0})", "max({0})")
_ENDS: Final = ("min({0})", "max({0})")
KINDS: Final[Mapping[str, Kind]] = {
    "smallint": Kind(("0", "1", "-3", "32767"), "{0} > 0", _SUMS),
    "integer": Kind(("0", "1", "2", "-7", "1000000"), "{0} <> 1", _SUMS),
    "bigint": Kind(("0", "1", "-7", "1099511627776", "4611686018427387904"), "{0} between 0 and 9", _SUMS),
    "numeric(10,2)": Kind(("0.00", "1.50", "-2.25", "100", "99999999.99"), "{0} > 1", (*_SUMS, "sum({0} * 2)")),
    "numeric": Kind(("0", "1.50", "1.5", "-2.250", "123456789012345678901234567890.5"), groups=False, orders=False),
    "double precision": Kind(
        ("0.5", "2", "-1.25", "1000000", "'NaN'", "'Infinity'", "'-Infinity'"),
        "{0} < 2",
        ("sum({0})", "min({0})", "max({0})"),
    ),
    "boolean": Kind(("true", "false"), "{0}", ("bool_and({0})", "bool_or({0})")),
    "text": Kind(
        ("''", "'a'", "'B'", "'é b'", "'long " + "x" * 200 + "'", "'" + "y" * 700 + "'"),
        "{0} like '%a%' or {0} is null",
        (*_ENDS, "count(distinct {0})"),
    ),
    "date": Kind(("'2024-02-29'", "'1999-12-31'", "'infinity'"), "{0} > '2000-01-01'", _ENDS),
    "timestamp with time zone": Kind(
        ("'2024-02-29 23:59:59.5+00'", "'2025-01-01 00:00+02'", "'infinity'"), "{0} < '2025-01-01'", _ENDS
    ),
    "timestamp without time zone": Kind(("'2024-02-29 23:59'", "'1999-12-31'"), "{0} < '2025-01-01'", _ENDS),
    "uuid": Kind(
        ("'00000000-0000-0000-0000-000000000001'", "'ffffffff-0000-0000-0000-000000000000'"),
        aggregates=("count(distinct {0})",),
        orders=False,
    ),
    "text[]": Kind(("'{}'", "'{a}'", "'{b,NULL,\"a c\"}'"), "cardinality({0}) > 0", ("count({0})",), orders=False),
}
IDS_MAX: Final = 6
OPAQUE: Final = "opaque"
"""What is carried and not computed with: documents, averages."""


_KEYS: Final[tuple[tuple[str, ...], ...]] = (("id",), ("id",), ("id", "part"), ())


@dataclass(frozen=True)
class DrawnTable:
    name: str
    columns: Mapping[str, str]
    key: tuple[str, ...]

    @property
    def ddl(self) -> str:
        columns = ", ".join(f"{name} {type_}" for name, type_ in self.columns.items())
        if self.key:
            return f"create table {self.name} ({columns}, primary key ({', '.join(self.key)}));"
        return f"create table {self.name} ({columns}); alter table {self.name} replica identity full;"


@st.composite
def tables(draw: st.DrawFn) -> tuple[DrawnTable, ...]:
    """Two or three. `id` and `ref` are small numbers, so that references are met."""
    found = []
    for number in range(draw(st.integers(2, 3))):
        types = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=4))
        key = draw(st.sampled_from(_KEYS)) if number else ("id",)
        columns = {"id": "integer", "part": "smallint", "ref": "integer"}
        columns |= {f"{'abcd'[place]}{number}": type_ for place, type_ in enumerate(types)}
        found.append(DrawnTable(f"t{number}", columns, key))
    return tuple(found)


def value(random: Random, table: DrawnTable, column: str) -> str:
    """A literal. Drawn evenly, not as Hypothesis would, which likes the first of everything."""
    if column in ("id", "part"):
        return str(random.randint(1, IDS_MAX if column == "id" else 2))
    if column == "ref":
        return random.choice(["null", *map(str, range(1, IDS_MAX + 1))])
    type_ = table.columns[column]
    return f"{random.choice(['null', *KINDS[type_].values])}::{type_}"


@dataclass(frozen=True)
class Relation:
    sql: str
    """What may stand in FROM before an alias."""
    columns: Mapping[str, str]
    key: tuple[str, ...]
    """Columns that tell its rows apart; none if nothing does."""

    def of(self, test: Callable[[Kind], object]) -> list[str]:
        return [name for name, type_ in self.columns.items() if type_ in KINDS and test(KINDS[type_])]

    @property
    def groupable(self) -> list[str]:
        return self.of(lambda kind: kind.groups)


def base(table: DrawnTable) -> Relation:
    return Relation(table.name, table.columns, table.key)


def _prefixed(relation: Relation, prefix: str) -> tuple[str, dict[str, str]]:
    shown = ", ".join(f"{prefix}.{name} as {prefix}{name}" for name in relation.columns)
    return shown, {f"{prefix}{name}": type_ for name, type_ in relation.columns.items()}


def filtered(draw: st.DrawFn, one: Relation, other: Relation) -> Relation:
    name = draw(st.sampled_from(one.of(lambda kind: True)))
    condition = KINDS[one.columns[name]].condition.format(f"x.{name}")
    negated = draw(st.sampled_from(["", "not "]))
    return Relation(f"(select x.* from {one.sql} x where {negated}({condition}))", one.columns, one.key)


def joined(draw: st.DrawFn, one: Relation, other: Relation) -> Relation:
    kind = draw(st.sampled_from(["join", "left join", "right join", "full join"]))
    pairs = [(a, b) for a in one.groupable for b in other.groupable if one.columns[a] == other.columns[b]]
    if not pairs:
        return filtered(draw, one, other)
    a, b = draw(st.sampled_from(pairs))
    left, left_columns = _prefixed(one, "l")
    right, right_columns = _prefixed(other, "r")
    key = [*(f"l{name}" for name in one.key), *(f"r{name}" for name in other.key)] if one.key and other.key else []
    sql = f"(select {left}, {right} from {one.sql} l {kind} {other.sql} r on l.{a} = r.{b})"
    return Relation(sql, {**left_columns, **right_columns}, tuple(key))


def grouped(draw: st.DrawFn, one: Relation, other: Relation) -> Relation:
    by = draw(st.lists(st.sampled_from(one.groupable), min_size=0, max_size=2, unique=True))
    columns = {f"g{place}": one.columns[name] for place, name in enumerate(by)}
    shown = [f"x.{name} as g{place}" for place, name in enumerate(by)] + ["count(*) as n"]
    columns["n"] = "bigint"
    for place, name in enumerate(draw(st.lists(st.sampled_from(one.of(lambda k: k.aggregates)), max_size=3))):
        call = draw(st.sampled_from(KINDS[one.columns[name]].aggregates)).format(f"x.{name}")
        shown.append(f"{call} as m{place}")
        columns[f"m{place}"] = OPAQUE
    if one.key and draw(st.sampled_from([True, False])):
        order = ", ".join(f"x.{name}" for name in one.key)
        call = draw(st.sampled_from(["array_agg", "json_agg"]))
        shown.append(f"{call}(x.{draw(st.sampled_from(one.groupable))} order by {order}) as listed")
        columns["listed"] = OPAQUE
    clause = f" group by {', '.join(f'x.{name}' for name in by)}" if by else ""
    having = draw(st.sampled_from(["", " having count(*) > 1"])) if by else ""
    key = tuple(f"g{place}" for place in range(len(by))) or ("n",)
    return Relation(f"(select {', '.join(shown)} from {one.sql} x{clause}{having})", columns, key)


def distinct(draw: st.DrawFn, one: Relation, other: Relation) -> Relation:
    names = draw(st.lists(st.sampled_from(one.groupable), min_size=1, max_size=3, unique=True))
    shown = ", ".join(f"x.{name}" for name in names)
    columns = {name: one.columns[name] for name in names}
    return Relation(f"(select distinct {shown} from {one.sql} x)", columns, tuple(names))


def united(draw: st.DrawFn, one: Relation, other: Relation) -> Relation:
    """UNION of a column that both have, or UNION ALL with a word that tells the two apart."""
    pairs = [(a, b) for a in one.groupable for b in other.groupable if one.columns[a] == other.columns[b]]
    if not pairs:
        return distinct(draw, one, other)
    a, b = draw(st.sampled_from(pairs))
    columns = {"v": one.columns[a]}
    if len(one.key) == 1 and len(other.key) == 1 and one.columns[one.key[0]] == other.columns[other.key[0]]:
        first = f"select 'one' as tag, x.{one.key[0]} as k, x.{a} as v from {one.sql} x"
        second = f"select 'other', y.{other.key[0]} as k, y.{b} as v from {other.sql} y"
        columns = {"tag": "text", "k": one.columns[one.key[0]], **columns}
        return Relation(f"({first} union all {second})", columns, ("tag", "k"))
    return Relation(f"(select x.{a} as v from {one.sql} x union select y.{b} from {other.sql} y)", columns, ("v",))


def first_rows(draw: st.DrawFn, one: Relation, other: Relation) -> Relation:
    if not one.key:
        return distinct(draw, one, other)
    by = draw(st.sampled_from(one.of(lambda kind: kind.orders) or list(one.key)))
    way = draw(st.sampled_from(["asc", "desc", "desc nulls last", "asc nulls first"]))
    order = ", ".join([f"x.{by} {way}", *(f"x.{name}" for name in one.key)])
    limit = draw(st.integers(1, 3))
    if draw(st.booleans()):
        offset = draw(st.sampled_from(["", " offset 1"]))
        return Relation(f"(select x.* from {one.sql} x order by {order} limit {limit}{offset})", one.columns, one.key)
    partition = draw(st.sampled_from(one.groupable))
    inner = f"select x.*, row_number() over (partition by x.{partition} order by {order}) as place from {one.sql} x"
    shown = ", ".join(f"ranked.{name}" for name in one.columns)
    return Relation(f"(select {shown} from ({inner}) ranked where place <= {limit})", one.columns, one.key)


def existing(draw: st.DrawFn, one: Relation, other: Relation) -> Relation:
    pairs = [(a, b) for a in one.groupable for b in other.groupable if one.columns[a] == other.columns[b]]
    if not pairs:
        return filtered(draw, one, other)
    a, b = draw(st.sampled_from(pairs))
    negated = draw(st.sampled_from(["", "not "]))
    condition = draw(
        st.sampled_from(
            [
                f"{negated}exists (select 1 from {other.sql} y where y.{b} = x.{a})",
                f"x.{a} {negated}in (select y.{b} from {other.sql} y)",
            ]
        )
    )
    return Relation(f"(select x.* from {one.sql} x where {condition})", one.columns, one.key)


def windowed(draw: st.DrawFn, one: Relation, other: Relation) -> Relation:
    if not one.key:
        return grouped(draw, one, other)
    partition = draw(st.sampled_from(one.groupable))
    order = ", ".join(f"x.{name}" for name in one.key)
    function = draw(st.sampled_from(["count(*)", "row_number()", "rank()", f"lag(x.{one.key[0]})"]))
    sql = f"(select x.*, {function} over (partition by x.{partition} order by {order}) as w from {one.sql} x)"
    columns = {name: type_ for name, type_ in one.columns.items() if name != "w"}
    return one if "w" in one.columns else Relation(sql, {**columns, "w": OPAQUE}, one.key)


def nested(draw: st.DrawFn, one: Relation, other: Relation) -> Relation:
    pairs = [(a, b) for a in one.groupable for b in other.groupable if one.columns[a] == other.columns[b]]
    if not pairs or not other.key or "doc" in one.columns:
        return filtered(draw, one, other)
    a, b = draw(st.sampled_from(pairs))
    order = ", ".join(f"y.{name}" for name in other.key)
    field = draw(st.sampled_from(list(other.columns)))
    inner = f"select json_agg(json_build_object('k', y.{other.key[0]}, 'v', y.{field}) order by {order})"
    sql = f"(select x.*, ({inner} from {other.sql} y where y.{b} = x.{a}) as doc from {one.sql} x)"
    return Relation(sql, {**one.columns, "doc": OPAQUE}, one.key)


PARTS: Final = (filtered, joined, joined, grouped, distinct, united, first_rows, existing, windowed, nested)


@st.composite
def views(draw: st.DrawFn, of: tuple[DrawnTable, ...]) -> str:
    """The SELECT of a view: up to three parts on a table. One whose rows nothing tells apart is counted."""
    relation = base(draw(st.sampled_from(of)))
    for _ in range(draw(st.integers(1, 3))):
        other = base(draw(st.sampled_from(of)))
        relation = draw(st.sampled_from(PARTS))(draw, relation, other)
    if not relation.key:
        relation = grouped(draw, relation, relation)
    return f"select v.* from {relation.sql} v"

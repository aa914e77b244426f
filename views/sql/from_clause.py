"""FROM: tables, CTEs and subqueries become relations, and relations are joined.

Inner joins and the comma are one region: its relations are joined in an order in which each has an equality with those
before it, wherever in ON or WHERE that equality was written. Outer joins stay where they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from sqlglot import exp

from cdc.catalog import Table
from cdc.events import TableName
from cdc.pgtypes import unsupported_reason
from views import sqltypes
from views.plan import JoinKind
from views.refusals import Reason, nearest, refusal
from views.sql import nodes
from views.sql.context import Context, Cte, Output, Relation
from views.sql.expressions import Binder
from views.sql.joins import connected, outer_joined
from views.sql.scope import Scope, Source, folded
from views.sql.typed import column, conjuncts

_SIDES: Final = {"LEFT": JoinKind.LEFT, "RIGHT": JoinKind.RIGHT, "FULL": JoinKind.FULL}


@dataclass
class Region:
    """Relations of inner joins that are not connected yet, and the conditions that were written for them."""

    relations: list[Relation] = field(default_factory=list)
    conditions: list[exp.Expression] = field(default_factory=list)
    merged: dict[str, exp.Expression] = field(default_factory=dict)

    def scope(self, outer: Scope | None) -> Scope:
        return Scope(tuple(s for r in self.relations for s in r.sources), self.all_merged(), outer)

    def all_merged(self) -> dict[str, exp.Expression]:
        merged = {name: value for r in self.relations for name, value in r.merged.items()}
        return {**merged, **self.merged}


@dataclass(frozen=True)
class FromClause:
    context: Context
    ctes: Mapping[str, Cte]
    outer: Scope | None

    def build(self, select: exp.Select) -> Region:
        """The region that is left to connect, once WHERE has had its say."""
        clause = select.args.get("from_")
        if clause is None:
            raise refusal(
                Reason.UNSUPPORTED, "a SELECT without FROM reads no table", select, hint="SELECT … FROM table"
            )
        regions = [self._tree(clause.this)]
        for join in select.args.get("joins") or []:
            if _is_comma(join):
                regions.append(self._tree(join.this))
            else:
                regions[-1] = self._joined(regions[-1], join)
        whole = Region()
        for region in regions:
            whole.relations += region.relations
            whole.conditions += region.conditions
            whole.merged.update(region.merged)
        self._check_aliases(whole, select)
        return whole

    def _check_aliases(self, region: Region, select: exp.Select) -> None:
        aliases = [source.alias for relation in region.relations for source in relation.sources]
        for alias in aliases:
            if aliases.count(alias) > 1:
                hint = f"{alias} AS another_name"
                raise refusal(
                    Reason.AMBIGUOUS_COLUMN, f'"{alias}" stands twice in FROM', select.args["from_"], hint=hint
                )

    def _tree(self, item: exp.Expression) -> Region:
        if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Table):
            if item.args.get("alias"):
                raise refusal(
                    Reason.UNSUPPORTED,
                    "an alias for a join in parentheses",
                    item,
                    hint="(SELECT … FROM a JOIN b …) alias",
                )
            return self._tree(item.this)
        inner = item.args.get("joins") or []
        region = Region([self._item(item)])
        for join in inner:
            region = self._joined(region, join)
        return region

    def _item(self, item: exp.Expression) -> Relation:
        if isinstance(item, exp.Table) and isinstance(item.this, exp.Identifier):
            return self._table(item)
        if isinstance(item, exp.Subquery) and isinstance(item.this, exp.Query):
            return self._subquery(item)
        name = item.this.name if isinstance(item, exp.Table) and item.this is not None else item.key
        raise refusal(
            Reason.SET_RETURNING,
            f"{name} in FROM is neither a table nor a subquery",
            item,
            hint="FROM a captured table; keep constants and elements in a table of their own",
        )

    def _table(self, item: exp.Table) -> Relation:
        name = folded(item.this)
        schema = item.args.get("db")
        if schema is None and name in self.ctes:
            return self._cte(item, self.ctes[name])
        wanted = TableName(folded(schema) if schema is not None else "public", name)
        table = self.context.catalog.by_name.get(wanted)
        if table is None:
            known = [*map(str, self.context.catalog.by_name), *self.ctes]
            hint = nearest(str(wanted), known)
            raise refusal(Reason.UNKNOWN_TABLE, f"{wanted} is not among the captured tables", item, hint=hint)
        return self._scan(item, table)

    def _scan(self, item: exp.Table, table: Table) -> Relation:
        alias = _alias(item) or table.name.name
        carried, refused = _carried(table)
        node = nodes.scan(table, self.context.name(alias), carried)
        names = _renamed(item, carried)
        columns = {name: column(f) for name, f in zip(names, node.fields, strict=True)}
        schema = table.name.schema if not _alias(item) else None
        return Relation(node, (Source(alias, columns, schema, refused),))

    def _subquery(self, item: exp.Subquery) -> Relation:
        from views.sql.queries import build_query

        alias = _alias(item) or self.context.name("subquery")
        output = build_query(self.context, item.this, self.ctes, self.outer, self.context.name(alias))
        return _visible(output, alias, _renamed(item, [name for name, _ in output.columns]))

    def _cte(self, item: exp.Table, cte: Cte) -> Relation:
        """Built once; a second use gives the columns names of its own."""
        from views.sql.queries import build_query

        alias = _alias(item) or cte.name
        output = self.context.ctes.get(id(cte.query))
        first = output is None
        if output is None:
            output = build_query(self.context, cte.query, cte.visible, self.outer, self.context.name(cte.name))
            self.context.ctes[id(cte.query)] = output
        if output.correlations or output.residuals:
            raise refusal(
                Reason.SUBQUERY, "a CTE cannot refer to the query around it", item, hint="write it as a subquery"
            )
        names = cte.columns or tuple(name for name, _ in output.columns)
        if not first:
            prefix = self.context.name(alias)
            renamed = [(f"{prefix}.{name}", value) for name, (_, value) in zip(names, output.columns, strict=False)]
            node = nodes.projected(output.node, renamed)
            output = Output(node, tuple((name, column(f)) for name, f in zip(names, node.fields, strict=True)))
        return _visible(output, alias, _renamed(item, names))

    def _joined(self, left: Region, join: exp.Join) -> Region:
        right = self._tree(join.this)
        side = str(join.args.get("side") or "").upper()
        kind = str(join.args.get("kind") or "").upper()
        if kind not in ("", "INNER", "OUTER", "CROSS") or (join.args.get("method") and not join.args.get("using")):
            raise refusal(
                Reason.UNSUPPORTED, f"{kind or join.args['method']} JOIN is not accepted", join, hint="JOIN, LEFT JOIN"
            )
        if side in _SIDES:
            return self._outer(left, right, _SIDES[side], join)
        conditions, merged = self._conditions(left, right, join, JoinKind.INNER)
        return Region(
            [*left.relations, *right.relations],
            [*left.conditions, *right.conditions, *conditions],
            {**left.merged, **right.merged, **merged},
        )

    def _outer(self, left: Region, right: Region, kind: JoinKind, join: exp.Join) -> Region:
        a = connected(left.relations, left.conditions, self.context, join)
        b = connected(right.relations, right.conditions, self.context, join)
        conditions, merged = self._conditions(left, right, join, kind)
        relation = outer_joined(kind, a, b, conditions, self.context, join)
        merged = {**left.all_merged(), **right.all_merged(), **merged}
        return Region([replace(relation, merged=merged)], [], merged)

    def _conditions(
        self, left: Region, right: Region, join: exp.Join, kind: JoinKind
    ) -> tuple[list[exp.Expression], dict[str, exp.Expression]]:
        both = Region([*left.relations, *right.relations], merged={**left.merged, **right.merged})
        binder = Binder(both.scope(self.outer), self.context.types, "ON")
        if using := join.args.get("using"):
            return self._using(left, right, using, kind)
        on = join.args.get("on")
        return ([binder.predicate(part) for part in conjuncts(on)] if on is not None else []), {}

    def _using(
        self, left: Region, right: Region, using: Sequence[exp.Expression], kind: JoinKind
    ) -> tuple[list[exp.Expression], dict[str, exp.Expression]]:
        conditions: list[exp.Expression] = []
        merged: dict[str, exp.Expression] = {}
        for identifier in using:
            name = folded(identifier)
            bare = exp.column(identifier.copy())
            bare.meta.update(identifier.meta)
            sides = [region.scope(None).resolve(bare) for region in (left, right)]
            conditions.append(_bound(exp.EQ(this=exp.column("l"), expression=exp.column("r")), self.context, sides))
            merged[name] = sides[1] if kind is JoinKind.RIGHT else sides[0]
            if kind is JoinKind.FULL:
                call = exp.Anonymous(this="coalesce", expressions=[exp.column("l"), exp.column("r")])
                merged[name] = _bound(call, self.context, sides)
        return conditions, merged


def _bound(node: exp.Expression, context: Context, sides: Sequence[exp.Expression]) -> exp.Expression:
    source = Source("", {"l": sides[0], "r": sides[1]})
    return Binder(Scope((source,)), context.types, "USING").bind(node)


def _is_comma(join: exp.Join) -> bool:
    return not any(join.args.get(part) for part in ("on", "using", "side", "kind", "method"))


def _alias(item: exp.Expression) -> str | None:
    alias = item.args.get("alias")
    return folded(alias.this) if alias is not None and alias.this is not None else None


def _renamed(item: exp.Expression, names: Sequence[str]) -> list[str]:
    """alias (a, b) names the first columns anew."""
    alias = item.args.get("alias")
    new = [folded(identifier) for identifier in (alias.args.get("columns") or [])] if alias is not None else []
    if len(new) > len(names):
        raise refusal(Reason.UNKNOWN_COLUMN, "more names than columns", item, hint=f"there are {len(names)}")
    return [*new, *names[len(new) :]]


def _carried(table: Table) -> tuple[list[str], dict[str, str]]:
    """The columns that views can read, and why the others cannot be."""
    carried: list[str] = []
    refused: dict[str, str] = {}
    for item in table.columns:
        reason = unsupported_reason(item.type)
        try:
            sqltypes.of_column(item.type)
        except KeyError:
            reason = reason or f"{item.type} has no type in DuckDB"
        if reason is None:
            carried.append(item.name)
        else:
            refused[item.name] = reason
    return carried, refused


def _visible(output: Output, alias: str, names: Sequence[str]) -> Relation:
    columns = {name: value for name, (_, value) in zip(names, output.columns, strict=True)}
    source = Source(alias, columns)
    return Relation(output.node, (source,), {}, output.correlations, output.residuals)

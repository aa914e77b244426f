"""WHERE: plain conditions go to where they filter most, conditions on rows around become correlations, EXISTS and IN
become semi joins, and scalar subqueries are joined to the rows that ask for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from views.plan import Aggregate, JoinKind, Node, Project, SemiJoinKind
from views.refusals import Reason, refusal
from views.sql import nodes
from views.sql.coercion import to_common
from views.sql.context import Context, Correlation, Cte, Output, Relation
from views.sql.expressions import Binder
from views.sql.from_clause import Region
from views.sql.joins import connected, equi_key
from views.sql.keys import keys_of, plain
from views.sql.operators import check_key
from views.sql.scope import Scope
from views.sql.typed import columns_in, conjunction, conjuncts, nullable


@dataclass(frozen=True)
class Where:
    context: Context
    ctes: Mapping[str, Cte]
    outer: Scope | None

    def host(self, relation: Relation) -> Host:
        return Host(self, relation)

    def applied(self, region: Region, select: exp.Select) -> Relation:
        clause = select.args.get("where")
        parts = conjuncts(clause.this) if clause is not None else []
        semis = [part for part in parts if _semi(part) is not None]
        asking = [part for part in parts if part not in semis and part.find(exp.Query)]
        binder = Binder(region.scope(self.outer), self.context.types, "WHERE")
        conditions = [
            *region.conditions,
            *(binder.predicate(part) for part in parts if part not in semis and part not in asking),
        ]
        relation = self._connected(region, conditions, select)
        host = self.host(replace(relation, merged=region.all_merged()))
        for part in asking:
            host.filter(part)
        for part in semis:
            host.semi_join(part)
        return host.relation

    def _connected(self, region: Region, conditions: list[exp.Expression], select: exp.Select) -> Relation:
        names = {name for relation in region.relations for name in relation.node.names}
        own = [c for c in conditions if columns_in(c) <= names]
        relation = connected(region.relations, own, self.context, select.args["from_"])
        for condition in conditions:
            around = columns_in(condition) - names
            if not around:
                continue
            pair = equi_key(condition, names, around)
            if pair is not None:
                found = (*relation.correlations, Correlation(*pair))
                relation = replace(relation, correlations=found)
            else:
                relation = replace(relation, residuals=(*relation.residuals, condition))
        return relation


@dataclass
class Host:
    """A relation to which subqueries are joined as they are met."""

    where: Where
    relation: Relation

    @property
    def context(self) -> Context:
        return self.where.context

    def scope(self) -> Scope:
        return self.relation.scope(self.where.outer)

    def filter(self, part: exp.Expression) -> None:
        bound = Binder(self.scope(), self.context.types, "WHERE", subquery=self.attach).predicate(part)
        self._check_here(bound, part)
        self.relation = self.relation.over(nodes.filtered(self.relation.node, [bound]))

    def attach(self, query: exp.Query, at: exp.Expression) -> exp.Expression:
        """A scalar subquery's value, as an expression over the relation that it was joined to."""
        output = self._built(query, "scalar")
        if len(output.columns) != 1 or output.residuals:
            _refuse_scalar(at, "it must have one column, and hang on the row around by equalities")
        for correlation in output.correlations:
            self._check_here(correlation.outer, at)
        keys = [(c.outer, c.inner) for c in output.correlations]
        inner = [name for name in (plain(c.inner) for c in output.correlations) if name is not None]
        if not keys_of(output.node, self.context.catalog).decides(inner):
            _refuse_scalar(at, "it may have several rows")
        kind = JoinKind.INNER if not keys and _is_one_row(output.node) else JoinKind.LEFT
        self.relation = self.relation.over(nodes.joined(kind, self.relation.node, output.node, keys))
        value = output.columns[0][1].copy()
        for part in value.find_all(exp.Column):
            if part.name in output.node.names and kind is JoinKind.LEFT:
                part.meta["nullable"] = True
        if isinstance(value, exp.Column):
            value.meta["nullable"] = kind is JoinKind.LEFT or nullable(value)
        return value

    def semi_join(self, part: exp.Expression) -> None:
        found = _semi(part)
        assert found is not None
        node, negated = found
        query = node.args["query"].this if isinstance(node, exp.In) else node.this
        output = self._built(_without_list(query) if isinstance(node, exp.Exists) else query, "exists")
        keys = self._compared(node, output) if isinstance(node, exp.In) else []
        null_aware = negated and any(nullable(a) or nullable(b) for a, b in keys)
        if null_aware and (len(keys) > 1 or output.correlations or output.residuals):
            raise refusal(
                Reason.SUBQUERY,
                "NOT IN with NULLs in a correlated subquery or over several columns",
                part,
                hint="NOT EXISTS (SELECT … WHERE inner.x = outer.x)",
            )
        keys += [(c.outer, c.inner) for c in output.correlations]
        for outer, _ in keys:
            self._check_here(outer, part)
        if not keys:
            raise refusal(
                Reason.NON_EQUI_JOIN,
                "EXISTS without an equality with the row around",
                part,
                hint="EXISTS (SELECT … WHERE inner.key = outer.key)",
            )
        kind = SemiJoinKind.ANTI if negated else SemiJoinKind.SEMI
        residual = conjunction(output.residuals)
        joined = nodes.semi_joined(kind, self.relation.node, output.node, keys, residual, null_aware=null_aware)
        self.relation = self.relation.over(joined)

    def _built(self, query: exp.Expr, prefix: str) -> Output:
        from views.sql.queries import build_query, with_ctes
        from views.sql.selects import SelectBuilder

        bare = query.unnest() if isinstance(query, (exp.Subquery, exp.Paren)) else query
        name = self.context.name(prefix)
        if not isinstance(bare, exp.Select):
            return build_query(self.context, bare, self.where.ctes, self.scope(), name)
        ctes = with_ctes(bare, self.where.ctes)
        return SelectBuilder(self.context, bare, ctes, self.scope(), name, deferred=prefix == "scalar").build()

    def _compared(self, node: exp.In, output: Output) -> list[tuple[exp.Expression, exp.Expression]]:
        left = node.this.expressions if isinstance(node.this, exp.Tuple) else [node.this]
        if len(left) != len(output.columns):
            raise refusal(
                Reason.SUBQUERY, "IN compares as many columns as the subquery has", node, hint="x IN (SELECT x FROM …)"
            )
        binder = Binder(self.scope(), self.context.types, "IN")
        pairs = []
        for one, (_, other) in zip(left, output.columns, strict=True):
            pair, type_ = to_common([binder.bind(one), other], node)
            check_key(type_, node)
            pairs.append((pair[0], pair[1]))
        return pairs

    def _check_here(self, expression: exp.Expression, at: exp.Expression) -> None:
        if not columns_in(expression) <= set(self.relation.node.names):
            raise refusal(
                Reason.SUBQUERY,
                "a subquery refers to a query that is not right around it",
                at,
                hint="join the tables in FROM, and refer to those",
            )


def _semi(part: exp.Expression) -> tuple[exp.Expression, bool] | None:
    """EXISTS or IN with a subquery, and whether it is negated."""
    bare, negated = part.unnest(), False
    while isinstance(bare, exp.Not):
        bare, negated = bare.this.unnest(), not negated
    if isinstance(bare, exp.Exists) or (isinstance(bare, exp.In) and bare.args.get("query") is not None):
        return bare, negated
    return None


def _without_list(query: exp.Expr) -> exp.Expr:
    """EXISTS does not look at columns, nor at the order."""
    bare = query.unnest() if isinstance(query, (exp.Subquery, exp.Paren)) else query
    if not isinstance(bare, exp.Select) or bare.args.get("group") or bare.args.get("having") or bare.args.get("offset"):
        return bare
    plain_query = bare.copy()
    one = exp.alias_(exp.Literal.number(1), "one")
    for part in ("order", "limit", "distinct"):
        plain_query.set(part, None)
    plain_query.set("expressions", [one])
    return plain_query


def _is_one_row(node: Node) -> bool:
    """Exactly one, also over nothing."""
    while isinstance(node, Project):
        node = node.input
    return isinstance(node, Aggregate) and not node.groups


def _refuse_scalar(at: exp.Expression, detail: str) -> None:
    raise refusal(
        Reason.SUBQUERY,
        "a subquery as a value is not accepted here",
        at,
        detail=detail,
        hint="an aggregate, such as (SELECT max(x) FROM … WHERE inner.key = outer.key), or ORDER BY … LIMIT 1",
    )

"""SELECT, clause by clause, in the order in which SQL evaluates them: FROM, WHERE, GROUP BY, HAVING, window functions,
ORDER BY … LIMIT, the select list, DISTINCT. Each step takes the relation that the one before it made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from views import sqltypes as t
from views.plan import Named, Node
from views.refusals import Reason, refusal
from views.sql import nodes
from views.sql.aggregates import is_count, ordered
from views.sql.coercion import coerced
from views.sql.context import Context, Correlation, Cte, Output, Relation
from views.sql.expressions import Binder
from views.sql.from_clause import FromClause
from views.sql.grouping import Grouping, aggregates_in, windows_over
from views.sql.limits import limit_and_offset, refuse_order_alone, top_rows
from views.sql.operators import check_key
from views.sql.scope import Scope, folded
from views.sql.select_list import Item, expanded, position_of
from views.sql.typed import call, column, rewrite, type_of, typed
from views.sql.typed import field as field_of
from views.sql.where import Where


@dataclass
class SelectBuilder:
    context: Context
    select: exp.Select
    ctes: Mapping[str, Cte]
    outer: Scope | None
    prefix: str
    is_branch: bool = False
    """Of a UNION: a literal of no type gets it from the other branches."""
    deferred: bool = False
    """A scalar subquery: what is computed from aggregates is left to the query around, which knows of absent groups."""
    relation: Relation = field(init=False)
    items: list[Item] = field(init=False)
    having: exp.Expression | None = field(init=False, default=None)
    order: list[exp.Ordered] = field(init=False, default_factory=list)
    distinct_on: list[exp.Expression] = field(init=False, default_factory=list)

    def build(self) -> Output:
        where = Where(self.context, self.ctes, self.outer)
        region = FromClause(self.context, self.ctes, self.outer).build(self.select)
        self.relation = where.applied(region, self.select)
        self._bind(where)
        if self._is_grouped() and (output := self._grouped()) is not None:
            return output
        self._windows()
        self._limit()
        return self._projected()

    def _bind(self, where: Where) -> None:
        """All expressions after WHERE, over its rows. Scalar subqueries in them are joined to the relation."""
        host = where.host(self.relation)
        windows = {folded(w.this): w for w in self.select.args.get("windows") or []}
        binder = Binder(
            self.relation.scope(self.outer), self.context.types, "the select list", True, True, host.attach, windows
        )
        self.items = [
            Item(item.name, item.ast, self._settled(binder.bind(item.ast) if item.bound is None else item.bound))
            for item in expanded(self.select, self.relation.scope(self.outer), is_root=not self.prefix)
        ]
        if (having := self.select.args.get("having")) is not None:
            self.having = Binder(binder.scope, binder.types, "HAVING", aggregates=True, subquery=host.attach).predicate(
                having.this
            )
        self.order = [self._order_term(term, binder) for term in self._order_terms()]
        on = (self.select.args.get("distinct") or exp.Distinct()).args.get("on")
        self.distinct_on = [self._output(part, binder) for part in (on.expressions if on is not None else [])]
        self.relation = host.relation

    def _settled(self, value: exp.Expression) -> exp.Expression:
        """A literal of no type in the select list is a text."""
        is_open = type_of(value).family is t.Family.UNKNOWN
        return coerced(value, t.TEXT) if is_open and not self.is_branch else value

    def _order_terms(self) -> list[exp.Expression]:
        order = self.select.args.get("order")
        return order.expressions if order is not None else []

    def _order_term(self, term: exp.Expression, binder: Binder) -> exp.Ordered:
        return ordered(self._output(term.this, binder), term)

    def _output(self, part: exp.Expression, binder: Binder) -> exp.Expression:
        """A number or a name of the select list, else an expression."""
        place = position_of(part, self.items)
        return binder.bind(part) if place is None else self.items[place].value.copy()

    def _is_grouped(self) -> bool:
        values = [item.value for item in self.items] + [term.this for term in self.order]
        return bool(
            self.select.args.get("group") or self.having is not None or any(aggregates_in(value) for value in values)
        )

    def _grouped(self) -> Output | None:
        """The relation over groups; or, of a correlated scalar subquery, the output itself."""
        grouping = Grouping(self.context, self.relation.node)
        written = self._group_terms()
        if self.relation.residuals:
            _refuse_correlated(self.select)
        correlations = tuple(
            Correlation(grouping.group_by(c.inner, self.select), c.outer) for c in self.relation.correlations
        )
        for expression, at in written:
            grouping.group_by(expression, at)
        if correlations and not written and not self.deferred:
            _refuse_correlated(self.select)
        self._over_groups(grouping)
        if correlations and not written:
            return self._unprojected(grouping, correlations)
        node = nodes.filtered(grouping.node(), [self.having] if self.having is not None else [])
        self.relation = Relation(node, (), {}, correlations)
        return None

    def _group_terms(self) -> list[tuple[exp.Expression, exp.Expression]]:
        clause = self.select.args.get("group")
        if clause is None:
            return []
        if clause.args.get("all") is not None or clause.args.get("totals"):
            raise refusal(Reason.GROUPING_SETS, "GROUP BY ALL", clause, hint="GROUP BY the columns")
        scope = self.relation.scope(self.outer)
        binder = Binder(scope, self.context.types, "GROUP BY")
        found = []
        for part in clause.expressions:
            place = position_of(part, self.items, scope)
            value = binder.bind(part) if place is None else self.items[place].value.copy()
            found.append((value, part))
        return found

    def _over_groups(self, grouping: Grouping) -> None:
        self.items = [Item(i.name, i.ast, grouping.over_groups(i.value, i.ast)) for i in self.items]
        if self.having is not None:
            self.having = grouping.over_groups(self.having, self.select.args["having"])
        for term in self.order:
            term.set("this", grouping.over_groups(term.this, self.select))
        self.distinct_on = [grouping.over_groups(part, self.select) for part in self.distinct_on]

    def _unprojected(self, grouping: Grouping, correlations: tuple[Correlation, ...]) -> Output:
        """A row around without a group sees 0 for its counts and NULL for all else."""
        if self.having is not None or self.select.args.get("limit") or self.select.args.get("distinct"):
            _refuse_correlated(self.select)
        counts = {name for name, value in grouping.aggregates if is_count(value)}

        def replacement(part: exp.Expression) -> exp.Expression | None:
            if not isinstance(part, exp.Column) or part.name not in counts:
                return None
            zero = typed(exp.Literal.number(0), t.BIGINT, nullable=False)
            return call("coalesce", [part, zero], t.BIGINT, nullable=False)

        columns = tuple((item.name, rewrite(item.value, replacement)) for item in self.items)
        return Output(grouping.node(), columns, correlations)

    def _windows(self) -> None:
        values = [item.value for item in self.items] + [term.this for term in self.order]
        if not any(value.find(exp.Window) for value in values):
            return
        if self.relation.correlations or self.relation.residuals:
            _refuse_correlated(self.select)
        node, rewritten = windows_over(self.context, self.relation.node, values)
        self.relation = self.relation.over(node)
        self.items = [Item(i.name, i.ast, v) for i, v in zip(self.items, rewritten, strict=False)]
        for term, value in zip(self.order, rewritten[len(self.items) :], strict=True):
            term.set("this", value)

    def _limit(self) -> None:
        limit = limit_and_offset(self.select)
        if self.distinct_on:
            self._first_of_each(limit)
            return
        if limit is None:
            if self.order:
                refuse_order_alone(self.select.args["order"])
            return
        if self.relation.residuals:
            _refuse_correlated(self.select)
        if self.select.args.get("distinct"):
            return
        partition = [c.inner for c in self.relation.correlations]
        node = top_rows(self.context, self.relation.node, partition, self.order, limit, self.select)
        self.relation = self.relation.over(node)

    def _first_of_each(self, limit: tuple[int, int] | None) -> None:
        """DISTINCT ON (a) … ORDER BY a, b: the first by b of each a."""
        lead = [term.this for term in self.order[: len(self.distinct_on)]]
        if limit is not None or not all(part in self.distinct_on for part in lead):
            raise refusal(
                Reason.UNSUPPORTED,
                "DISTINCT ON needs an ORDER BY that begins with its columns, and no LIMIT",
                self.select.args["distinct"],
                hint="SELECT DISTINCT ON (a) … ORDER BY a, b",
            )
        partition = [*(c.inner for c in self.relation.correlations), *self.distinct_on]
        rest = self.order[len(self.distinct_on) :]
        if not rest:
            _refuse_undecided(self.select)
        self.relation = self.relation.over(
            top_rows(self.context, self.relation.node, partition, rest, (1, 0), self.select)
        )

    def _projected(self) -> Output:
        names = [f"{self.prefix}.{item.name}" if self.prefix else item.name for item in self.items]
        visible: list[Named] = [(name, item.value) for name, item in zip(names, self.items, strict=True)]
        hidden, correlations = self._hidden()
        node: Node = nodes.projected(self.relation.node, [*visible, *hidden])
        distinct = self.select.args.get("distinct")
        if distinct is not None and not self.distinct_on:
            for item in self.items:
                check_key(type_of(item.value), item.ast)
            node = self._limit_distinct(nodes.distinct(node), names, correlations)
        columns = tuple(
            (item.name, item.value if type_of(item.value).family is t.Family.UNKNOWN else column(f))
            for item, f in zip(self.items, node.fields, strict=False)
        )
        return Output(node, columns, correlations, self.relation.residuals)

    def _hidden(self) -> tuple[list[Named], tuple[Correlation, ...]]:
        """Columns that the query around compares with."""
        hidden: dict[str, exp.Expression] = {}
        correlations = []
        for correlation in self.relation.correlations:
            inner = correlation.inner
            name = inner.name if isinstance(inner, exp.Column) else self.context.name(f"{self.prefix}.key")
            hidden[name] = inner
            correlations.append(Correlation(column(field_of(name, inner)), correlation.outer))
        for residual in self.relation.residuals:
            for part in residual.find_all(exp.Column):
                if part.name in self.relation.node.names:
                    hidden[part.name] = part.copy()
        return list(hidden.items()), tuple(correlations)

    def _limit_distinct(self, node: Node, names: list[str], correlations: tuple[Correlation, ...]) -> Node:
        limit = limit_and_offset(self.select)
        if limit is None:
            return node
        places = {item.value: name for item, name in zip(self.items, names, strict=True)}
        for term in self.order:
            if term.this not in places:
                raise refusal(
                    Reason.UNSUPPORTED,
                    "ORDER BY of a DISTINCT names its columns",
                    self.select,
                    hint="select the column",
                )
            term.set("this", column(next(f for f in node.fields if f.name == places[term.this])))
        return top_rows(self.context, node, [c.inner for c in correlations], self.order, limit, self.select)


def _refuse_correlated(at: exp.Expression) -> None:
    raise refusal(
        Reason.SUBQUERY,
        "this correlated subquery is not accepted",
        at,
        hint="correlate by equality only (inner.key = outer.key), or join a subquery with GROUP BY in FROM",
    )


def _refuse_undecided(at: exp.Expression) -> None:
    raise refusal(
        Reason.TIES, "DISTINCT ON does not say which row is first", at, hint="ORDER BY the columns, then what decides"
    )

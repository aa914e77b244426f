"""Which aggregates can be kept from changes alone, and how: a group's state is a few numbers.

    count(*), count(x)       the number of rows, of those where x is not NULL
    count(distinct x)        the values (a multiset by group), and how many different ones there are
    sum(x), avg(x)           the same and the sum, for exact types; floats drift, so they are recomputed
    bool_and(x), bool_or(x)  the same and the number of those that hold
    min(x), max(x)           the values in order (a multiset by group), for types of fixed width; the answer is an end

Each may have a FILTER, and stand inside a larger expression. Everything else is not algebraic: recomputed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from sqlglot import exp

from views.evaluate import evaluate
from views.plan import Aggregate, Field
from views.sql.typed import rewrite, type_of, typed
from views.stages.scope import Scope, numbered
from views.zset import row_schema

_KINDS: Final[dict[type[exp.Expression], str]] = {
    exp.Count: "count",
    exp.Sum: "sum",
    exp.Avg: "avg",
    exp.LogicalAnd: "and",
    exp.LogicalOr: "or",
    exp.Min: "min",
    exp.Max: "max",
}
DIGITS: Final = 38


@dataclass(frozen=True)
class Accumulator:
    """One call of an aggregate function."""

    kind: str
    argument: str
    """DuckDB's SQL over the input's columns; empty for count(*)."""
    condition: str
    """Of the FILTER; empty without."""
    argument_type: pa.DataType
    result_type: str
    """DuckDB's name for what the call gives."""

    @property
    def is_extreme(self) -> bool:
        return self.kind in ("min", "max")

    @property
    def keeps_values(self) -> bool:
        return self.is_extreme or self.kind == "distinct"

    @property
    def value(self) -> str:
        """NULL for the rows that do not count."""
        argument = self.argument or "true"
        return f"CASE WHEN {self.condition} THEN {argument} END" if self.condition else argument

    @property
    def total(self) -> str:
        """What is added up over the rows beside their number, if anything."""
        match self.kind:
            case "sum" | "avg":
                return f"coalesce(CAST({self.value} AS DECIMAL({DIGITS}, {self.total_type.scale})), 0)"
            case "and" | "or":
                return f"CAST(coalesce({self.value}, false) AS BIGINT)"
            case "distinct":
                return "CAST(0 AS BIGINT)"  # added up from the values
        return ""

    @property
    def total_type(self) -> pa.DataType:
        if self.kind in ("and", "or", "distinct"):
            return pa.int64()
        return pa.decimal128(DIGITS, self.argument_type.scale if pa.types.is_decimal(self.argument_type) else 0)

    def result(self, place: int) -> str:
        """From the number of rows n<place> and the total or extreme a<place>."""
        number, total = f"n{place}", f"a{place}"
        match self.kind:
            case "count":
                value = number
            case "sum":
                value = f"CASE WHEN {number} > 0 THEN {total} END"
            case "avg":
                value = f"hw_quotient(CAST({total} AS VARCHAR), CAST(nullif({number}, 0) AS VARCHAR))"
            case "and":
                value = f"CASE WHEN {number} > 0 THEN {total} = {number} END"
            case "or":
                value = f"CASE WHEN {number} > 0 THEN {total} > 0 END"
            case _:
                value = total
        return f"CAST({value} AS {self.result_type})"


@dataclass(frozen=True)
class Accumulated:
    """The aggregates of a node, taken apart."""

    accumulators: tuple[Accumulator, ...]
    results: tuple[exp.Expression, ...]
    """The aggregates' expressions with each call replaced by the column a<n>."""


def accumulated(node: Aggregate) -> Accumulated | None:
    """None where one of the aggregates cannot be kept from changes alone."""
    names: dict[exp.Expression, str] = {}
    found: list[Accumulator | None] = []

    def column(part: exp.Expression) -> exp.Expression | None:
        call = part.this if isinstance(part, exp.Filter) else part
        if type(call) not in _KINDS:
            return None
        if part not in names:
            names[part.copy()] = f"a{len(found)}"
            found.append(_accumulator(part, node.input.fields))
        return typed(exp.column(exp.to_identifier(names[part], quoted=True)), type_of(call))

    results = tuple(rewrite(expression, column) for _, expression in node.aggregates)
    # An aggregate that is not known here still has the columns of its argument.
    unknown = any(c.name not in names.values() for result in results for c in result.find_all(exp.Column))
    accumulators = tuple(accumulator for accumulator in found if accumulator is not None)
    return None if unknown or len(accumulators) < len(found) else Accumulated(accumulators, results)


def _accumulator(call: exp.Expression, fields: Sequence[Field]) -> Accumulator | None:
    function, condition = call, None
    if isinstance(call, exp.Filter):
        function, condition = call.this, call.expression.this
    kind, value = _KINDS[type(function)], function.this
    if isinstance(value, exp.Distinct):
        kind, value = "distinct" if kind == "count" else "", value.expressions[0]
    if not kind or function.expressions or isinstance(value, exp.Order):
        return None
    scope = Scope.of(fields)
    argument = "" if isinstance(value, exp.Star) or value is None else scope.sql(value)
    empty = {"d": numbered(row_schema(fields).empty_table())}
    result_type = evaluate(f"SELECT typeof({scope.sql(call)}) AS r FROM d", empty)["r"][0].as_py()
    argument_type = evaluate(f"SELECT {argument or 'true'} AS a FROM d", empty).schema.types[0]
    if not _is_algebraic(kind, argument_type):
        return None
    return Accumulator(
        kind=kind,
        argument=argument,
        condition="" if condition is None else scope.sql(condition),
        argument_type=argument_type,
        result_type=result_type,
    )


def _is_algebraic(kind: str, argument: pa.DataType) -> bool:
    if kind in ("count", "distinct"):
        return True
    if kind in ("and", "or"):
        return bool(pa.types.is_boolean(argument))
    if kind in ("sum", "avg"):
        return bool(pa.types.is_integer(argument) or pa.types.is_decimal128(argument))
    return bool(pa.types.is_primitive(argument) or pa.types.is_decimal128(argument))

"""The first step: what no view may contain, found before anything is bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from sqlglot import exp

from views.refusals import Reason, refusal


def screen(query: exp.Expr) -> None:
    """Raises ViewRefused at the first one."""
    for node in query.walk():
        check = _CHECKS.get(type(node))
        if check is not None:
            check(node)


def _with(node: exp.Expr) -> None:
    if node.args.get("recursive"):
        raise refusal(
            Reason.RECURSION,
            "WITH RECURSIVE cannot be kept incrementally",
            node,
            hint="keep the path to the root in a column of the table, and filter on that",
        )


def _lateral(node: exp.Expr) -> NoReturn:
    raise refusal(
        Reason.LATERAL,
        "LATERAL is not accepted",
        node,
        hint="a subquery in the select list, or row_number() in a subquery that is joined by its key",
    )


def _select(node: exp.Expr) -> None:
    if node.args.get("locks"):
        raise refusal(Reason.LOCKING, "a view locks no rows", node.args["locks"][0], hint="leave out FOR UPDATE")
    if node.args.get("into"):
        raise refusal(Reason.UNSUPPORTED, "SELECT INTO", node.args["into"], hint="leave out INTO")
    if node.args.get("qualify"):
        raise refusal(
            Reason.UNSUPPORTED, "QUALIFY is not Postgres'", node.args["qualify"], hint="filter outside a subquery"
        )


def _grouping(node: exp.Expr) -> NoReturn:
    raise refusal(
        Reason.GROUPING_SETS,
        "GROUPING SETS, ROLLUP and CUBE are not accepted",
        node,
        hint="one SELECT a grouping, joined by UNION ALL with a constant column that names it",
    )


def _sample(node: exp.Expr) -> NoReturn:
    raise refusal(
        Reason.NOT_DETERMINISTIC, "TABLESAMPLE gives other rows each time", node, hint="filter by a hash in a column"
    )


def _parameter(node: exp.Expr) -> NoReturn:
    raise refusal(
        Reason.UNSUPPORTED, "a view has no parameters", node, hint="write the value, or leave the column in the view"
    )


def _natural(node: exp.Expr) -> None:
    if str(node.args.get("method") or "").upper() == "NATURAL":
        raise refusal(
            Reason.UNSUPPORTED, "NATURAL JOIN changes with the tables' columns", node, hint="JOIN … USING (column)"
        )


def _set_operation(node: exp.Expr) -> NoReturn:
    raise refusal(
        Reason.UNSUPPORTED,
        f"{node.key.upper()} is not accepted",
        node,
        hint="EXISTS or NOT EXISTS with the columns compared",
    )


_CHECKS: Final[dict[type[exp.Expr], Callable[[exp.Expr], None]]] = {
    exp.With: _with,
    exp.Lateral: _lateral,
    exp.Select: _select,
    exp.GroupingSets: _grouping,
    exp.Rollup: _grouping,
    exp.Cube: _grouping,
    exp.TableSample: _sample,
    exp.Parameter: _parameter,
    exp.Placeholder: _parameter,
    exp.Join: _natural,
    exp.Intersect: _set_operation,
    exp.Except: _set_operation,
}

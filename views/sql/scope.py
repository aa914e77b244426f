"""Names: which column a word in the SQL means. Identifiers fold as in Postgres; the nearest source wins. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from cdc.errors import ViewRefused
from views.refusals import Reason, nearest, refusal


def folded(identifier: exp.Expression) -> str:
    """Lower case unless it is quoted."""
    name: str = identifier.name
    return name if identifier.args.get("quoted") else name.lower()


@dataclass(frozen=True)
class Source:
    """What is visible under one alias: its columns in order, each with the expression that it stands for."""

    alias: str
    columns: Mapping[str, exp.Expression]
    schema: str | None = None
    """Of a table that has no alias of its own: public.listings.id is a name, too."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Columns that are there and cannot be carried, with the reason."""

    def check(self, name: str, at: exp.Expression) -> None:
        if name in self.refused:
            raise refusal(
                Reason.TYPE_NOT_CARRIED,
                f'column "{name}" of {self.alias} cannot be carried',
                at,
                detail=self.refused[name],
                hint="leave it out, or add a generated column of another type",
            )


@dataclass(frozen=True)
class Scope:
    sources: tuple[Source, ...] = ()
    merged: Mapping[str, exp.Expression] = field(default_factory=dict)
    """Columns of USING: one column, though two sources have it."""
    outer: Scope | None = None

    def source(self, alias: str) -> Source | None:
        return next((source for source in self.sources if source.alias == alias), None)

    def star(self) -> list[tuple[str, exp.Expression]]:
        """All columns, those of USING first and once."""
        rest = [
            (name, value)
            for source in self.sources
            for name, value in source.columns.items()
            if name not in self.merged
        ]
        return [*self.merged.items(), *rest]

    def resolve(self, column: exp.Column) -> exp.Expression:
        """What the column stands for, here or in the queries around. Raises ViewRefused."""
        name = folded(column.this)
        table = column.args.get("table")
        scope: Scope | None = self
        while scope is not None:
            found = scope._qualified(column, name) if table is not None else scope._bare(column, name)
            if found is not None:
                return found.copy()
            scope = scope.outer
        raise self._unknown(column, name)

    def _bare(self, column: exp.Column, name: str) -> exp.Expression | None:
        if name in self.merged:
            return self.merged[name]
        found = [source for source in self.sources if name in source.columns]
        for source in self.sources if not found else ():
            source.check(name, column)
        if len(found) > 1:
            raise refusal(
                Reason.AMBIGUOUS_COLUMN,
                f'column "{name}" is ambiguous',
                column,
                detail=f"in {', '.join(source.alias for source in found)}",
                hint=f"{found[0].alias}.{name}",
            )
        return found[0].columns[name] if found else None

    def _qualified(self, column: exp.Column, name: str) -> exp.Expression | None:
        alias = folded(column.args["table"])
        schema = column.args.get("db")
        source = self.source(alias)
        if source is None or (schema is not None and source.schema != folded(schema)):
            return None
        source.check(name, column)
        if name not in source.columns:
            hint = nearest(name, source.columns)
            raise refusal(Reason.UNKNOWN_COLUMN, f'no column "{name}" in {alias}', column, hint=hint)
        return source.columns[name]

    def _unknown(self, column: exp.Column, name: str) -> ViewRefused:
        table = column.args.get("table")
        if table is not None:
            hint = nearest(folded(table), self._aliases())
            return refusal(Reason.UNKNOWN_TABLE, f'no table or alias "{folded(table)}" in FROM', column, hint=hint)
        known = {name for scope in self._chain() for source in scope.sources for name in source.columns}
        return refusal(Reason.UNKNOWN_COLUMN, f'no column "{name}"', column, hint=nearest(name, known))

    def _chain(self) -> Iterable[Scope]:
        scope: Scope | None = self
        while scope is not None:
            yield scope
            scope = scope.outer

    def _aliases(self) -> list[str]:
        return [source.alias for scope in self._chain() for source in scope.sources]

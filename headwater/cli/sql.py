"""`headwater sql`: a SELECT over the views in the warehouse, as they are or as they were. Needs no server."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from headwater.cli.output import JsonOption, line, table

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

ROWS_SHOWN_MAX: Final = 1000
_STANDARD_OUTPUT: Final = "-"
_QUOTE: Final = "'"


def register(app: typer.Typer) -> None:
    app.command("sql")(sql)


def sql(
    text: Annotated[str, typer.Argument(metavar="SQL", help="A SELECT, in DuckDB's dialect.")],
    as_of: Annotated[
        str, typer.Option("--as-of", metavar="WHEN", help="An instant, an LSN or a position: rows as they were then.")
    ] = "",
    to_csv: Annotated[str, typer.Option("--csv", metavar="FILE", help="Write CSV; - is standard output.")] = "",
    to_parquet: Annotated[str, typer.Option("--parquet", metavar="FILE", help="Write Parquet.")] = "",
    as_json: JsonOption = False,
) -> None:
    """SQL on the warehouse: VIEW is its rows, VIEW_history its versions with valid_from and valid_to."""
    from headwater.settings import load
    from headwater.warehouse_sql import run_sql

    settings = load()
    found = run_sql(settings.warehouse_folder, settings.source, text, as_of or None)
    if to_parquet:
        _write_parquet(found, to_parquet)
    if to_csv:
        _write_csv(found, to_csv)
    if as_json:
        _print_json(found)
    elif not to_parquet and not to_csv:
        _print(found)


def _print(found: pa.Table) -> None:
    shown = found.slice(0, ROWS_SHOWN_MAX)
    table(found.column_names, texts(shown))
    if found.num_rows > ROWS_SHOWN_MAX:
        line((f"{ROWS_SHOWN_MAX} of {found.num_rows} rows; --csv or --parquet has them all", "dim"), stderr=True)


def _print_json(found: pa.Table) -> None:
    """Numbers keep their digits; instants and bytes are text."""
    import msgspec

    columns = [_values(found, number) for number in range(found.num_columns)]
    rows = [dict(zip(found.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    content = msgspec.json.Encoder(decimal_format="number").encode(rows)
    typer.echo(msgspec.json.format(content, indent=2))


def _values(found: pa.Table, number: int) -> list[Any]:
    import pyarrow as pa

    column = found.column(number)
    if pa.types.is_temporal(column.type) or pa.types.is_binary(column.type):
        # Python's own instants end in the year 9999.
        return [row[0] for row in texts(found.select([number]))]
    return list(column.to_pylist())


def texts(found: pa.Table) -> list[tuple[str | None, ...]]:
    """Every value as DuckDB prints it, NULL as None."""
    names = [f"c{number}" for number in range(found.num_columns)]
    with _registered(found.rename_columns(names)) as db:
        return db.execute("SELECT columns(*)::VARCHAR FROM found").fetchall()


def _write_csv(found: pa.Table, file: str) -> None:
    """NULL is an empty field, an empty text is quoted."""
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "rows.csv") if file == _STANDARD_OUTPUT else Path(file)
        with _writing(file), _registered(found) as db:
            db.execute(f"COPY found TO '{str(made).replace(_QUOTE, _QUOTE * 2)}' (FORMAT csv, HEADER)")
        if file == _STANDARD_OUTPUT:
            typer.echo(made.read_text(encoding="utf-8"), nl=False)


def _write_parquet(found: pa.Table, file: str) -> None:
    import pyarrow.parquet as pq

    with _writing(file):
        pq.write_table(found, file)


@contextmanager
def _registered(found: pa.Table) -> Iterator[duckdb.DuckDBPyConnection]:
    import duckdb

    with duckdb.connect() as db:
        db.execute("SET TimeZone = 'UTC'")
        db.register("found", found)
        yield db


@contextmanager
def _writing(file: str) -> Iterator[None]:
    import duckdb

    from cdc.errors import ConfigurationError

    try:
        yield
    except (OSError, duckdb.Error) as error:
        raise ConfigurationError(f"cannot write {file}", detail=str(error), hint="name another file") from error

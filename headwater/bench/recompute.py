"""The same view from scratch: by Spark over the tables' rows, and by Postgres' own REFRESH MATERIALIZED VIEW."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from psycopg import sql

from cdc.capture import Capture
from cdc.postgres import connect
from headwater.bench.view_workload import TABLES
from views.definition import parse

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_COLUMNS: Final[dict[str, str]] = {
    "regions": "id int, name string",
    "customers": "id bigint, region_id int, name string, vip boolean",
    "orders": "id bigint, customer_id bigint, amount decimal(12,2), state string, note string, placed_at string",
}


def by_spark(spark: SparkSession, capture: Capture, definition: str) -> float:
    """Seconds from the first row read out of Postgres (COPY) to the result written by Spark."""
    (view,) = parse(definition)
    with tempfile.TemporaryDirectory(prefix="headwater-bench-rows-") as folder, connect(capture.postgres) as conn:
        began = time.monotonic()
        for table in TABLES:
            file = Path(folder) / f"{table.name}.csv"
            copied = sql.SQL("copy {} to stdout (format csv)").format(sql.Identifier(table.name))
            with file.open("wb") as out, conn.cursor().copy(copied) as rows:
                for piece in rows:
                    out.write(piece)
            frame = spark.read.csv(str(file), schema=_COLUMNS[table.name])
            frame.createOrReplaceTempView(table.name)
        spark.sql(view.sql).write.mode("overwrite").parquet(f"{folder}/result")
        return time.monotonic() - began


def by_postgres(capture: Capture, definition: str) -> float:
    with connect(capture.postgres) as conn:
        conn.execute(definition.encode())
        (view,) = parse(definition)
        began = time.monotonic()
        conn.execute(sql.SQL("refresh materialized view {}").format(sql.Identifier(view.name)))
        took = time.monotonic() - began
        conn.execute(sql.SQL("drop materialized view {}").format(sql.Identifier(view.name)))
        return took

"""The functions that views may call: only those that give the same in DuckDB as in Postgres, for the same values.

Each has a rule: how its call is typed, and how DuckDB spells it. Most are lines of table.py; those whose type follows
from their arguments' are in the module of their subject. A function that is in none of them is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from views.sql.functions.arrays import RULES as ARRAYS
from views.sql.functions.conditionals import RULES as CONDITIONALS
from views.sql.functions.documents import RULES as DOCUMENTS
from views.sql.functions.instants import RULES as INSTANTS
from views.sql.functions.numbers import RULES as NUMBERS
from views.sql.functions.rule import Render, Rule
from views.sql.functions.table import RULES as TABLE

RULES: Final[Mapping[str, Rule]] = {
    **TABLE,
    **CONDITIONALS,
    **NUMBERS,
    **INSTANTS,
    **ARRAYS,
    **DOCUMENTS,
}

NOT_DETERMINISTIC: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        (
            *("now", "clock_timestamp", "statement_timestamp", "transaction_timestamp", "timeofday", "age"),
            *("current_timestamp", "current_date", "current_time", "localtimestamp", "localtime", "currentdatetime"),
        ),
        "compare with a column that holds a time; a view changes only when its tables do",
    ),
    **dict.fromkeys(
        ("random", "random_normal", "gen_random_uuid", "uuid_generate_v4", "uuidv4", "uuidv7", "setseed"),
        "keep the value in a column of the table",
    ),
    **dict.fromkeys(("nextval", "currval", "lastval", "setval"), "keep the number in a column of the table"),
    **dict.fromkeys(
        (
            *("current_user", "session_user", "current_role", "user", "current_schema", "current_catalog"),
            *("current_setting", "pg_backend_pid", "txid_current", "pg_current_xact_id", "inet_client_addr", "version"),
        ),
        "a view is the same for everybody: leave it out",
    ),
}
"""By name, with what to do instead."""

SET_RETURNING: Final = frozenset(
    {
        *("unnest", "generate_series", "generate_subscripts", "regexp_split_to_table", "string_to_table"),
        *("json_array_elements", "jsonb_array_elements", "json_each", "jsonb_each", "json_object_keys"),
        *("jsonb_object_keys", "json_array_elements_text", "jsonb_array_elements_text", "json_each_text"),
        *("jsonb_each_text", "json_to_recordset", "jsonb_to_recordset", "jsonb_path_query", "regexp_matches"),
    }
)

__all__ = ["NOT_DETERMINISTIC", "RULES", "SET_RETURNING", "Render", "Rule"]

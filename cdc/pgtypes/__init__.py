"""Every Postgres type a user has: from the log's JSON to an exact Python value, and its Arrow type.

    smallint, integer, bigint, oid   int                 bytea                  bytes
    numeric, money                   Decimal             uuid                   uuid.UUID
    real, double precision           float               bit(n)                 str of 0 and 1
    boolean                          bool                hstore                 dict of str or None
    date                             Date (days)         a composite            dict by field
    timestamp, timestamptz           Timestamp, -Tz (µs) an array               list
    time                             Time (µs)           json, jsonb, xml, enum, inet, ranges, shapes, tsvector and
    interval                         Interval            all else               str, as Postgres prints it

In Arrow they are what their names say, except: time is int64 (time64 ends before 24:00), numeric without precision is
text, and NaN and the infinities of a numeric with precision are refused (Arrow's decimals have none).
json stays text, because parsing it would lose digits and double keys. `limits` says what Debezium cannot carry.
"""

from __future__ import annotations

from cdc.pgtypes.instants import Date, Interval, Time, Timestamp, TimestampTz
from cdc.pgtypes.limits import BREAKING_TYPES, full_identity_reason, unsupported_reason
from cdc.pgtypes.types import FieldSpec, PgType, TypeSpec, pg_type

__all__ = [
    "BREAKING_TYPES",
    "Date",
    "FieldSpec",
    "Interval",
    "PgType",
    "Time",
    "Timestamp",
    "TimestampTz",
    "TypeSpec",
    "full_identity_reason",
    "pg_type",
    "unsupported_reason",
]

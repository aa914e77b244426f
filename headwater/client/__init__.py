"""Reading views from Python, over HTTP: rows, searches, changes; typed, for programs with and without asyncio.

    with Client("http://127.0.0.1:8321", api_key="hw_…") as client:
        row = client.get("listing_card", 7)
        for change in client.changes("listing_card", after=last_id):
            …

asking (what to send, how to read the answer) and retries (whether to try again) are pure and shared; sync and aio only
talk. Imports nothing of the engine: a web application that reads needs httpx and no more.
"""

from cdc.errors import ConfigurationError, HeadwaterError
from headwater.client.aio import AsyncClient
from headwater.client.failures import (
    ApiError,
    BadRequest,
    Forbidden,
    NotFound,
    NotYet,
    TimedOut,
    TooMany,
    Unauthorized,
    Unavailable,
    Unreachable,
)
from headwater.client.retries import Patience
from headwater.client.sync import Client
from headwater.client.tokens import token_of
from headwater.client.values import Change, Freshness, Hit, Page, Row, View

__all__ = [
    "ApiError",
    "AsyncClient",
    "BadRequest",
    "Change",
    "Client",
    "ConfigurationError",
    "Forbidden",
    "Freshness",
    "HeadwaterError",
    "Hit",
    "NotFound",
    "NotYet",
    "Page",
    "Patience",
    "Row",
    "TimedOut",
    "TooMany",
    "Unauthorized",
    "Unavailable",
    "Unreachable",
    "View",
    "token_of",
]

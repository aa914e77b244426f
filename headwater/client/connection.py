"""Where the server is and how to speak to it: what both clients are made with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from headwater import __version__
from headwater.client.retries import Patience

URL: Final = "http://127.0.0.1:8321"
TIMEOUT_S: Final = 10.0


@dataclass(frozen=True, slots=True)
class Options:
    url: str
    api_key: str | None = field(repr=False)
    timeout_s: float
    """Of one request, beyond what the server waits for a token."""
    patience: Patience
    exact_numbers: bool

    def given(self) -> dict[str, Any]:
        """As httpx takes it."""
        key = {} if self.api_key is None else {"Authorization": f"Bearer {self.api_key}"}
        return {"base_url": self.url, "headers": {"User-Agent": f"headwater-client/{__version__}", **key}}

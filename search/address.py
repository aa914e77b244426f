"""Where Elasticsearch is, and a client for it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
from elasticsearch import Elasticsearch
from elasticsearch.serializer import CompatibilityModeJsonSerializer

REQUEST_TIMEOUT_S: Final = 30.0


class _Json(CompatibilityModeJsonSerializer):
    """Answers are read by msgspec: one to a bulk request has a line for each of its rows."""

    def json_loads(self, data: bytes) -> Any:
        return msgspec.json.decode(data)


@dataclass(frozen=True, slots=True)
class ElasticsearchAddress:
    url: str
    user: str = ""
    password: str = field(default="", repr=False)
    api_key: str = field(default="", repr=False)
    ca_file: str = ""

    def client(self, request_timeout_s: float = REQUEST_TIMEOUT_S) -> Elasticsearch:
        """Never retries by itself: who writes decides what is sent again, and when."""
        options: dict[str, Any] = {"request_timeout": request_timeout_s, "max_retries": 0, "retry_on_timeout": False}
        if self.api_key:
            options["api_key"] = self.api_key
        elif self.user:
            options["basic_auth"] = (self.user, self.password)
        if self.ca_file:
            options["ca_certs"] = self.ca_file
        return Elasticsearch(self.url, serializers={_Json.mimetype: _Json()}, **options)

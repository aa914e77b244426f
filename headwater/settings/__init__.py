"""Settings: headwater.toml and HEADWATER_* as one frozen value. Other modules take `Settings`; none reads the file."""

from headwater.settings.load import FILE_NAME, FILE_VARIABLE, Loaded, load, load_with_origins
from headwater.settings.model import Settings
from headwater.settings.postgres import PostgresSettings
from headwater.settings.runtime import (
    ApiSettings,
    CaptureSettings,
    HttpSettings,
    LogSettings,
    SparkSettings,
    StackSettings,
)
from headwater.settings.servers import ConnectSettings, ElasticsearchSettings, KafkaSettings, RedisSettings

__all__ = [
    "FILE_NAME",
    "FILE_VARIABLE",
    "ApiSettings",
    "CaptureSettings",
    "ConnectSettings",
    "ElasticsearchSettings",
    "HttpSettings",
    "KafkaSettings",
    "Loaded",
    "LogSettings",
    "PostgresSettings",
    "RedisSettings",
    "Settings",
    "SparkSettings",
    "StackSettings",
    "load",
    "load_with_origins",
]

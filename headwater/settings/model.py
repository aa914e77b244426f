"""The settings as one frozen value. Nothing here reads a file or the environment: see load.py."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field
from pydantic_settings import BaseSettings, NoDecode, PydanticBaseSettingsSource, SettingsConfigDict

from cdc.addresses import PostgresAddress, Source
from headwater.settings.alerts import AlertsSettings
from headwater.settings.base import PATH
from headwater.settings.delivery import DeliverySettings, MailSettings, WebhookSettings
from headwater.settings.postgres import PostgresSettings
from headwater.settings.runtime import (
    ApiSettings,
    CaptureSettings,
    HttpSettings,
    LogSettings,
    RebuildSettings,
    SparkSettings,
    StackSettings,
    VerifySettings,
    ViewsSettings,
    WarehouseSettings,
)
from headwater.settings.servers import ConnectSettings, ElasticsearchSettings, KafkaSettings, RedisSettings
from headwater.settings.site import SiteSettings

ENV_PREFIX: Final = "HEADWATER_"
ENV_DELIMITER: Final = "__"
_TABLE: Final = re.compile(r'^[^.\s*"]+\.([^.\s*"]+|\*)$')


def _listed(value: object) -> object:
    """The environment has only text: patterns separated by commas."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return value


def _tables(patterns: tuple[str, ...]) -> tuple[str, ...]:
    if not all(_TABLE.match(pattern) for pattern in patterns):
        raise ValueError("must be patterns like schema.table or schema.*")
    if len(set(patterns)) != len(patterns):
        raise ValueError("must not name a pattern twice")
    return patterns


Tables = Annotated[
    tuple[str, ...], NoDecode, BeforeValidator(_listed), Field(min_length=1, max_length=10_000), AfterValidator(_tables)
]


class Settings(BaseSettings):
    """Everything that can be set. `Settings()` has the defaults alone; `load` adds the file and the environment."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX,
        env_nested_delimiter=ENV_DELIMITER,
        env_ignore_empty=True,
        extra="forbid",
        frozen=True,
        hide_input_in_errors=True,
    )

    source: str = Field(
        default="demo",
        pattern=r"^[a-z][a-z0-9_]{0,39}$",
        description="The captured database's name: it names the slot, the publication and the topics",
    )
    tables: Tables = Field(
        default=("public.*",),
        description="What to capture: schema.table or schema.*; in the environment separated by commas",
    )
    data_folder: Annotated[Path, PATH] = Field(
        default=Path(".headwater"), description="Data, logs and generated passwords of the embedded servers"
    )
    postgres: PostgresSettings = Field(default=PostgresSettings())
    kafka: KafkaSettings = Field(default=KafkaSettings())
    connect: ConnectSettings = Field(default=ConnectSettings())
    elasticsearch: ElasticsearchSettings = Field(default=ElasticsearchSettings())
    redis: RedisSettings = Field(default=RedisSettings())
    spark: SparkSettings = Field(default=SparkSettings())
    capture: CaptureSettings = Field(default=CaptureSettings())
    views: ViewsSettings = Field(default=ViewsSettings())
    verify: VerifySettings = Field(default=VerifySettings())
    rebuild: RebuildSettings = Field(default=RebuildSettings())
    stack: StackSettings = Field(default=StackSettings())
    log: LogSettings = Field(default=LogSettings())
    http: HttpSettings = Field(default=HttpSettings())
    warehouse: WarehouseSettings = Field(default=WarehouseSettings())
    api: ApiSettings = Field(default=ApiSettings())
    delivery: DeliverySettings = Field(default=DeliverySettings())
    webhook: WebhookSettings = Field(default=WebhookSettings())
    mail: MailSettings = Field(default=MailSettings())
    alerts: AlertsSettings = Field(default=AlertsSettings())
    site: SiteSettings = Field(default=SiteSettings())

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Only what is passed in: a value must not depend on where it is made."""
        return (init_settings,)

    @property
    def named_source(self) -> Source:
        return Source(self.source)

    @property
    def logs_folder(self) -> Path:
        return self.data_folder / "logs"

    @property
    def views_state(self) -> Path:
        """Where the state of views is kept, and which are wanted."""
        return self.data_folder / "views"

    @property
    def alerts_folder(self) -> Path:
        """Many saved searches, ready to be matched. It may be deleted: it is made anew."""
        return self.data_folder / "alerts"

    @property
    def warehouse_folder(self) -> Path:
        """Delta tables."""
        return Path(self.warehouse.folder) if self.warehouse.folder else self.data_folder / "warehouse"

    def capture_address(self) -> PostgresAddress | None:
        """The database as Debezium reaches it: as the capture role, at the address Connect sees; None when embedded."""
        address = self.postgres.capture_address()
        if address is None:
            return None
        host, port = self.connect.postgres_host or address.host, self.connect.postgres_port or address.port
        return replace(address, host=host, port=port)

"""The process that keeps the views: `headwater maintain`, a child of `headwater up`.

A process of its own: it has a JVM and Spark's workers under it, and may be killed at any moment. What passes by itself
(Kafka restarts, a query that failed) is tried again from here, with a growing pause; what does not ends it.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

from cdc.archive import ArchiveReader
from cdc.errors import ConfigurationError, HeadwaterError, StateFenced
from headwater.deployment import Deployment
from headwater.events_log import get_log
from headwater.settings import Settings
from headwater.sinks import sink_kinds
from headwater.views.checking import check_apart, check_computed_apart
from views.maintain.maintainer import Limits, Maintainer
from views.maintain.registry import Registry


def limits(settings: Settings) -> Limits:
    wanted = settings.views
    return Limits(
        records_per_epoch_max=wanted.records_per_epoch_max,
        build_records_per_epoch_max=wanted.build_records_per_epoch_max,
        shards=wanted.shards,
        hold_s_max=wanted.hold_ms_max / 1000,
        copy_interval_s=float(wanted.copy_interval_s),
        durable=wanted.durable,
        rebuild_lag_ms_max=float(settings.rebuild.live_lag_ms_max),
        keep_standby_s=float(settings.rebuild.keep_standby_s),
    )


@dataclass(frozen=True, slots=True)
class Maintenance:
    deployment: Deployment
    stop: threading.Event
    begun: threading.Event
    """Set when there is something to stop."""

    def __call__(self) -> None:
        """Blocks until `stop` is set. Raises what no second try would cure."""
        from headwater.spark import session

        settings = self.deployment.settings
        if not settings.spark.master.startswith("local"):
            raise ConfigurationError(
                "views are kept on the driver's machine",
                detail=f"spark.master is {settings.spark.master}: the workers would not find the state",
                hint="set spark.master to local[N]",
            )
        log = get_log("maintain")
        spark = session(
            master=settings.spark.master,
            driver_memory_mb=settings.spark.driver_memory_mb,
            extra=settings.spark.properties(),
        )
        self.begun.set()
        pause_s = settings.views.restart_backoff_ms / 1000
        try:
            while not self.stop.is_set():
                try:
                    maintainer = self._maintainer(spark)
                    if maintainer.set_aside is not None:
                        log.error("the book could not be read", set_aside=str(maintainer.set_aside))
                    maintainer.run()
                except StateFenced:
                    raise
                except HeadwaterError as error:
                    log.warning("views interrupted", fact=error.fact, detail=error.detail, again_in_s=pause_s)
                    self.stop.wait(pause_s)
                    pause_s = min(pause_s * 2, settings.views.restart_backoff_max_ms / 1000)
        finally:
            spark.stop()

    def _maintainer(self, spark: object) -> Maintainer:
        settings = self.deployment.settings
        registry = Registry(settings.views_state)
        return Maintainer(
            spark,  # type: ignore[arg-type]
            self.deployment.kafka,
            self.deployment.source,
            registry,
            limits(settings),
            sink_kinds(self.deployment),
            self.stop,
            ArchiveReader(self.deployment.source, settings.warehouse_folder) if settings.warehouse.archive else None,
            check_apart,
            check_computed_apart,
        )

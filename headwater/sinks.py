"""The places that views can be written to, as the deployment has them. A new sink is one line here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from alerts.sink import AlertKind
from headwater.deployment import Deployment
from search.index import define
from search.sink import ElasticsearchKind
from views.sinks.cache import CacheKind, check_shape
from views.sinks.sink import SinkKind, ViewShape
from views.sinks.warehouse import WarehouseKind
from views.sinks.warehouse_types import Layout

CHECKS: Final[Mapping[str, Callable[[ViewShape], object]]] = {
    "cache": check_shape,
    "search": define,
    "warehouse": Layout.of,
    "alerts": define,
}
"""By sink, what raises for a view that it cannot hold as it is declared."""


def sink_kinds(deployment: Deployment) -> Mapping[str, SinkKind]:
    settings = deployment.settings
    kinds: list[SinkKind] = [
        CacheKind(deployment.redis),
        ElasticsearchKind(deployment.elasticsearch),
        WarehouseKind(str(settings.warehouse_folder.absolute()), float(settings.warehouse.interval_s)),
        AlertKind(deployment.postgres, deployment.kafka, settings.alerts_folder.absolute(), settings.alerts.window_s),
    ]
    return {kind.name: kind for kind in kinds}

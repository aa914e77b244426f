"""Sweeps over the views that have alerts: what the command line and the service share."""

from __future__ import annotations

from collections.abc import Sequence

from alerts.sweep import CHANGES_MAX, Sweep, Swept
from cdc.errors import ConfigurationError
from headwater.api.shapes import Shapes
from headwater.deployment import Deployment
from headwater.known_views import ALERTS
from views.maintain.publisher import view_topic
from views.maintain.registry import Registry, ViewState
from views.sinks.following import ViewTopic


def sweep(deployment: Deployment, views: Sequence[str] = (), changes_max: int = CHANGES_MAX) -> list[Swept]:
    """These views, or all that are live and have alerts."""
    registry = Registry(deployment.settings.views_state)
    shapes = Shapes(registry, deployment.source)
    live = [name for name, status in registry.state().views.items() if status.state is ViewState.LIVE]
    known = sorted(name for name in live if shapes.has(name, ALERTS))
    for view in views:
        if view not in known:
            raise ConfigurationError(
                f"view {view} has no alerts",
                detail=f"those that have: {', '.join(known) or 'none'}",
                hint="headwater views",
            )
    return [
        Sweep(
            deployment.postgres,
            deployment.kafka,
            deployment.source,
            ViewTopic(deployment.kafka, view_topic(deployment.source, view)),
            shapes.shape(view),
        )(changes_max)
        for view in views or known
    ]

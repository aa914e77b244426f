"""The channels that a deployment has, by the name that subscriptions use. A new channel is one line here."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Final

from alerts.channels.channel import Channel
from alerts.channels.feed import Feed, Waker
from alerts.channels.mail import CONVERSATIONS_MAX, Mail
from alerts.channels.mail_message import Sender
from alerts.channels.mail_server import MailServer
from alerts.channels.public_addresses import AddressPolicy
from alerts.channels.topic import Topic
from alerts.channels.webhook import Webhook, WebhookLimits
from alerts.delivery.endpoints import DeliveryLimits
from cdc.kafka import producer
from cdc.topics import ensure_topic, find_topic
from headwater.deployment import Deployment
from headwater.settings import Settings

DAY_S: Final = 86_400.0
LEASED_ATTEMPTS: Final = 10
"""A lease is as long as so many attempts: what is claimed may wait for others before it is tried."""


def channels(deployment: Deployment, waker: Waker) -> Mapping[str, Channel]:
    """`waker` wakes whoever listens to a web feed."""
    made: list[Channel] = [
        webhook(deployment.settings),
        Feed(waker),
        topic(deployment),
        *mail(deployment.settings),
    ]
    return {channel.name: channel for channel in made}


def topic(deployment: Deployment) -> Topic:
    kafka, name = deployment.kafka, deployment.source.alerts_topic
    return Topic(producer(kafka), name, lambda: find_topic(kafka, name) or ensure_topic(kafka, name))


def webhook(settings: Settings) -> Webhook:
    wanted = settings.webhook
    policy = AddressPolicy(wanted.listed_ports(), wanted.listed_openings())
    return Webhook(policy, WebhookLimits(request_s=float(wanted.timeout_s)))


def mail(settings: Settings) -> list[Mail]:
    """None when no mail server was named."""
    wanted = settings.mail
    if not wanted.host:
        return []
    server = MailServer(
        wanted.host,
        wanted.port,
        wanted.security,
        wanted.user,
        wanted.password.get_secret_value(),
        float(wanted.timeout_s),
        ssl.create_default_context(cafile=wanted.ca_file) if wanted.ca_file else None,
    )
    return [Mail(server, Sender(wanted.sender, wanted.sender_name))]


def delivery_limits(settings: Settings) -> DeliveryLimits:
    wanted = settings.delivery
    return DeliveryLimits(
        attempts_max=wanted.attempts_max,
        untried_attempts_max=wanted.untried_attempts_max,
        failing_attempts_max=wanted.failing_attempts_max,
        endpoint_attempts_max=wanted.endpoint_attempts_max,
        claimed_max=5 * wanted.attempts_max,
        channel_attempts_max={"email": CONVERSATIONS_MAX},
        attempt_s=float(wanted.attempt_timeout_s),
        lease_s=max(DeliveryLimits().lease_s, LEASED_ATTEMPTS * wanted.attempt_timeout_s),
        failing_s_max={"webhook": days * DAY_S} if (days := settings.webhook.disable_after_days) else {},
    )

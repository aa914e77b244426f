"""The sections about delivery, and the channels that come of them."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from cdc.errors import ConfigurationError
from headwater.channels import delivery_limits, mail, webhook
from headwater.settings import load

MAIL = {"HEADWATER_MAIL__HOST": "mail.example", "HEADWATER_MAIL__SENDER": "us@example.org"}


def test_defaults_reach_nothing_inside_and_send_no_mail() -> None:
    settings = load(environ={})
    assert webhook(settings).policy.openings == ()
    assert webhook(settings).policy.ports == (443,)
    assert mail(settings) == []
    limits = delivery_limits(settings)
    assert limits.attempt_s > settings.webhook.timeout_s
    assert limits.lease_s > 2 * limits.attempt_s


def test_openings_and_ports() -> None:
    environ = {"HEADWATER_WEBHOOK__OPENINGS": "127.0.0.1:9000, [::1]:*", "HEADWATER_WEBHOOK__PORTS": "443, 8443"}
    policy = webhook(load(environ=environ)).policy
    assert [str(opening.network) for opening in policy.openings] == ["127.0.0.1/32", "::1/128"]
    assert policy.ports == (443, 8443)


def test_a_mail_server() -> None:
    environ = {**MAIL, "HEADWATER_MAIL__USER": "us", "HEADWATER_MAIL__PASSWORD": "hush"}
    (channel,) = mail(load(environ=environ))
    assert (channel.server.host, channel.server.port, channel.server.security) == ("mail.example", 587, "starttls")
    assert channel.server.password == "hush"
    assert "hush" not in repr(channel)


@pytest.mark.parametrize(
    ("environ", "said"),
    [
        ({"HEADWATER_WEBHOOK__OPENINGS": "localhost:1"}, "webhook.openings"),
        ({"HEADWATER_WEBHOOK__PORTS": "https"}, "webhook.ports"),
        ({"HEADWATER_MAIL__HOST": "mail.example"}, "mail.sender is missing"),
        ({"HEADWATER_MAIL__SENDER": "us@example.org"}, "mail.host is missing"),
        ({**MAIL, "HEADWATER_MAIL__SENDER": "Us <us@example.org>"}, "mail.sender"),
        ({**MAIL, "HEADWATER_MAIL__PASSWORD": "hush"}, "go together"),
        ({**MAIL, "HEADWATER_MAIL__SENDER_NAME": "a\nBcc: b"}, "mail.sender_name"),
    ],
    ids=str,
)
def test_what_is_refused(environ: Mapping[str, str], said: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load(environ=environ)
    assert said in str(refused.value)
    assert "hush" not in str(refused.value)

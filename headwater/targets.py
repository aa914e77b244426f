"""Whether an owner can be told there: what the channel itself would refuse is said when a search is saved."""

from __future__ import annotations

from collections.abc import Callable

from alerts.channels.mail_message import checked_address
from alerts.channels.webhook import checked_url
from alerts.saved_search import Wish
from cdc.errors import ConfigurationError
from headwater.channels import webhook
from headwater.settings import Settings


def target_check(settings: Settings) -> Callable[[Wish], None]:
    """Raises TargetRefused, and ConfigurationError for mail where no server sends any. Asks nobody."""
    policy = webhook(settings).policy

    def check(wish: Wish) -> None:
        if wish.channel == "webhook":
            checked_url(wish.target, policy)
        if wish.channel == "email":
            if not settings.mail.host:
                raise ConfigurationError("no mail is sent from here", hint="set mail.host and mail.sender")
            checked_address(wish.target)

    return check

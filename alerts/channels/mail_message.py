"""A notification as one mail: text and HTML, a Message-ID that is the same at every attempt, one-click unsubscribing.

Pure. Header injection is impossible: addresses are checked against a narrow form, every header is set through the
standard library's policy, which refuses line breaks, and what others wrote holds no encoded words (RFC 2047). The
library would decode those, and some versions of it write a line break that was encoded as one (CVE-2024-6923).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email.headerregistry import Address, BaseHeader, HeaderRegistry, UnstructuredHeader
from email.message import EmailMessage
from email.policy import SMTP, Policy
from typing import Any, Final

from alerts.channels.channel import TargetRefused
from alerts.notification import Notification
from alerts.notification_html import as_html
from alerts.notification_text import as_text
from alerts.notification_words import subject

ADDRESS_CHARACTERS_MAX: Final = 254
LOCAL_CHARACTERS_MAX: Final = 64
_LOCAL: Final = re.compile(r"(?!.*=\?)[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_LABEL: Final = r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN: Final = re.compile(rf"{_LABEL}(\.{_LABEL})+")
_URL: Final = re.compile(r"https?://[!-;=?-~]{1,900}")
"""Printable ASCII without < and >: it stands between them, on one line, which may have 998 characters."""


class _Link(UnstructuredHeader, BaseHeader):
    """Kept and written as it is: who reads it takes what stands between < and > as the address, and an address that
    was folded or encoded because it is long is another one."""

    @classmethod
    def parse(cls, value: str, kwds: dict[str, Any]) -> None:
        super().parse(value, kwds)
        kwds["decoded"] = value

    def fold(self, *, policy: Policy) -> str:
        return f"{self.name}: {self}{policy.linesep}"


_HEADERS: Final = HeaderRegistry()
_HEADERS.map_to_type("list-unsubscribe", _Link)
_POLICY: Final = SMTP.clone(cte_type="7bit", header_factory=_HEADERS)
"""Seven bits: every server takes it."""


@dataclass(frozen=True, slots=True)
class Sender:
    address: str
    name: str = "Headwater"

    @property
    def domain(self) -> str:
        return self.address.rpartition("@")[2]


def checked_address(text: str) -> str:
    """One mail address in its plain form; no names, quotes, comments or lists. Raises TargetRefused."""
    local, at, domain = text.rpartition("@")
    fits = len(text) <= ADDRESS_CHARACTERS_MAX and len(local) <= LOCAL_CHARACTERS_MAX
    if not (at and fits and _LOCAL.fullmatch(local) and _DOMAIN.fullmatch(domain)):
        raise TargetRefused("not a mail address", hint="write it as ada@example.org, without a name")
    return text


def message_id(notification: Notification, sender: Sender) -> str:
    """A mail that is sent again is the same mail, and readers that have it show it once."""
    return f"<{notification.id}@{sender.domain}>"


def _as_words(text: str) -> str:
    """Without the beginning of an encoded word."""
    return text.replace("=?", "= ?")


def message(notification: Notification, to: str, sender: Sender) -> EmailMessage:
    """`to` was checked."""
    mail = EmailMessage(policy=_POLICY)
    mail["From"] = Address(_as_words(sender.name), addr_spec=sender.address)
    mail["To"] = Address(addr_spec=to)
    mail["Subject"] = _as_words(subject(notification))
    mail["Date"] = notification.created_at
    mail["Message-ID"] = message_id(notification, sender)
    mail["Auto-Submitted"] = "auto-generated"
    if _URL.fullmatch(notification.unsubscribe_url):
        mail["List-Unsubscribe"] = f"<{notification.unsubscribe_url}>"
        if notification.unsubscribe_url.startswith("https://"):
            mail["List-Unsubscribe-Post"] = "List-Unsubscribe=One-Click"  # only https is one-click (RFC 8058)
    mail.set_content(as_text(notification))
    mail.add_alternative(as_html(notification), subtype="html")
    return mail

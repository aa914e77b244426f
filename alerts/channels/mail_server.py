"""One conversation with an SMTP server, and what its answers mean. It blocks: mail.py calls it on a thread.

A 5xx to RCPT that speaks of the address is a bounce: it takes no mail, now or later. Servers say there, too, what they
think of us (our sender, our network, that they do not relay), which closes nobody's address. A 5xx to the content is
about this mail alone. 4xx and everything around the connection is for another time: the server's troubles are not the
owner's.
"""

from __future__ import annotations

import re
import smtplib
import ssl
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Final, Literal

from alerts.channels.channel import Delivered, Gone, Outcome, Refused, Retry

Security = Literal["none", "starttls", "tls"]
_REASON_CHARACTERS_MAX: Final = 200
_ENHANCED: Final = re.compile(rb"^\s*([245]\.\d{1,3}\.\d{1,3})\b")
_NO_SUCH_ADDRESS: Final = ("5.1.1", "5.1.2", "5.1.3", "5.1.6", "5.1.10", "5.2.1")
"""RFC 3463 and 7505: no such mailbox or domain, not an address, moved, takes no mail at all, switched off."""
_ABOUT_US: Final = re.compile(rb"relay|sender|client|helo|block|denied|spam|polic|listed|reputation|authenti|rbl", re.I)


@dataclass(frozen=True, slots=True)
class MailServer:
    host: str
    port: int
    security: Security = "starttls"
    user: str = ""
    password: str = field(default="", repr=False)
    timeout_s: float = 15.0
    """Of each step of the conversation."""
    context: ssl.SSLContext | None = field(default=None, repr=False)
    """None: the system's authorities, and the server's own name."""


def send(server: MailServer, mail: EmailMessage, sender: str, to: str) -> Outcome:
    """One attempt. Never falls back to plain text where TLS was asked for."""
    try:
        connection = _connected(server)
    except smtplib.SMTPAuthenticationError as error:
        return Retry(f"the mail server refused the login: {error.smtp_code}")
    except (smtplib.SMTPException, OSError, ValueError) as error:
        return Retry(f"the mail server cannot be used: {type(error).__name__}")
    try:
        return _converse(connection, mail, sender, to)
    except (smtplib.SMTPException, OSError, ValueError) as error:
        return Retry(f"the mail server cannot be used: {type(error).__name__}")
    finally:
        # What was said counts: a server that does not take leave does not undo it.
        with suppress(smtplib.SMTPException, OSError):
            connection.quit()
        connection.close()


def _connected(server: MailServer) -> smtplib.SMTP:
    context = server.context or ssl.create_default_context()
    if server.security == "tls":
        connection: smtplib.SMTP = smtplib.SMTP_SSL(server.host, server.port, timeout=server.timeout_s, context=context)
    else:
        connection = smtplib.SMTP(server.host, server.port, timeout=server.timeout_s)
    try:
        if server.security == "starttls":
            connection.starttls(context=context)
        if server.user:
            connection.login(server.user, server.password)
    except BaseException:
        connection.close()
        raise
    return connection


def _converse(connection: smtplib.SMTP, mail: EmailMessage, sender: str, to: str) -> Outcome:
    connection.ehlo_or_helo_if_needed()
    code, said = connection.mail(sender)
    if code != 250:
        return Retry(_reason("the sender was not taken", code, said))  # our own settings: no fault of the owner's
    code, said = connection.rcpt(to)
    if code not in (250, 251):
        return recipient_refused(code, said)
    try:
        code, said = connection.data(mail.as_bytes())
    except smtplib.SMTPDataError as error:
        code, said = error.smtp_code, error.smtp_error if isinstance(error.smtp_error, bytes) else b""
    return Delivered() if code == 250 else content_refused(code, said)


def recipient_refused(code: int, said: bytes) -> Outcome:
    """A bounce only if it says that there is no such address: one closes the address to everybody."""
    reason, enhanced = _reason("the address was not taken", code, said), _enhanced(said)
    if not _is_permanent(code, enhanced):
        return Retry(reason)
    is_said = enhanced in _NO_SUCH_ADDRESS if enhanced else code in (550, 551) and not _ABOUT_US.search(said)
    return Gone(reason) if is_said else Refused(reason)


def content_refused(code: int, said: bytes) -> Outcome:
    reason = _reason("the mail was not taken", code, said)
    return Refused(reason) if _is_permanent(code, _enhanced(said)) else Retry(reason)


def _is_permanent(code: int, enhanced: str) -> bool:
    return 500 <= code < 600 and code != 552 and enhanced != "5.2.2"


def _enhanced(said: bytes) -> str:
    """The enhanced status (RFC 3463) before the words; empty when there is none."""
    found = _ENHANCED.match(said)
    return found[1].decode() if found else ""


def _reason(fact: str, code: int, said: bytes) -> str:
    words = " ".join(said.decode("utf-8", "replace").split())
    return f"{fact}: {code} {words}"[:_REASON_CHARACTERS_MAX]

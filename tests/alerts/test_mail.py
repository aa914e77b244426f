"""Mail over real sockets on loopback: what is sent, and what each answer of a server means."""

from __future__ import annotations

import asyncio
import ssl
from dataclasses import replace
from email.headerregistry import Address
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alerts.channels.channel import Delivered, Gone, Outcome, Refused, Retry, Target, TargetRefused
from alerts.channels.mail import Mail
from alerts.channels.mail_message import Sender, checked_address, message
from alerts.channels.mail_server import MailServer, content_refused, recipient_refused
from alerts.notification import Event, Item, MatchedSearch, Notification
from headwater.demo.mail_catcher import MailCatcher
from tests.alerts.samples import item, notification

TLS = Path(__file__).parent / "tls"
SENDER = Sender("alerts@headwater.example", "Headwater für alle")
ADA = Target("e1", "email", "ada@example.org")


def sent(told: Notification | None = None, target: Target = ADA, **how: Any) -> tuple[Outcome, MailCatcher]:
    """`how` are the catcher's own fields, and `server` what differs on our side."""

    async def send() -> tuple[Outcome, MailCatcher]:
        ours = how.pop("server", {})
        async with MailCatcher(**how) as catcher:
            server = replace(MailServer("127.0.0.1", catcher.port, "none", timeout_s=5.0), **ours)
            channel = Mail(server, SENDER)
            outcome = await channel.deliver(told or notification(), target)
            await channel.close()
            return outcome, catcher

    return asyncio.run(send())


def server_side() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(TLS / "certificate.pem", TLS / "key.pem")
    return context


def client_side() -> ssl.SSLContext:
    """Trusts the tests' certificate; its name is not that of loopback, so that is not compared."""
    context = ssl.create_default_context(cafile=str(TLS / "certificate.pem"))
    context.check_hostname = False
    return context


class TestWhatIsSent:
    def test_text_and_html_under_stable_headers(self) -> None:
        outcome, catcher = sent()
        assert outcome == Delivered()
        caught = catcher.caught[0]
        assert (caught.sender, caught.to) == ("alerts@headwater.example", ("ada@example.org",))
        mail = caught.mail
        assert mail["Message-ID"] == "<msg_1@headwater.example>"
        assert mail["To"].addresses == (Address(addr_spec="ada@example.org"),)
        assert mail["From"].addresses[0].display_name == "Headwater für alle"
        assert mail["Subject"] == "Under half a million: Garden flat 7: new"
        assert mail["List-Unsubscribe"] == "<https://headwater.example/unsubscribe/msg_1token>"
        assert mail["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        assert mail["Auto-Submitted"] == "auto-generated"
        text, html = mail.iter_parts()
        assert (text.get_content_type(), html.get_content_type()) == ("text/plain", "text/html")
        assert "price: 450000" in text.get_content()
        assert "≤ 500000" in html.get_content()
        assert caught.content.isascii(), "every server takes it"

    def test_a_mail_sent_again_is_the_same_mail(self) -> None:
        (_, first), (_, second) = sent(), sent()
        assert first.caught[0].mail["Message-ID"] == second.caught[0].mail["Message-ID"]
        assert first.caught[0].mail["Date"] == second.caught[0].mail["Date"]

    def test_a_line_with_one_dot(self) -> None:
        dotted = Item("v", {"id": 1}, Event.ENTERED, {"title": ".", "text": "."}, None, (MatchedSearch("s", "."),))
        outcome, catcher = sent(notification("m", 1, dotted))
        assert outcome == Delivered()
        assert "Stop these messages" in catcher.caught[0].mail.get_body(("plain",)).get_content()  # type: ignore[union-attr]

    def test_one_click_needs_https(self) -> None:
        plain = replace(notification(), unsubscribe_url="http://headwater.example/u")
        mail = message(plain, "ada@example.org", SENDER)
        assert mail["List-Unsubscribe"] == "<http://headwater.example/u>"
        assert mail["List-Unsubscribe-Post"] is None

    @pytest.mark.parametrize("more", [0, 32, 800])
    def test_the_link_of_one_click_stands_on_one_line_as_it_is(self, more: int) -> None:
        """Readers take what stands between < and > as the address: folded or encoded it is another one."""
        url = f"https://alerts.homes.example.com/v1/alerts/unsubscribe/{'Ab3_' * 8}{'-' * more}"
        _, catcher = sent(replace(notification(), unsubscribe_url=url))
        head = catcher.caught[0].content.partition(b"\r\n\r\n")[0].split(b"\r\n")
        assert f"List-Unsubscribe: <{url}>".encode() in head
        assert b"List-Unsubscribe-Post: List-Unsubscribe=One-Click" in head

    def test_a_link_longer_than_a_line_may_be_is_left_out(self) -> None:
        mail = message(replace(notification(), unsubscribe_url=f"https://x/{'a' * 990}"), "ada@example.org", SENDER)
        assert mail["List-Unsubscribe"] is None


class TestInjection:
    @given(st.text(), st.text())
    def test_labels_and_rows_never_make_a_header(self, label: str, title: str) -> None:
        bad = Item("v", {"id": 1}, Event.ENTERED, {"title": f"{title}\r\nBcc: eve@example.org"}, None, ())
        told = notification("m", 1, replace(bad, searches=(MatchedSearch("s", f"{label}\nBcc: x@example.org"),)))
        mail = message(told, "ada@example.org", SENDER)
        head = mail.as_bytes().partition(b"\r\n\r\n")[0]
        names = [line.partition(b":")[0].lower() for line in head.split(b"\r\n") if not line.startswith((b" ", b"\t"))]
        assert b"bcc" not in names
        assert sorted(names) == sorted(set(names))

    @pytest.mark.parametrize(
        "word",
        [
            "=?utf-8?q?Flat=0D=0AReply-To=3A_eve=40example.com?=",
            "=?utf-8?q?Flat=0D=0A=0D=0AReply-To=3A_eve=40example.com?=",
            "=?utf-8?b?RmxhdA0KUmVwbHktVG86IGV2ZUBleGFtcGxlLmNvbQ==?=",
            "==??utf-8?q?=0D=0AReply-To=3A_eve?=",
        ],
    )
    @pytest.mark.parametrize("before", ["", "ä ", "x" * 60, "x " * 30])
    def test_an_encoded_word_stays_text(self, word: str, before: str) -> None:
        """The standard library decodes it, and may write the line break in it as one."""
        row = {"title": f"{before}{word}"}
        told = notification("m", 1, Item("v", {"id": 1}, Event.ENTERED, row, None, (MatchedSearch("s", "Flats"),)))
        head = message(told, "ada@example.org", Sender("alerts@example.org", word)).as_bytes().partition(b"\r\n\r\n")[0]
        lines = head.split(b"\r\n")
        assert [line.partition(b":")[0] for line in lines if not line.startswith(b" ")] == [
            b"From", b"To", b"Subject", b"Date", b"Message-ID", b"Auto-Submitted", b"List-Unsubscribe",
            b"List-Unsubscribe-Post", b"MIME-Version", b"Content-Type",
        ]  # fmt: skip
        assert not any(line.lower().startswith(b"reply-to") for line in lines)

    @pytest.mark.parametrize(
        "url", ["https://x/\r\nBcc: a@b.c", "https://x/>, <mailto:a@b.c", "javascript:x", "https://ü/"]
    )
    def test_an_odd_link_is_left_out(self, url: str) -> None:
        mail = message(replace(notification(), unsubscribe_url=url), "ada@example.org", SENDER)
        assert mail["List-Unsubscribe"] is None

    @pytest.mark.parametrize(
        "address",
        [
            "",
            "ada",
            "@example.org",
            "ada@",
            "ada@localhost",
            "ada@[127.0.0.1]",
            "Ada <ada@example.org>",
            "ada@example.org,eve@example.org",
            "ada@example.org\r\nRCPT TO:<eve@example.org>",
            "ada@example.org\n",
            '"a b"@example.org',
            "a..b@example.org",
            "ada@exa mple.org",
            "ada@-example.org",
            "ädä@example.org",
            "=?utf-8?q?=0D=0ABcc=3A_eve?=@example.org",
            "a.=?b@example.org",
            f"{'a' * 65}@example.org",
            f"a@{'b' * 60}.{'c' * 60}.{'d' * 60}.{'e' * 60}.{'f' * 60}.org",
        ],
    )
    def test_what_is_not_one_plain_address(self, address: str) -> None:
        with pytest.raises(TargetRefused):
            checked_address(address)
        outcome, catcher = sent(target=replace(ADA, address=address))
        assert isinstance(outcome, Refused)
        assert not catcher.caught

    @pytest.mark.parametrize("address", ["ada@example.org", "a.b+c@sub.example.co.uk", "o'neil@x-y.example"])
    def test_a_plain_address(self, address: str) -> None:
        assert checked_address(address) == address


class TestAnswers:
    @pytest.mark.parametrize(
        ("answers", "kind"),
        [
            ({"RCPT": "550 5.1.1 no such user"}, Gone),
            ({"RCPT": "551 moved"}, Gone),
            ({"RCPT": "550 mailbox unavailable"}, Gone),
            ({"RCPT": "553 5.1.3 not an address"}, Gone),
            ({"RCPT": "553 not allowed"}, Refused),
            ({"RCPT": "553 5.1.8 <a@b.c>: Sender address rejected"}, Refused),
            ({"RCPT": "550 relay not permitted"}, Refused),
            ({"RCPT": "550 5.4.1 Recipient address rejected: Access denied"}, Refused),
            ({"RCPT": "554 Service unavailable; Client host [192.0.2.1] blocked using a list"}, Refused),
            ({"RCPT": "450 greylisted"}, Retry),
            ({"RCPT": "452 4.2.2 full"}, Retry),
            ({"RCPT": "552 5.2.2 full"}, Retry),
            ({"RCPT": "554 5.7.1 relaying denied"}, Refused),
            ({"RCPT": "530 log in first"}, Refused),
            ({"MAIL": "550 no"}, Retry),
            ({"MAIL": "421 later"}, Retry),
            ({"DATA": "554 no"}, Refused),
            ({"DATA": "451 later"}, Retry),
            ({"END": "554 5.6.0 this is spam"}, Refused),
            ({"END": "552 too much"}, Retry),
            ({"END": "451 later"}, Retry),
        ],
        ids=str,
    )
    def test_each(self, answers: dict[str, str], kind: type) -> None:
        outcome, catcher = sent(answers=answers)
        assert isinstance(outcome, kind), outcome
        assert not catcher.caught

    def test_a_server_that_hangs(self) -> None:
        outcome, _ = sent(answers={"RCPT": "hang"}, server={"timeout_s": 0.2})
        assert isinstance(outcome, Retry)

    def test_a_server_that_hangs_after_it_took_the_mail(self) -> None:
        outcome, catcher = sent(answers={"QUIT": "hang"}, server={"timeout_s": 2.0})
        assert (outcome, len(catcher.caught)) == (Delivered(), 1)

    def test_nobody_listens(self) -> None:
        async def send() -> Outcome:
            async with MailCatcher() as catcher:
                pass
            return await Mail(MailServer("127.0.0.1", catcher.port, "none"), SENDER).deliver(notification(), ADA)

        assert asyncio.run(send()) == Retry("the mail server cannot be used: ConnectionRefusedError")

    @given(st.integers(400, 499), st.binary(max_size=30))
    def test_every_4xx_is_for_another_time(self, code: int, said: bytes) -> None:
        assert isinstance(recipient_refused(code, said), Retry)
        assert isinstance(content_refused(code, said), Retry)


class TestSecurity:
    def test_starttls(self) -> None:
        server = {"security": "starttls", "context": client_side()}
        outcome, catcher = sent(context=server_side(), server=server)
        assert outcome == Delivered()
        assert catcher.caught[0].encrypted

    def test_tls_from_the_start(self) -> None:
        server = {"security": "tls", "context": client_side()}
        outcome, catcher = sent(context=server_side(), implicit_tls=True, server=server)
        assert outcome == Delivered()
        assert catcher.caught[0].encrypted

    def test_never_in_plain_where_starttls_was_asked_for(self) -> None:
        outcome, catcher = sent(server={"security": "starttls"})
        assert isinstance(outcome, Retry)
        assert not catcher.caught

    @pytest.mark.parametrize("security", ["starttls", "tls"])
    def test_a_certificate_that_nobody_signed(self, security: str) -> None:
        outcome, catcher = sent(context=server_side(), implicit_tls=security == "tls", server={"security": security})
        assert isinstance(outcome, Retry)
        assert not catcher.caught

    def test_login(self) -> None:
        outcome, catcher = sent(login=("us", "secret"), server={"user": "us", "password": "secret"})
        assert (outcome, catcher.caught[0].user) == (Delivered(), "us")
        outcome, catcher = sent(login=("us", "secret"), server={"user": "us", "password": "wrong"})
        assert outcome == Retry("the mail server refused the login: 535")

    def test_the_password_is_not_in_the_repr(self) -> None:
        assert "secret" not in repr(MailServer("h", 25, "tls", "us", "secret"))

    def test_many_items_are_one_mail(self) -> None:
        outcome, catcher = sent(notification("m", 1, *(item(number) for number in range(80))))
        assert (outcome, len(catcher.caught)) == (Delivered(), 1)

"""What became of a form, said once on the page that follows it: in a cookie, which no other site can set."""

from __future__ import annotations

import base64
import binascii
from typing import Final

import msgspec
from fastapi import Request, Response

COOKIE: Final = "headwater_console_notice"
LIVES_S: Final = 60
TEXT_MAX: Final = 600


class Notice(msgspec.Struct, frozen=True):
    kind: str
    """ok, warn or bad."""
    text: str
    detail: str = ""
    hint: str = ""


def leave(request: Request, response: Response, notice: Notice) -> None:
    cut = Notice(notice.kind, notice.text[:TEXT_MAX], notice.detail[:TEXT_MAX], notice.hint[:TEXT_MAX])
    value = base64.urlsafe_b64encode(msgspec.json.encode(cut)).decode()
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, value, max_age=LIVES_S, path="/", secure=secure, httponly=True, samesite="strict")


def take(request: Request) -> Notice | None:
    """None where nothing was left, or nothing of ours."""
    text = request.cookies.get(COOKIE, "")
    if not text:
        return None
    try:
        return msgspec.json.decode(base64.urlsafe_b64decode(text.encode()), type=Notice)
    except (binascii.Error, ValueError, msgspec.MsgspecError):
        return None


def said(response: Response) -> None:
    response.delete_cookie(COOKIE, path="/", httponly=True, samesite="strict")

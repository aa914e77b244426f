"""Secrets that are handed out and come back: a file each, named by the secret's hash, in a folder that only we read.

Shared by all processes that answer, and by the command line. Whoever reads the folder learns no secret; whoever may
write into it has the data folder, and with it everything else.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Generic, TypeVar

import msgspec

SECRET_BYTES: Final = 32
T = TypeVar("T", bound=msgspec.Struct)


class _Kept(msgspec.Struct, frozen=True):
    expires_at_s: float
    value: msgspec.Raw


class SecretFiles(Generic[T]):
    """At most `most` at a time: the oldest go first."""

    def __init__(self, folder: Path, prefix: str, kind: type[T], *, lives_s: float, most: int) -> None:
        self._folder, self._prefix, self._kind = folder, prefix, kind
        self._lives_s, self._most = lives_s, most
        self.clock: Callable[[], float] = time.time

    def make(self, value: T) -> str:
        """The secret for it: told now and kept nowhere."""
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._prune()
        secret = secrets.token_urlsafe(SECRET_BYTES)
        kept = {"expires_at_s": self.clock() + self._lives_s, "value": value}
        file = self._file(secret)
        working = file.with_suffix(".new")
        with os.fdopen(os.open(working, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            out.write(msgspec.json.encode(kept))
        working.replace(file)
        return secret

    def read(self, secret: str) -> T | None:
        """None for one that is not known, or no longer good."""
        try:
            return self._value(self._file(secret).read_bytes())
        except FileNotFoundError:
            return None

    def left_s(self, secret: str) -> float:
        """How long it is still good; 0 for one that is not."""
        try:
            kept = msgspec.json.decode(self._file(secret).read_bytes(), type=_Kept)
        except (FileNotFoundError, msgspec.MsgspecError):
            return 0.0
        return max(0.0, kept.expires_at_s - self.clock())

    def take(self, secret: str) -> T | None:
        """The same, once: of several who ask for it at the same time one gets it."""
        file = self._file(secret)
        try:
            content = file.read_bytes()
            file.unlink()
        except FileNotFoundError:
            return None
        return self._value(content)

    def _value(self, content: bytes) -> T | None:
        try:
            kept = msgspec.json.decode(content, type=_Kept)
            return msgspec.json.decode(kept.value, type=self._kind) if kept.expires_at_s > self.clock() else None
        except msgspec.MsgspecError:  # of another version, or damaged
            return None

    def _file(self, secret: str) -> Path:
        return self._folder / f"{self._prefix}-{hashlib.sha256(secret.encode()).hexdigest()}.json"

    def _prune(self) -> None:
        aged = []
        for file in self._folder.glob(f"{self._prefix}-*"):
            try:
                aged.append((file.stat().st_mtime, file))
            except FileNotFoundError:
                continue
        aged.sort(reverse=True)
        too_old = time.time() - self._lives_s
        for number, (at_s, file) in enumerate(aged):
            if at_s < too_old or number >= self._most - 1:
                file.unlink(missing_ok=True)

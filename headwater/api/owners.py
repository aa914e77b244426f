"""For whom a caller acts: the owner whose saved searches a request is about. Pure.

A key acts for its own owner and for nobody else. Without one it is its own owner. An owner that ends in * stands for
all that begin so: the key of an application, which names the person in the header. Administrators act for anybody.
"""

from __future__ import annotations

from typing import Final

from cdc.errors import ConfigurationError
from headwater.api.access import ApiKey
from headwater.api.problems import Forbidden

HEADER: Final = "X-Headwater-Owner"
LOCAL: Final = "local"
"""Who asks without a key, where none is needed."""
OWNER_CHARACTERS_MAX: Final = 200
_MANY: Final = "*"


def header_text(given: str, name: str) -> str:
    """As it was meant: frameworks read headers as Latin-1, clients write them in UTF-8, as they do bodies."""
    try:
        return given.encode("latin-1").decode()
    except UnicodeDecodeError:
        raise ConfigurationError(f"{name} cannot be read", hint="write it in UTF-8") from None


def owner_for(key: ApiKey | None, asked: str) -> str:
    """Raises Forbidden for somebody else's owner, and ConfigurationError where one has to be named."""
    if len(asked) > OWNER_CHARACTERS_MAX or not asked.isprintable() or _MANY in asked:
        raise ConfigurationError("not an owner", detail=f"at most {OWNER_CHARACTERS_MAX} letters, without *")
    if key is None:
        return asked or LOCAL
    own = key.owner or key.id
    if "admin" in key.scopes:
        return asked or own.rstrip(_MANY) or key.id
    if not own.endswith(_MANY):
        if asked not in ("", own):
            raise _forbidden(key, own)
        return own
    if not asked:
        raise ConfigurationError(f"key {key.id} acts for many owners, and none is named", hint=f"{HEADER}: {own}")
    if not asked.startswith(own.removesuffix(_MANY)):
        raise _forbidden(key, own)
    return asked


def _forbidden(key: ApiKey, own: str) -> Forbidden:
    return Forbidden(
        f"key {key.id} does not act for this owner",
        detail=f"it acts for {own}",
        hint="headwater keys create --scope alerts --owner OWNER",
    )

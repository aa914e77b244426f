"""Keys as the API reads them: the short way for integers gives what the long one gives, and refuses what it refuses."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from cdc.errors import ConfigurationError
from headwater.api.shapes import key_json
from headwater.views.key_text import columns_of
from views import sqltypes
from views.json_rows import json_rows
from views.plan import Field

FIELDS = (Field("id", sqltypes.named("smallint")), Field('odd "name" é', sqltypes.BIGINT))
STORE: Any = SimpleNamespace(view="v", key=tuple(field.name for field in FIELDS), key_fields=FIELDS)
texts = st.one_of(
    st.integers(-(2**70), 2**70).map(str), st.sampled_from(["007", "-0", "+5", " 5", "5.0", "x", "", "٣"])
)


def the_long_way(given: list[str]) -> bytes:
    [text] = json_rows(FIELDS, columns_of(STORE, [given])).to_pylist()
    return text if isinstance(text, bytes) else str(text).encode()


@given(texts, texts)
@example("7", "-12")
@example("32767", "9223372036854775807")
@example("32768", "0")
@example("0", "9223372036854775808")
def test_integers(one: str, other: str) -> None:
    try:
        wanted = the_long_way([one, other])
    except ConfigurationError:
        with pytest.raises(ConfigurationError):
            key_json(STORE, [one, other])
    else:
        assert key_json(STORE, [one, other]) == wanted

"""The mark of an index: a document in it that says what it includes, written only over the one that was there.

So an index that was emptied while somebody wrote to it is noticed at the next mark, instead of claiming what it lost.
Several writers of one generation take turns; the last one's mark stands.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from elasticsearch import ApiError, ConflictError, Elasticsearch, NotFoundError, TransportError

from search.bulk import RETRY_AFTER_S, unavailable, waiting
from views.sinks.sink import Mark

MARK_ID: Final = "headwater:mark"
"""Keys are JSON objects, so no row has this id."""
ATTEMPTS_MAX: Final = 5


class MarkKeeper:
    def __init__(self, client: Elasticsearch, index: str, write_alias: str) -> None:
        self._client, self._index, self._write_alias = client, index, write_alias
        self._seen: tuple[int, int] | None = None
        """Sequence number and term of the mark's document, when it was last read or written."""

    def forget(self) -> None:
        """The index is a new one, or none: it has no mark."""
        self._seen = None

    def read(self) -> Mark | None:
        """As it was written last, also before it is visible to searches."""
        try:
            found = self._client.get(index=self._index, id=MARK_ID, stored_fields="row")
        except NotFoundError:
            self._seen = None
            return None
        except (ApiError, TransportError) as error:
            raise unavailable(error) from error
        self._seen = (found["_seq_no"], found["_primary_term"])
        return msgspec.json.decode(found["fields"]["row"][0], type=Mark)

    def write(self, mark: Mark) -> None:
        """Raises SinkUnavailable when the mark that was there is not there any more: the index was emptied."""
        known = self._seen is not None
        if not known:
            self.read()
        for _ in range(ATTEMPTS_MAX):
            try:
                return self._write_over(self._seen, mark)
            except ConflictError:  # another writer of the same generation, or nobody's mark
                if self.read() is None and known:
                    raise waiting(f"the index {self._index} was emptied behind our back", "", 0.0) from None
            except (ApiError, TransportError) as error:
                raise unavailable(error) from error
        raise waiting(f"too many write the mark of {self._index} at once", "", RETRY_AFTER_S)

    def _write_over(self, seen: tuple[int, int] | None, mark: Mark) -> None:
        place: dict[str, Any] = {"op_type": "create"}
        if seen is not None:
            place = {"if_seq_no": seen[0], "if_primary_term": seen[1]}
        document = {"gone": True, "row": msgspec.json.encode(mark).decode()}
        answer = self._client.index(
            index=self._write_alias, id=MARK_ID, document=document, require_alias=True, refresh=False, **place
        )
        self._seen = (answer["_seq_no"], answer["_primary_term"])

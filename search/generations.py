"""A view's indexes: one a generation, behind one alias that readers use and that moves in one step.

    <source>-<view>              the alias: what searches read
    <source>-<view>-g<n>         generation n        <source>-<view>-g<n>-write  its alias for writing

Writes demand the alias for writing, so an index that was deleted behind our back is never made anew by a write.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from elasticsearch import ApiError, Elasticsearch, NotFoundError, TransportError

from search.bulk import unavailable

T = TypeVar("T")
_UNFIT: Final = re.compile(r"[^a-z0-9_.-]")


@dataclass(frozen=True, slots=True)
class IndexNames:
    source: str
    view: str

    @property
    def alias(self) -> str:
        return _UNFIT.sub("_", f"{self.source}-{self.view}".lower())

    def index(self, generation: int) -> str:
        return f"{self.alias}-g{generation}"

    def write_alias(self, generation: int) -> str:
        return f"{self.index(generation)}-write"

    def generation(self, index: str) -> int | None:
        """None for an index that is not one of ours."""
        found = re.fullmatch(rf"{re.escape(self.alias)}-g(\d+)", index)
        return int(found[1]) if found else None


@dataclass(frozen=True)
class Generations:
    """Which there are, and which of them is read."""

    client: Elasticsearch
    names: IndexNames

    def existing(self) -> list[int]:
        answer = self._asked(lambda: self.client.indices.get(index=f"{self.names.alias}-g*", features="aliases"))
        found = (self.names.generation(index) for index in answer)
        return sorted(generation for generation in found if generation is not None)

    def current(self) -> int | None:
        """The generation behind the alias; None before the first switch."""
        behind = self._behind()
        return self.names.generation(behind[0]) if behind else None

    def switch(self, generation: int | None) -> None:
        """Readers go over to the generation, all at once, or find none any more. Idempotent.

        Raises SinkUnavailable when the generation is not there.
        """
        index = None if generation is None else self.names.index(generation)
        others = [other for other in self._behind() if other != index]
        actions = [{"remove": {"index": other, "alias": self.names.alias}} for other in others]
        if index is not None:
            actions.append({"add": {"index": index, "alias": self.names.alias}})
        if actions:
            self._asked(lambda: self.client.indices.update_aliases(actions=actions))

    def _behind(self) -> list[str]:
        """None if there is no such alias.

        Elasticsearch looks for it in all indices, and with security may miss one that is made or removed just then,
        whoever's it is: that says nothing of the alias.
        """
        try:
            return sorted(
                self._asked(lambda: self.client.indices.get_alias(name=self.names.alias, ignore_unavailable=True))
            )
        except NotFoundError:
            return []

    def _asked(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except NotFoundError as error:
            if error.error == "index_not_found_exception":
                raise unavailable(error) from error
            raise
        except (ApiError, TransportError) as error:
            raise unavailable(error) from error

"""The latest responses of OpenAI's responses API, for requests that go on from one. In memory."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from edgellm.types import Message

MAX_KEPT = 1024
MAX_CHARACTERS = 16 << 20  # of all conversations together


@dataclass(frozen=True)
class Kept:
    """messages: the conversation and its answer, without instructions. response: as it was sent."""

    messages: tuple[Message, ...]
    response: Mapping[str, Any]

    @property
    def size(self) -> int:
        return sum(len(str(message)) for message in self.messages) + len(str(self.response))


class KeptResponses:
    """By their ids. The one that was used longest ago goes first when there is no more room."""

    def __init__(self, most: int = MAX_KEPT, characters: int = MAX_CHARACTERS) -> None:
        self._most = most
        self._characters = characters
        self._kept: OrderedDict[str, tuple[Kept, int]] = OrderedDict()
        self._size = 0

    def keep(self, response_id: str, kept: Kept) -> None:
        size = kept.size
        self._kept[response_id] = (kept, size)
        self._size += size
        while len(self._kept) > self._most or self._size > self._characters:
            _, (_, gone) = self._kept.popitem(last=False)
            self._size -= gone

    def find(self, response_id: str) -> Kept | None:
        if response_id not in self._kept:
            return None
        self._kept.move_to_end(response_id)
        return self._kept[response_id][0]

    def forget(self, response_id: str) -> bool:
        """Whether it was there."""
        found = self._kept.pop(response_id, None)
        if found is not None:
            self._size -= found[1]
        return found is not None

"""What the chat is given by whoever opens it: an engine, and models to choose from."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from edgellm.client import Client

Note = Callable[[str], None]  # is told, in any thread, what takes a while or is worth knowing
Advance = Callable[[str, int, int | None], None]  # stage, bytes done, bytes in all if known


class Engine(Protocol):
    """Starts the engine that answers."""

    async def start(self) -> Client:
        """A client of a new engine. Called again when the one before has died."""

    def memory(self) -> int | None:
        """Bytes that the engine's process holds in memory now."""


@dataclass(frozen=True)
class Offer:
    """A model that can be chosen. size: bytes, None when not known. path: where it is stored."""

    name: str
    description: str
    size: int | None
    path: str | None
    license: str | None = None


class Library(Protocol):
    """The models known by name. Its methods block: they are called in threads."""

    def offers(self) -> tuple[Offer, ...]:
        """All of them, those that the catalogue puts first at the front."""

    def pull(self, name: str, advance: Advance, note: Note) -> str:
        """Fetches a model by its name or an address, and returns its name. What `advance` raises
        ends it; the next try goes on from there."""

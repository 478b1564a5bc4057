"""Which model a chat begins with. Knows no screen."""

import asyncio
from pathlib import Path

from edgellm.tui.doors import Library
from edgellm.tui.history import History, Store


async def first_model(library: Library, history: History) -> str | None:
    """That of the newest conversation which is still here, else one that is stored; None when the
    user must choose one first."""
    offers = await asyncio.to_thread(library.offers)
    stored = [offer.name for offer in offers if offer.path is not None]
    for conversation in await history.ask(Store.conversations):
        name = conversation.model
        if name is not None and (name in stored or Path(name).is_file()):
            return name
    return next(iter(stored), None)

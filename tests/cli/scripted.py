"""A client whose model says what a test wants."""

from collections.abc import Callable

from edgellm.client import LocalClient
from edgellm.types import LoadOptions, ModelInfo
from tests.mock_model import MockModel, make_manager


class ScriptedClient(LocalClient):
    """Has its one model loaded already and remembers how it was asked for."""

    def __init__(self, model: MockModel, report: object = None, source: str = "") -> None:
        self.manager = make_manager(model, source=source)
        super().__init__(self.manager)
        self.asked: tuple[str, LoadOptions | None] | None = None

    async def load(self, name_or_path: str, options: LoadOptions | None = None) -> ModelInfo:
        self.asked = name_or_path, options
        return self.manager.models()[0]


Script = Callable[..., ScriptedClient]

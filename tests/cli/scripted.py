"""A model that says what a test wants."""

import os
from collections.abc import Callable

import pytest

from edgellm import llm
from edgellm.types import LoadOptions
from tests.mock_model import MockModel, make_manager


class ScriptedModel(llm.Model):
    """Is loaded already and remembers how it was asked for."""

    def __init__(self, model: MockModel, source: str = "") -> None:
        manager = make_manager(model, source=source)
        super().__init__(manager, manager.models()[0])
        self.asked: tuple[str | os.PathLike[str], LoadOptions] | None = None

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Has this model opened, whatever is asked for."""

        def opened(
            name_or_path: str | os.PathLike[str], options: LoadOptions, report: object = None
        ) -> ScriptedModel:
            self.asked = name_or_path, options
            return self

        monkeypatch.setattr(llm.Model, "open", opened)


Script = Callable[..., ScriptedModel]

"""Tiny models that tests of this room share, each written once."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.models.tiny import write_tiny

TinyFile = Callable[..., Path]


@pytest.fixture(scope="session")
def tiny_file(tmp_path_factory: pytest.TempPathFactory) -> TinyFile:
    """The file of an architecture's tiny model, by name and the format of its matrices."""
    folder = tmp_path_factory.mktemp("tiny")

    @cache
    def file_of(name: str, format_name: str | None = None) -> Path:
        return write_tiny(folder, name, format_name=format_name)

    return file_of

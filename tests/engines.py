"""Engines of model files on the cpu backend. Holds no tests."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from edgellm.backends import Backends
from edgellm.engine import Engine
from edgellm.gguf_loader import open_gguf
from edgellm.models import read_config
from edgellm.ready import make_ready
from edgellm.types import LoadOptions


@contextmanager
def opened(path: Path, **options: Any) -> Iterator[Engine]:
    """The engine of a model, until the block is left. options: those of LoadOptions."""
    with ExitStack() as stack:
        file = stack.enter_context(open_gguf(path))
        backends = Backends(print)
        stack.callback(backends.close)
        ready = make_ready(file, read_config(file), LoadOptions(**options), backends)
        stack.callback(ready.engine.close)
        yield ready.engine

"""Puts a small model into the store of the test, as pull would."""

from pathlib import Path

from edgellm.pull import Quiet, Stored
from edgellm.pull.store import keep, lock, partial_dir
from tests.gguf_writer import F32, write_gguf


def store_model(name: str) -> Path:
    """Stores a one-tensor model under `name` and returns its path."""
    with lock(name, Quiet()):
        partial_dir(name).mkdir(parents=True)
        file = partial_dir(name) / "whole"
        write_gguf(
            file,
            {"general.architecture": "llama", "llama.block_count": 1},
            [("output.weight", (32, 4), F32, bytes(512))],
        )
        manifest = Stored(
            name=name,
            sources=(f"url:https://host/{name}.gguf",),
            sha256="00" * 32,
            size=file.stat().st_size,
            date="2026-01-01T00:00:00+00:00",
            verified_by=None,
        )
        return keep(manifest, file)

"""Tiny checkpoints and what llama.cpp's converter writes of them, a JSON file for each. Holds no
tests.

A file has the settings (config.json), the shapes of tensors by their published names, and of the
GGUF file its keys, and its tensors' shapes and a number that follows from all of their values. The
weights follow from names and shapes. Made by `python -m tests.convert.written.make`.
"""

from pathlib import Path

import numpy as np
import numpy.typing as npt


def summary(values: npt.NDArray[np.float32]) -> float:
    """A sum that changes with each value and with its place."""
    wide = values.reshape(-1).astype(np.float64)
    return float((wide * np.cos(np.arange(len(wide), dtype=np.float64))).sum())


FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))

"""Tiny checkpoints whose logits `transformers` computed, a JSON file for each. Holds no tests.

A file has the settings (config.json), the shapes of tensors by their published names, ids, and what
the model makes of them: "logits", or "hidden" for encoders and "scores" for those with a head. The
weights follow from names and shapes (`weights_of`). Made by `python -m tests.convert.golden.make`.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float32]

FOLDER = Path(__file__).parent
NAMES = sorted(path.stem for path in FOLDER.glob("*.json"))


@dataclass(frozen=True, eq=False)
class Golden:
    """kind: of rows, "logits", "hidden" or "scores". rows: (ids, width) in float32, one for
    scores."""

    config: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    ids: list[int]
    kind: str
    rows: Array


def golden(name: str) -> Golden:
    content = json.loads((FOLDER / f"{name}.json").read_text())
    ids = content["ids"]
    kind = next(kind for kind in ("logits", "hidden", "scores") if kind in content)
    count = 1 if kind == "scores" else len(ids)
    rows = np.frombuffer(b64decode(content[kind]), "<f4").reshape(count, -1)
    shapes = {name: tuple(shape) for name, shape in content["shapes"].items()}
    return Golden(content["config"], shapes, ids, kind, rows)


def weights_of(shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Weights that depend on names and shapes alone."""
    return {name: _weight(name, shape) for name, shape in shapes.items()}


def _weight(name: str, shape: tuple[int, ...]) -> Array:
    rng = np.random.default_rng(list(name.encode()))
    drawn = rng.standard_normal(shape)
    is_vector = sum(size > 1 for size in shape) <= 1
    if name.endswith("A_log"):
        values = np.log(1 + np.abs(drawn) * 3)
    elif is_vector and name.endswith("bias"):
        values = 0.1 * drawn
    elif is_vector:
        values = 1 + 0.1 * drawn
    else:
        values = drawn * shape[-1] ** -0.5
    return values.astype(np.float32)

"""Settings of config.json, checked, and as GGUF keys. Knows no tensors."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.gguf_loader import NewValue

_MOST = 1 << 31
_YARN = {
    "extrapolation_factor": "yarn_ext_factor",
    "attention_factor": "yarn_attn_factor",
    "beta_fast": "yarn_beta_fast",
    "beta_slow": "yarn_beta_slow",
}


class Settings:
    """The values of a config.json by name; GGUFError for one that is missing or of another type."""

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self._path = path
        self._values = values

    def optional_integer(self, name: str) -> int | None:
        value = self._values.get(name)
        if value is None:
            return None
        if type(value) is not int or not 0 <= value < _MOST:
            raise self._wrong(name, value, "a whole number")
        return value

    def integer(self, name: str) -> int:
        value = self.optional_integer(name)
        if not value:
            raise self._wrong(name, value, "a number above zero")
        return value

    def number(self, name: str, default: float) -> float:
        return self._number(self._values, name, default)

    def flag(self, name: str, default: bool) -> bool:
        value = self._values.get(name, default)
        return default if value is None else bool(value)

    def group(self, name: str) -> Mapping[str, Any]:
        value = self._values.get(name)
        return value if isinstance(value, dict) else {}

    @property
    def heads(self) -> int:
        return self.integer("num_attention_heads")

    @property
    def kv_heads(self) -> int:
        return self.optional_integer("num_key_value_heads") or self.heads

    @property
    def head_dim(self) -> int:
        return self.optional_integer("head_dim") or self.integer("hidden_size") // self.heads

    @property
    def tied(self) -> bool:
        return self.flag("tie_word_embeddings", False)

    def common(self) -> dict[str, NewValue]:
        """Keys that every architecture has, without its name in front."""
        keys: dict[str, NewValue] = {
            "block_count": self.integer("num_hidden_layers"),
            "context_length": self.integer("max_position_embeddings"),
            "embedding_length": self.integer("hidden_size"),
            "feed_forward_length": self.integer("intermediate_size"),
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.kv_heads,
            "attention.key_length": self.head_dim,
            "attention.value_length": self.head_dim,
            "attention.layer_norm_rms_epsilon": self.number("rms_norm_eps", 1e-6),
            "rope.freq_base": self._rope_base(),
        }
        return keys | self._scaling()

    def rope_factors(self) -> npt.NDArray[np.float32] | None:
        """What frequencies are divided by, in Llama 3.1's way; None without it.

        Waves longer than the trained context are stretched by `factor`, short ones are not, and
        between the two bounds it goes smoothly.
        """
        scaling = self._rope()
        if scaling.get("rope_type", scaling.get("type")) != "llama3":
            return None
        factor = self._number(scaling, "factor", 8.0)
        low = self._number(scaling, "low_freq_factor", 1.0)
        high = self._number(scaling, "high_freq_factor", 4.0)
        trained = self._number(scaling, "original_max_position_embeddings", 8192)
        dim = self.head_dim
        frequencies = self._rope_base() ** -(np.arange(0, dim, 2, dtype=np.float64) / dim)
        waves = trained * frequencies / (2 * math.pi)  # in the trained context
        smooth = np.clip((waves - low) / (high - low), 0, 1)
        return (1 / ((1 - smooth) / factor + smooth)).astype(np.float32)

    def _rope(self) -> Mapping[str, Any]:
        rope = self.group("rope_parameters") or self.group("rope_scaling")
        full = rope.get("full_attention")
        return full if isinstance(full, dict) else rope

    def _rope_base(self) -> float:
        return self._number(self._rope(), "rope_theta", self.number("rope_theta", 10000.0))

    def _scaling(self) -> dict[str, NewValue]:
        rope = self._rope()
        kind = rope.get("rope_type", rope.get("type"))
        if kind in (None, "default", "llama3"):
            return {}
        if kind not in ("linear", "yarn"):
            raise self._wrong("rope_scaling", kind, "linear, yarn or llama3")
        keys: dict[str, NewValue] = {
            "rope.scaling.type": kind,
            "rope.scaling.factor": self._number(rope, "factor", 1.0),
        }
        if kind == "yarn":
            trained = self._number(
                rope, "original_max_position_embeddings", self.integer("max_position_embeddings")
            )
            keys["rope.scaling.original_context_length"] = int(trained)
            for name, key in _YARN.items():
                if rope.get(name) is not None:
                    keys[f"rope.scaling.{key}"] = self._number(rope, name, 0.0)
        return keys

    def _number(self, values: Mapping[str, Any], name: str, default: float) -> float:
        value = values.get(name)
        if value is None:
            return float(default)
        if (
            isinstance(value, bool)
            or not isinstance(value, (int, float))
            or not math.isfinite(value)
        ):
            raise self._wrong(name, value, "a number")
        return float(value)

    def _wrong(self, name: str, value: object, expected: str) -> GGUFError:
        found = "missing" if value is None else f"{str(value)[:60]!r}"
        return GGUFError(f"{self._path}: {name} is {found}, expected {expected}")

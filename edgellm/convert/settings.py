"""Settings of config.json, checked: read under any of the names that families give them.

Knows no tensors and no families.
"""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgellm.errors import GGUFError

_MOST = 1 << 31
_MOST_LAYERS = 1 << 13
_WIDEST_HEAD = 1 << 16


class Settings:
    """The values of a config.json; GGUFError names one that is missing or of another type.

    Where several names are given, the first that the file has counts.
    """

    def __init__(self, path: Path, values: Mapping[str, Any]) -> None:
        self._path = path
        self._values = values

    def value(self, *names: str) -> Any:
        """As it is; None without one."""
        return next((v for n in names if (v := self._values.get(n)) is not None), None)

    def has(self, name: str) -> bool:
        """Whether it stands there, be it as null."""
        return name in self._values

    def optional_integer(self, *names: str) -> int | None:
        value = self.value(*names)
        return None if value is None else self._integer(names[0], value)

    def _integer(self, name: str, value: Any) -> int:
        if type(value) is not int or not 0 <= value < _MOST:
            raise self.wrong(name, value, "a whole number")
        return value

    def integer(self, *names: str) -> int:
        value = self.optional_integer(*names)
        if not value:
            raise self.wrong(names[0], value, "a number above zero")
        return value

    def optional_number(self, *names: str) -> float | None:
        value = self.value(*names)
        return None if value is None else self._number(names[0], value)

    def _number(self, name: str, value: Any) -> float:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if not is_number or not abs(value) <= sys.float_info.max:  # nor what is no number
            raise self.wrong(name, value, "a number")
        return float(value)

    def number(self, name: str, default: float) -> float:
        value = self.optional_number(name)
        return default if value is None else value

    def flag(self, name: str, default: bool = False) -> bool:
        value = self.value(name)
        return default if value is None else bool(value)

    def text(self, *names: str) -> str | None:
        value = self.value(*names)
        return value if isinstance(value, str) else None

    def items(self, *names: str) -> Sequence[Any]:
        """A list; empty without one."""
        value = self.value(*names)
        return value if isinstance(value, list) else ()

    def integers(self, *names: str) -> list[int]:
        """A list of whole numbers, null as 0; empty without one."""
        return [self._integer(names[0], value or 0) for value in self.items(*names)]

    def numbers(self, *names: str) -> list[float]:
        """A list of numbers, null as 0; empty without one."""
        return [self._number(names[0], value or 0) for value in self.items(*names)]

    def group(self, *names: str) -> "Settings":
        """A group of settings; empty without one."""
        value = self.value(*names)
        return Settings(self._path, value if isinstance(value, dict) else {})

    def groups(self, name: str) -> "list[Settings]":
        """A list of groups of settings; empty without one."""
        values = self.items(name)
        if not all(isinstance(value, dict) for value in values):
            raise self.wrong(name, values, "a list of objects")
        return [Settings(self._path, value) for value in values]

    def with_values(self, **values: Any) -> "Settings":
        """The same with other values."""
        return Settings(self._path, {**self._values, **values})

    @property
    def layers(self) -> int:
        names = "num_hidden_layers", "n_layers", "n_layer", "num_layers"
        return self._at_most(_MOST_LAYERS, self.integer(*names), *names)

    @property
    def hidden_size(self) -> int:
        return self.integer("hidden_size", "n_embd", "d_model", "dim", "model_dim")

    @property
    def heads(self) -> int:
        return self.integer("num_attention_heads", "n_head", "n_heads", "num_heads")

    @property
    def kv_heads(self) -> int:
        found = self.optional_integer("num_key_value_heads", "n_head_kv", "num_kv_heads")
        return found or self.heads

    @property
    def head_dim(self) -> int:
        found = self.optional_integer("head_dim") or self.hidden_size // self.heads
        if not found:
            raise self.wrong("num_attention_heads", self.heads, f"at most {self.hidden_size}")
        return self._at_most(_WIDEST_HEAD, found, "head_dim")

    @property
    def rope(self) -> "Settings":
        """Of rotary positions; where kinds of layers differ, those of layers that see all."""
        rope = self.group("rope_parameters", "rope_scaling")
        full = rope.group("full_attention")
        return full if full.value("rope_theta") is not None else rope

    @property
    def rotary_dim(self) -> int:
        """How many dimensions of a head are rotated."""
        if self.rope_kind == "proportional":  # a share of the pairs, which are those of all
            return self.head_dim
        names = "partial_rotary_factor", "rotary_pct", "rope_pct"
        return int(self.head_dim * self.rotary_share(*names))

    def rotary_share(self, *names: str) -> float:
        """How much of a head is rotated, 1 where nothing says it."""
        share = self.rope.optional_number(*names) or self.optional_number(*names)
        if share is None:
            return 1.0
        if not 0 < share <= 1:
            raise self.wrong(names[0], share, "a share of a head, at most 1")
        return share

    @property
    def rope_kind(self) -> str:
        return self.rope.text("rope_type", "type") or "default"

    @property
    def tied(self) -> bool:
        return self.flag("tie_word_embeddings", False)

    def _at_most(self, most: int, value: int, *names: str) -> int:
        if value > most:
            raise self.wrong(names[0], value, f"at most {most}")
        return value

    def wrong(self, name: str, value: object, expected: str) -> GGUFError:
        found = "missing" if value is None else f"{str(value)[:60]!r}"
        return GGUFError(f"{self._path}: {name} is {found}, expected {expected}")

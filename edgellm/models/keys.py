"""Metadata of one architecture, every value held to a range. Knows no key's meaning."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile


@dataclass(frozen=True)
class Keys:
    """The metadata of one architecture, with a range for every value.

    extra_layers: that the file has behind the model's own; lists may describe them too.
    unlisted_layers: so many at the end may be missing in lists: they are as the last one there.
    """

    file: GGUFFile
    prefix: str
    extra_layers: int = 0
    unlisted_layers: int = 0

    def _name(self, key: str) -> str:
        return f"{self.prefix}.{key}"

    def refuse(self, key: str, found: object, expected: str) -> GGUFError:
        return GGUFError(f"{self._name(key)} is {found}, expected {expected}")

    def _missing(self, key: str) -> GGUFError:
        return GGUFError(f"{self._name(key)} is missing: the file does not describe its model")

    def integer(self, key: str, low: int, high: int, default: int | None = None) -> int:
        """low <= value <= high; the key may be absent only when there is a default."""
        value = self.file.integer(self._name(key))
        if value is None:
            value = default
        if value is None:
            raise self._missing(key)
        if not low <= value <= high:
            raise self.refuse(key, value, f"{low} to {high}")
        return value

    def number(self, key: str, low: float, high: float, default: float | None = None) -> float:
        """Like integer, for finite real numbers."""
        value = self.file.number(self._name(key))
        if value is None:
            value = default
        if value is None:
            raise self._missing(key)
        if not low <= value <= high:  # also refuses what is not a number
            raise self.refuse(key, value, f"{low:g} to {high:g}")
        return value

    def optional_number(self, key: str) -> float | None:
        """A number from 0 to a million; None where it is absent or 0, which writers put there."""
        return self.number(key, 0, 1e6, default=0.0) or None

    def has(self, key: str) -> bool:
        """Whether the file has the key."""
        return self._name(key) in self.file.metadata

    def boolean(self, key: str) -> bool | None:
        """Yes or no, or None where the file does not say."""
        return self.file.boolean(self._name(key))

    def text(self, key: str) -> str | None:
        """Some text, or None where the file does not say."""
        return self.file.string(self._name(key))

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of whole numbers; empty where the file has none."""
        values = self.file.integers(self._name(key))
        return () if values is None else tuple(values.tolist())

    def numbers(self, key: str, num_layers: int, finite: bool = True) -> tuple[float, ...]:
        """A number for each layer, finite unless told, or one for all; writers may pad the list."""
        values = self.file.numbers(self._name(key)) if self.is_array(key) else None
        if values is None:
            return (self.number(key, -1e6, 1e6),) * num_layers
        if len(values) == num_layers - self.unlisted_layers:
            values = self._listed(values)
        is_wrong = finite and not np.isfinite(values[:num_layers]).all()
        if len(values) < num_layers or is_wrong:
            raise self.refuse(key, "another list", f"finite numbers for each of {num_layers}")
        return tuple(values[:num_layers].tolist())

    def _listed(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """The values with those of the layers that are not in the list."""
        return np.concatenate([values, np.repeat(values[-1:], self.unlisted_layers)])

    def is_array(self, key: str) -> bool:
        """Whether the value is a list: one entry per layer."""
        value = self.file.metadata.get(self._name(key))
        return value is not None and not isinstance(value, (bool, int, float, str))

    def per_layer(
        self, key: str, num_layers: int, low: int, high: int, default: tuple[int, ...] | None = None
    ) -> tuple[int, ...]:
        """One number for all layers, or a list with one for each."""
        if default is not None and not self.has(key):
            return default
        if not self.is_array(key):
            return (self.integer(key, low, high),) * num_layers
        values = self.file.metadata[self._name(key)]
        if not (isinstance(values, np.ndarray) and values.dtype.kind in "iub"):
            raise self.refuse(key, "a list of something else", "whole numbers")
        if len(values) == num_layers - self.unlisted_layers:
            values = self._listed(values)
        if len(values) not in (num_layers, num_layers + self.extra_layers):
            raise self.refuse(key, f"a list of {len(values)}", f"one for each of {num_layers}")
        numbers = values[:num_layers].tolist()
        for value in numbers:
            if not low <= value <= high:
                raise self.refuse(key, f"{value} in one layer", f"{low} to {high}")
        return tuple(int(value) for value in numbers)

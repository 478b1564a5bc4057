"""A program in two parts on two backends: what the first computes goes to the second.

Knows nothing of how it was cut or of what either backend is.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Protocol

from edgellm.kernels.batch import Batch
from edgellm.kernels.draw import DrawsNone
from edgellm.model_runner import BlockStore, Executable, Logits


class Continuation(Executable, Protocol):
    """An executable whose program has inputs: values by name, float32 (rows, width).

    reserve: has it take the memory for steps of so many rows now.
    """

    def reserve(self, tokens: int, outputs: int) -> None: ...

    def run(
        self, batch: Batch, given: Mapping[str, Logits] | None = None
    ) -> Mapping[str, Logits]: ...


class MixedExecutable(DrawsNone):
    """Runs `first` and then `second`. Not for two threads at once."""

    def __init__(
        self, first: Executable, second: Continuation, stores: tuple[BlockStore, BlockStore]
    ) -> None:
        self._first, self._second = first, second
        self.store: BlockStore = _BothStores(stores)

    def run(self, batch: Batch) -> Mapping[str, Logits]:
        """The outputs of the second part."""
        crossing = self._first.run(replace(batch, outputs=None))
        return self._second.run(batch, crossing)

    def close(self) -> None:
        """Closes both."""
        self._first.close()
        self._second.close()


class _BothStores:
    """Blocks of which some layers lie in one store and the others in another."""

    def __init__(self, stores: tuple[BlockStore, BlockStore]) -> None:
        self._stores = stores

    def copy(self, group: int | None, source: int, target: int) -> None:
        for store in self._stores:
            store.copy(group, source, target)

    def block_bytes(self, group: int | None) -> int:
        """Bytes of what `read` gives."""
        return 8 + sum(store.block_bytes(group) for store in self._stores)

    def read(self, group: int | None, block: int) -> bytes:
        """The first part's bytes, with their length in front, then the second's."""
        first, second = (store.read(group, block) for store in self._stores)
        return len(first).to_bytes(8, "little") + first + second

    def write(self, group: int | None, block: int, data: bytes) -> None:
        """Puts back what `read` gave."""
        end = 8 + int.from_bytes(data[:8], "little")
        self._stores[0].write(group, block, data[8:end])
        self._stores[1].write(group, block, data[end:])

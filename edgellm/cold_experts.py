"""Experts that stay on disk until they are used, and the memory they take then.

A file with experts may be larger than the memory. Its pages come in when they are touched and are
never written, so that the system can always take them back; here that is done before it has to,
and reading ahead, which would bring in neighbours that nobody asked for, is switched off. Backends
ask for the experts they are about to use (Program.experts_on_disk).
"""

from collections.abc import Callable
from dataclasses import dataclass

from edgellm.gguf_loader import GGUFFile
from edgellm.memory import resident_memory

_EXPERTS = ("_exps.weight",)  # ends of the names of tensors with a matrix for each expert
_LOW_WATER = 7 / 8  # of the limit, down to which pages are given back


@dataclass(frozen=True)
class ExpertBytes:
    """Sizes of a file's tensors. active: of the experts that one token uses."""

    others: int
    experts: int
    active: int

    @property
    def total(self) -> int:
        return self.others + self.experts

    @property
    def least(self) -> int:
        """What must fit into memory for a token to be computed."""
        return self.others + self.active


def expert_names(file: GGUFFile) -> list[str]:
    """The tensors that hold experts, in file order."""
    return [name for name in file.tensors if name.endswith(_EXPERTS)]


def expert_bytes(file: GGUFFile, count: int, used: int) -> ExpertBytes:
    """Of a model with `count` experts, 0 for none, of which a token uses `used`."""
    experts = sum(file.tensors[name].nbytes for name in expert_names(file)) if count else 0
    return ExpertBytes(file.num_bytes - experts, experts, experts * used // count if count else 0)


class ColdExperts:
    """Keeps what is resident of this process near a limit in bytes, by forgetting experts.

    Pages given back stay in the system's cache while it has room: coming back costs little.
    """

    def __init__(
        self, file: GGUFFile, limit: int, resident: Callable[[], int] = resident_memory
    ) -> None:
        self._file, self._limit, self._resident = file, limit, resident
        self._names = expert_names(file)
        self._next = 0
        for name in self._names:
            file.read_exactly(name)

    def trim(self) -> None:
        """To be called between steps: gives back one tensor's pages after another, in turn."""
        if self._resident() <= self._limit:
            return
        for _ in self._names:
            self._file.give_back(self._names[self._next])
            self._next = (self._next + 1) % len(self._names)
            if self._resident() <= self._limit * _LOW_WATER:
                return

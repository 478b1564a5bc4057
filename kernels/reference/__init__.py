"""Every op in plain numpy: the readable specification, and what other backends are tested with.

Knows nothing of models or files. Weights are dequantised when used, a strip of rows at a time.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from edgellm.errors import BackendError
from edgellm.kernels.batch import Batch
from edgellm.kernels.draw import DrawsNone
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import Program
from edgellm.kernels.reference import (
    activation,
    adapters,
    attention,
    elementwise,
    heads,
    moe,
    recurrent,
)
from edgellm.kernels.reference.common import Array, Op

OPS: Mapping[str, Op] = {
    **elementwise.OPS,
    **activation.OPS,
    **attention.OPS,
    **heads.OPS,
    **moe.OPS,
    **recurrent.OPS,
    **adapters.OPS,
}


@dataclass(frozen=True, eq=False)
class Executable(DrawsNone):
    """A program bound to its key and value storage."""

    store: ClassVar[None] = None  # blocks lie in `kv`
    program: Program
    kv: KVStorage
    releases: tuple[tuple[int, ...], ...]  # per call, the values that no later call reads

    def run(self, batch: Batch) -> Mapping[str, Array]:
        """Runs one step; the program's outputs by name. Appends to the key and value storage."""
        values: dict[int, Array] = {}
        with np.errstate(all="ignore"):  # exp(-x) may be infinite; what is not a number stays so
            for call, released in zip(self.program.calls, self.releases, strict=True):
                inputs = tuple(values[v.index] for v in call.inputs)
                result = OPS[call.op](call, inputs, batch, self.kv)
                if call.output is not None and result is not None:
                    values[call.output.index] = result
                for index in released:
                    del values[index]
        outputs = self.program.outputs.items()
        return {name: values[v.index] for name, v in outputs if batch.wants(name)}

    def close(self) -> None:
        """Nothing is held beyond this object."""


def load(program: Program, kv: KVStorage) -> Executable:
    """Binds `program` to `kv`. BackendError names an op that is not known here."""
    for call in program.calls:
        if call.op not in OPS:
            raise BackendError(f"the reference backend has no op called {call.op!r}")
    return Executable(program, kv, _releases(program))


def _releases(program: Program) -> tuple[tuple[int, ...], ...]:
    last_use = {
        value.index: position
        for position, call in enumerate(program.calls)
        for value in (*call.inputs, call.output)
        if value is not None
    }
    for value in program.outputs.values():
        del last_use[value.index]
    released: list[list[int]] = [[] for _ in program.calls]
    for index, position in last_use.items():
        released[position].append(index)
    return tuple(tuple(indices) for indices in released)

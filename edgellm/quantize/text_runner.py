"""Runs a program over texts, one at a time. Knows nothing of what is looked at."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgellm.backends import Backends
from edgellm.kernels.kv import BLOCK_SIZE, CACHE_TYPES
from edgellm.kernels.program import Program
from edgellm.kv_cache import HostStore, KVTypes, allocate
from edgellm.model_runner import ModelRunner
from edgellm.sampling_params import SamplingParams
from edgellm.sequence import Chunk, LogitsRows, Sequence

STEP = 128  # tokens at most: bounds the memory of all that is looked at


class TextRunner:
    """A program on a backend, with a cache for one text of `context` tokens."""

    def __init__(
        self,
        program: Program,
        context: int,
        backends: Backends,
        backend: str = "cpu",
        threads: int | None = None,
    ) -> None:
        blocks = -(-context // BLOCK_SIZE)
        kind = CACHE_TYPES["f32" if backend == "reference" else "f16"]
        kv = allocate(program, (blocks,) * len(program.kv_groups), KVTypes(kind, kind))
        executable = backends.get(backend, threads).load(program, kv)
        self._runner = ModelRunner(executable, program, executable.store or HostStore(program, kv))
        self._tables = [list(range(blocks))] * len(program.kv_groups)

    def begin(self, ids: list[int]) -> Sequence:
        """A text that has all of the cache, until the next one begins."""
        params = SamplingParams()
        return Sequence(ids, len(ids), params, block_tables=self._tables, state_slot=0)

    def run(
        self,
        text: Sequence,
        count: int,
        logits: LogitsRows = "none",
        outputs: frozenset[str] = frozenset(),
    ) -> Mapping[str, npt.NDArray[np.float32]]:
        """Computes the next `count` tokens: their logits, if wanted, and these outputs by name,
        rows that are valid until the next run."""
        batch = self._runner.pack([Chunk(text, count, logits)])
        found = self._runner.run(replace(batch, outputs=(batch.outputs or frozenset()) | outputs))
        text.num_computed_tokens += count
        return found

    def close(self) -> None:
        """Gives back what the backend holds."""
        self._runner.close()

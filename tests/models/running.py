"""Runs a model file on a backend, the reference unless told. Holds no tests."""

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from edgellm.gguf_loader import open_gguf
from edgellm.kernels import reference
from edgellm.kernels.kv import BLOCK_SIZE, CACHE_TYPES, KVStorage
from edgellm.kernels.program import Program
from edgellm.kv_cache import HostStore, KVTypes, allocate
from edgellm.model_runner import Executable, ModelRunner
from edgellm.models import Adapter, read_config, record
from edgellm.sequence import Chunk, Sequence
from edgellm.types import SamplingParams

Logits = npt.NDArray[np.float32]
Load = Callable[[Program, KVStorage], Executable]


def record_file(path: Path, adapters: tuple[Adapter, ...] = ()) -> Program:
    """The program of the model at `path`, for its trained context."""
    with open_gguf(path) as file:
        config = read_config(file)
        return record(file, config, config.context_length, adapters)


class Runner:
    """A model with room for `capacity` sequences of `max_tokens`. load: a backend's."""

    def __init__(
        self,
        path: Path,
        capacity: int = 2,
        max_tokens: int = 64,
        load: Load = reference.load,
        adapters: tuple[Adapter, ...] = (),
    ) -> None:
        self.program = record_file(path, adapters)
        self.blocks_each = -(-max_tokens // BLOCK_SIZE)
        groups = len(self.program.kv_groups)
        blocks = (capacity * self.blocks_each,) * groups
        kv = allocate(
            self.program, blocks, KVTypes(CACHE_TYPES["f32"], CACHE_TYPES["f32"]), capacity
        )
        self.runner = ModelRunner(load(self.program, kv), self.program, HostStore(self.program, kv))
        self.groups = groups
        self.count = 0

    def sequence(self, ids: list[int]) -> Sequence:
        """A new sequence with blocks of its own, in falling order."""
        slot, first = self.count, self.count * self.blocks_each
        self.count += 1
        table = list(range(first, first + self.blocks_each))[::-1]
        return Sequence(
            ids,
            len(ids),
            SamplingParams(),
            block_tables=[table] * self.groups,
            state_slot=slot,
        )

    def step(self, *work: tuple[Sequence, int]) -> Logits:
        """Logits of all rows of one batch of (sequence, how many tokens)."""
        batch = self.runner.pack([Chunk(sequence, count, "all") for sequence, count in work])
        logits = self.runner.run(batch)["logits"].copy()  # the next step overwrites them
        for sequence, count in work:
            sequence.num_computed_tokens += count
        return logits


def hidden_of(
    path: Path, texts: list[list[int]], load: Load = reference.load, seconds: Iterable[int] = ()
) -> list[Logits]:
    """The last layer's rows of each text, computed side by side.

    seconds: where the tokens of a second text begin, for the first of the texts.
    """
    runner = Runner(path, len(texts), max(map(len, texts)), load)
    sequences = [runner.sequence(ids) for ids in texts]
    for sequence in sequences:
        sequence.wants_hidden = True
    for sequence, second in zip(sequences, seconds, strict=False):
        sequence.adapter_scales, sequence.adapter_starts = (1.0,), (second,)
    chunks = [Chunk(s, len(s.token_ids), "none") for s in sequences]
    rows = runner.runner.run(runner.runner.pack(chunks))["hidden"]
    return np.split(rows, np.cumsum([len(ids) for ids in texts])[:-1])


def logits_of(path: Path, ids: list[int], load: Load = reference.load) -> Logits:
    """Logits of every position of one sequence, computed at once."""
    runner = Runner(path, capacity=1, max_tokens=len(ids), load=load)
    return runner.step((runner.sequence(ids), len(ids)))

"""Turns planned chunks into index arrays and runs them. Knows nothing of text or of scheduling.

All index arithmetic between sequences and kernels lives here.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence as Seq
from dataclasses import replace
from itertools import accumulate
from typing import Protocol

import numpy as np
import numpy.typing as npt

from edgellm.decode_batch import SPARE, DecodeBatch, decode_batch
from edgellm.errors import RequestError
from edgellm.kernels.batch import Batch
from edgellm.kernels.draw import Draws
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.program import Program
from edgellm.sequence import BlockCopy, Chunk, Sequence

Logits = npt.NDArray[np.float32]


class BlockStore(Protocol):
    """Where a backend keeps blocks of keys and values, and states as those of group None."""

    def copy(self, group: int | None, source: int, target: int) -> None: ...

    def block_bytes(self, group: int | None) -> int: ...

    def read(self, group: int | None, block: int) -> bytes: ...

    def write(self, group: int | None, block: int, data: bytes) -> None: ...


class Executable(Protocol):
    """What a backend's load() returns. store: None where blocks lie in the KVStorage. can_draw:
    whether it can do without others between steps; the result of draw: (sequences, steps)."""

    @property
    def store(self) -> BlockStore | None: ...

    @property
    def can_draw(self) -> bool: ...

    def run(self, batch: Batch) -> Mapping[str, Logits]: ...

    def draw(self, batch: Batch, draws: Draws) -> npt.NDArray[np.int64]: ...

    def close(self) -> None: ...


class ModelRunner:
    """One loaded model on one backend. after_step: is called when logits are there.

    followed: the output that whoever guesses tokens ahead reads of all steps, None is none.
    """

    def __init__(
        self,
        executable: Executable,
        program: Program,
        store: BlockStore,
        after_step: Callable[[], None] | None = None,
        followed: str | None = None,
    ) -> None:
        self._executable = executable
        self._program = program
        self.store = store
        self._after_step = after_step
        self._followed = () if followed is None else (followed,)
        self._decode: DecodeBatch | None = None  # of the last step

    @property
    def num_groups(self) -> int:
        """Block tables that a sequence of this model has."""
        return len(self._program.kv_groups)

    def copy(self, copies: Iterable[BlockCopy]) -> None:
        """Copies blocks, one after another."""
        for copy in copies:
            self.store.copy(copy.group, copy.source, copy.target)

    def pack(self, chunks: list[Chunk]) -> Batch:
        """The index arrays of one step that computes `chunks`, in their order.

        Every sequence must have blocks for all of its chunk. RequestError for a token id that
        the model does not have. The batch may be the one of the step before, written again.
        """
        batch = None if self._decode is None else self._decode.advance(chunks)
        if batch is None:
            batch = self._packed(chunks)
            self._decode = decode_batch(chunks, batch, self._program.vocab_size)
        return batch

    def _packed(self, chunks: list[Chunk]) -> Batch:
        ids: list[int] = []
        spans = []
        for chunk in chunks:
            done = chunk.sequence.num_computed_tokens
            places = range(done, done + chunk.count)
            new_ids = chunk.sequence.token_ids[done : places.stop]
            if not 0 < chunk.count == len(new_ids):
                raise ValueError(f"a chunk of {chunk.count} tokens with {len(new_ids)} to compute")
            ids += new_ids
            spans.append((chunk.sequence, places))
        spare = SPARE if all(chunk.is_decode for chunk in chunks) else 0
        batch = pack_spans(spans, self._program, self._checked(ids), spare)
        return replace(
            batch,
            state_slots=self._state_slots(chunks),
            logits_rows=np.array(_logits_rows(chunks, batch.query_start.tolist()), np.int32),
            outputs=_outputs(chunks).union(self._followed),
            num_best=_num_best(chunks),
            keeps_outputs=False,
        )

    def _state_slots(self, chunks: list[Chunk]) -> npt.NDArray[np.int32]:
        if not self._program.state_layers:
            return np.zeros(len(chunks), np.int32)
        slots = [chunk.sequence.state_slot for chunk in chunks]
        if None in slots or len(set(slots)) < len(slots):
            raise ValueError(f"sequences of one step have the state slots {slots}")
        return np.array(slots, np.int32)

    def _checked(self, ids: list[int]) -> npt.NDArray[np.int32]:
        """Kernels index the embedding with these and check nothing."""
        size = self._program.vocab_size
        for token_id in (min(ids), max(ids)):
            if not 0 <= token_id < size:
                raise RequestError(
                    f"token id {token_id} is outside the vocabulary of {size}", field="prompt"
                )
        return np.array(ids, np.int32)

    def run(self, batch: Batch) -> Mapping[str, Logits]:
        """What the batch wants: logits (len(batch.logits_rows), vocab_size) and the hidden rows of
        all tokens, (T, hidden_size); valid until the next run."""
        outputs = self._executable.run(batch)
        if self._after_step is not None:
            self._after_step()
        return outputs

    @property
    def can_draw(self) -> bool:
        """Whether `draw` can be called."""
        return self._executable.can_draw and not self._followed

    def draw(self, batch: Batch, draws: Draws) -> list[list[int]]:
        """Computes the batch last packed, one token of each sequence, and the steps after it on
        what it draws; the tokens by sequence. -1 where logits were no numbers."""
        tokens: list[list[int]] = self._executable.draw(batch, draws).tolist()
        if self._decode is not None:
            self._decode.skip(draws.steps - 1)
        if self._after_step is not None:
            self._after_step()
        return tokens

    def close(self) -> None:
        """Gives back what the backend holds."""
        self._executable.close()


def pack_spans(
    spans: Seq[tuple[Sequence, range]],
    program: Program,
    input_ids: npt.NDArray[np.int32],
    spare: int = 0,
) -> Batch:
    """A batch of these positions of these sequences, no logits and no states wanted.

    Every sequence must have blocks for its last position. spare: blocks that tables have room for
    beside those; what sequences hold of them already is in it.
    """
    num_groups = len(program.kv_groups)
    seq_lens = [places.stop for _, places in spans]
    width = -(-max(seq_lens) // BLOCK_SIZE) + spare
    block_tables = np.zeros((num_groups, len(spans), width), np.int32)
    scales = np.zeros((len(spans), program.num_adapters), np.float32)
    starts = np.zeros(scales.shape, np.int32)
    positions: list[int] = []
    slots: list[list[int]] = [[] for _ in range(num_groups)]
    for s, (sequence, places) in enumerate(spans):
        positions += places
        scales[s, : len(sequence.adapter_scales)] = sequence.adapter_scales
        starts[s, : len(sequence.adapter_starts)] = sequence.adapter_starts
        used = -(-places.stop // BLOCK_SIZE)
        for group, (own, table) in enumerate(zip(slots, sequence.block_tables, strict=True)):
            if len(table) < used:
                raise ValueError(f"{places.stop} tokens need {used} blocks and have {len(table)}")
            held = table[: used + spare]
            block_tables[group, s, : len(held)] = held
            own += [table[p // BLOCK_SIZE] * BLOCK_SIZE + p % BLOCK_SIZE for p in places]
    return Batch(
        input_ids=input_ids,
        positions=np.array(positions, np.int32),
        query_start=np.array([0, *accumulate(len(places) for _, places in spans)], np.int32),
        seq_lens=np.array(seq_lens, np.int32),
        slot_mapping=np.array(slots, np.int64).reshape(num_groups, len(positions)),
        block_tables=block_tables,
        state_slots=np.zeros(len(spans), np.int32),
        logits_rows=np.zeros(0, np.int32),
        adapter_scales=scales,
        adapter_starts=starts if starts.any() else None,
        outputs=frozenset(),
    )


def _outputs(chunks: list[Chunk]) -> frozenset[str]:
    logits = any(chunk.logits != "none" for chunk in chunks)
    hidden = any(chunk.sequence.wants_hidden for chunk in chunks)
    return frozenset(["logits"] * logits + ["hidden"] * hidden)


def _num_best(chunks: list[Chunk]) -> int | None:
    wanted = [chunk.sequence.num_best for chunk in chunks if chunk.logits != "none"]
    known = [number for number in wanted if number is not None]
    return max(known, default=0) if len(known) == len(wanted) else None


def _logits_rows(chunks: list[Chunk], query_start: list[int]) -> list[int]:
    rows: list[int] = []
    for chunk, end in zip(chunks, query_start[1:], strict=True):
        rows += range(end - chunk.num_rows, end)
    return rows

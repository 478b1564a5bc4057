"""One forward pass's index arrays. Knows nothing of sequences, only of rows, slots and blocks.

Rows of all sequences lie one after another: sequence s owns rows query_start[s] to
query_start[s + 1], the last of which is at position seq_lens[s] - 1.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Float32 = npt.NDArray[np.float32]
Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Batch:
    """Index arrays of one step; T rows (tokens), S sequences, G KV groups, L logits rows.

    input_ids (T,), positions (T,), query_start (S + 1,), seq_lens (S,): as in the module docstring.
    slot_mapping (G, T): where each row's key and value go, block * block_size + offset.
    block_tables (G, S, B): the blocks of each sequence in position order; unused entries are 0.
    state_slots (S,): where each sequence keeps the states of recurrences.
    adapter_scales (S, A): how much of each adapter a sequence takes, 0 is none of it.
    adapter_starts (S, A): from which position on it takes that; None: from the first.
    logits_rows (L,): the rows whose logits are wanted, ascending.
    outputs: names of the program's outputs that are wanted; None: all.
    num_best: of each row of logits so many of the largest matter, of equals those of lower ids; a
    backend may give -inf in place of the others. None: all.
    keeps_outputs: False where nobody reads the outputs any more when the next step begins, so that
    a backend may lend its own memory.

    A batch may be run again with other numbers in input_ids, positions, seq_lens and slot_mapping.
    """

    input_ids: Int32
    positions: Int32
    query_start: Int32
    seq_lens: Int32
    slot_mapping: Int64
    block_tables: Int32
    state_slots: Int32
    logits_rows: Int32
    adapter_scales: Float32 = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    adapter_starts: Int32 | None = None
    outputs: frozenset[str] | None = None
    num_best: int | None = None
    keeps_outputs: bool = True

    def wants(self, output: str) -> bool:
        """Whether the output of this name is to be read back."""
        return self.outputs is None or output in self.outputs

    def row_scales(self) -> Float32:
        """How much of each adapter a row takes: (T, A)."""
        if not self.adapter_scales.size:
            return np.zeros((self.num_tokens, 0), np.float32)
        sizes = np.diff(self.query_start)
        scales = np.repeat(self.adapter_scales, sizes, axis=0)
        if self.adapter_starts is None:
            return scales
        begun = self.positions[:, None] >= np.repeat(self.adapter_starts, sizes, axis=0)
        return np.where(begun, scales, np.float32(0))

    @property
    def num_tokens(self) -> int:
        return len(self.input_ids)

    @property
    def num_seqs(self) -> int:
        return len(self.seq_lens)

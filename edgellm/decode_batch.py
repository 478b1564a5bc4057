"""The index arrays of a step of decoding, written again for the next one.

Between most steps the same sequences go on by a token each, in the blocks that they have: four
numbers of each change. Making all arrays anew would take as long as all else that is done between
two steps. Knows nothing of programs or of how sequences were chosen.
"""

from dataclasses import dataclass

from edgellm.kernels.batch import Batch
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.sequence import Chunk, Sequence


@dataclass(eq=False)
class _Row:
    """Where a sequence was in the step before. table: its blocks, per group; state: its slot."""

    sequence: Sequence
    position: int
    tables: list[list[int]]
    state: int | None

    def goes_on(self, chunk: Chunk) -> bool:
        """Whether a chunk is the sequence's next token, and all else as it was."""
        sequence, position = self.sequence, self.position + 1
        return (
            chunk.sequence is sequence
            and chunk.count == 1
            and chunk.logits == "last"
            and sequence.num_computed_tokens == position
            and len(sequence.token_ids) > position
            and position % BLOCK_SIZE != 0
            and sequence.block_tables == self.tables
            and sequence.state_slot == self.state
        )


class DecodeBatch:
    """A batch of the last tokens of some sequences, one of each."""

    def __init__(self, chunks: list[Chunk], batch: Batch, vocab_size: int) -> None:
        self._batch, self._vocab_size = batch, vocab_size
        self._rows = [
            _Row(s, s.num_computed_tokens, [list(table) for table in s.block_tables], s.state_slot)
            for s in (chunk.sequence for chunk in chunks)
        ]
        self._slots = [batch.slot_mapping[group] for group in range(len(batch.slot_mapping))]

    def advance(self, chunks: list[Chunk]) -> Batch | None:
        """The batch, moved on by a token of each sequence; None where that is not what the chunks
        are, or one needs another block."""
        if len(chunks) != len(self._rows):
            return None
        if not all(row.goes_on(chunk) for row, chunk in zip(self._rows, chunks, strict=True)):
            return None
        ids = [row.sequence.token_ids[row.position + 1] for row in self._rows]
        if not all(0 <= token_id < self._vocab_size for token_id in ids):
            return None
        batch = self._batch
        for place, row in enumerate(self._rows):
            row.position += 1
            batch.input_ids[place] = ids[place]
            batch.positions[place] = row.position
            batch.seq_lens[place] = row.position + 1
            for slots in self._slots:
                slots[place] += 1
        return batch


def decode_batch(chunks: list[Chunk], batch: Batch, vocab_size: int) -> DecodeBatch | None:
    """The batch that was made of these chunks, if it can go on."""
    if all(chunk.count == 1 and chunk.logits == "last" for chunk in chunks):
        return DecodeBatch(chunks, batch, vocab_size)
    return None

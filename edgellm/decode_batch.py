"""The index arrays of a step of decoding, written again for the next one.

Between most steps the same sequences go on by a token each: four numbers of each change, and now
and then a block is added. Making all arrays anew would take as long as all else that is done
between two steps. Knows nothing of programs or of how sequences were chosen.
"""

from dataclasses import dataclass

from edgellm.kernels.batch import Batch
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.sequence import Chunk, Sequence

SPARE = 8  # blocks that tables have room for beside those that sequences hold


@dataclass(eq=False)
class _Row:
    """Where a sequence was in the step before. tables: its blocks, per group; state: its slot."""

    sequence: Sequence
    position: int
    tables: list[list[int]]
    state: int | None

    def goes_on(self, chunk: Chunk, width: int) -> bool:
        """Whether a chunk is the sequence's next token, its blocks are those that it had, or these
        and more that fit, and all else is as it was."""
        sequence, position = self.sequence, self.position + 1
        return (
            chunk.sequence is sequence
            and chunk.count == 1
            and chunk.logits == "last"
            and sequence.num_computed_tokens == position
            and len(sequence.token_ids) > position
            and sequence.state_slot == self.state
            and all(
                table == known or (len(table) <= width and table[: len(known)] == known)
                for table, known in zip(sequence.block_tables, self.tables, strict=True)
            )
        )


class DecodeBatch:
    """A batch of the last tokens of some sequences, one of each."""

    def __init__(self, chunks: list[Chunk], batch: Batch, vocab_size: int) -> None:
        self._batch, self._vocab_size = batch, vocab_size
        self._width = batch.block_tables.shape[2]
        self._rows = [
            _Row(s, s.num_computed_tokens, [list(table) for table in s.block_tables], s.state_slot)
            for s in (chunk.sequence for chunk in chunks)
        ]

    def advance(self, chunks: list[Chunk]) -> Batch | None:
        """The batch, moved on by a token of each sequence; None where that is not what the chunks
        are, or the tables have no room."""
        if len(chunks) != len(self._rows):
            return None
        pairs = zip(self._rows, chunks, strict=True)
        if not all(row.goes_on(chunk, self._width) for row, chunk in pairs):
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
            block, within = divmod(row.position, BLOCK_SIZE)
            for group, (table, known) in enumerate(
                zip(row.sequence.block_tables, row.tables, strict=True)
            ):
                if len(table) > len(known):
                    batch.block_tables[group, place, len(known) : len(table)] = table[len(known) :]
                    known += table[len(known) :]
                batch.slot_mapping[group, place] = table[block] * BLOCK_SIZE + within
        return batch

    def skip(self, steps: int) -> None:
        """The batch's arrays have been moved on by so many tokens of each sequence."""
        for row in self._rows:
            row.position += steps


def decode_batch(chunks: list[Chunk], batch: Batch, vocab_size: int) -> DecodeBatch | None:
    """The batch that was made of these chunks, if it can go on."""
    if all(chunk.count == 1 and chunk.logits == "last" for chunk in chunks):
        return DecodeBatch(chunks, batch, vocab_size)
    return None

"""Runs the head that predicts one token more, over the blocks that sequences hold anyway.

Knows nothing of when that pays or of what is drawn from its logits.
"""

from collections.abc import Sequence as Seq
from dataclasses import dataclass, replace

import numpy as np

from edgellm.drafters.drafter import Hidden
from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.model_runner import Executable, Logits, pack_spans
from edgellm.models import MTPHead
from edgellm.sequence import Sequence


@dataclass(frozen=True, eq=False)
class HeadRows:
    """`tokens` of a sequence from position `first` on, and the hidden row before each of them.

    The sequence holds blocks for their positions.
    """

    sequence: Sequence
    first: int
    tokens: list[int]
    hidden: Hidden

    def part(self, begin: int, end: int) -> "HeadRows":
        """Some of them, by their numbers."""
        tokens, hidden = self.tokens[begin:end], self.hidden[begin:end]
        return HeadRows(self.sequence, self.first + begin, tokens, hidden)


class HeadRunner:
    """executable: of the head's program, over the same storage as the model's."""

    def __init__(self, head: MTPHead, executable: Executable) -> None:
        self._head = head
        (self._group,) = (
            int(c.attributes["group"]) for c in head.program.calls if c.op == "store_kv"
        )
        self._executable = executable

    @property
    def most_rows(self) -> int:
        """That one run can take."""
        return len(self._head.given)

    def read(self, rows: HeadRows) -> None:
        """Computes the head's keys and values of these rows, as many as there are."""
        rows = self._held(rows)
        for begin in range(0, len(rows.tokens), self.most_rows):
            self._run([rows.part(begin, begin + self.most_rows)], False)

    def predict(self, parts: Seq[HeadRows]) -> tuple[Logits, Hidden]:
        """Of each part, after its last token: logits (parts, vocab_size) and what stands for the
        model's row (parts, hidden_size). At most `most_rows` rows together."""
        return self._run([self._held(part) for part in parts], True)

    def close(self) -> None:
        self._executable.close()

    def _held(self, rows: HeadRows) -> HeadRows:
        """Without those that the head's window has left behind: their blocks may be another's."""
        left = BLOCK_SIZE * rows.sequence.left_behind[self._group]
        return rows.part(max(0, left - rows.first), len(rows.tokens))

    def _run(self, parts: Seq[HeadRows], predicts: bool) -> tuple[Logits, Hidden]:
        head, spans, tokens = self._head, [], []
        for part in parts:
            spans.append((part.sequence, range(part.first, part.first + len(part.tokens))))
            tokens += part.tokens
        count, width = len(tokens), head.embedding.columns
        stored = head.embedding.data[tokens]
        head.given[:count, :width] = dequantize_rows(head.embedding.format, stored)
        head.given[:count, width:] = np.concatenate([part.hidden for part in parts])
        batch = pack_spans(spans, head.program, np.arange(count, dtype=np.int32))
        if not predicts:
            self._executable.run(batch)
            empty = np.zeros((0, 0), np.float32)
            return empty, empty
        last = batch.query_start[1:] - 1
        outputs = frozenset(head.program.outputs)
        made = self._executable.run(replace(batch, logits_rows=last, outputs=outputs))
        return made["logits"], made["hidden"][last]

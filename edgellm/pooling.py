"""What becomes of a text's hidden rows: one row of them all, or the rows as they are.

Runs in the engine's thread. Knows nothing of scheduling, batches or how rows are computed.
"""

from collections.abc import Callable, Sequence as Seq
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from edgellm.consumer import OnlyTakes
from edgellm.errors import EdgeLLMError
from edgellm.models import PooledHead
from edgellm.sequence import Sequence
from edgellm.types import Pooling

Rows = npt.NDArray[np.float32]  # (rows, hidden_size), valid during the call only
Float64 = npt.NDArray[np.float64]


@dataclass(eq=False)
class Pooler(OnlyTakes):
    """Pools the hidden rows of a sequence as they come, then calls done.

    The sum of "mean" is taken row by row, so that chunks make no difference. Rows of "none" stay as
    they are, an embedding has length 1, and "rank" gives a score for each label. done: gets what
    was computed, float32 (rows, width), or what went wrong; runs in the engine's thread.
    """

    request_id: str
    sequence: Sequence
    pooling: Pooling
    head: PooledHead
    done: Callable[[Rows | Exception], None]
    _num_rows: int = 0
    _kept: list[Rows] = field(default_factory=list)
    _sum: Float64 | None = None

    def begin(self) -> None:
        pass

    def take(self, rows: Rows, drafts: Seq[int] = ()) -> bool:
        end = self.sequence.num_computed_tokens
        first = end - len(rows)
        # After a preemption rows may come again, and those before score_from are not wanted.
        wanted = max(self._num_rows, self.sequence.score_from or 0)
        self._add(rows[max(0, wanted - first) :])
        self._num_rows = max(wanted, end)
        finished = end == len(self.sequence.token_ids)
        if finished:
            self.done(self._result())
        return finished

    def abort(self) -> None:
        self.done(EdgeLLMError("the embedding was aborted: the model was unloaded"))

    def fail(self, error: Exception) -> None:
        self.done(error)

    def _add(self, rows: Rows) -> None:
        if not len(rows):
            return
        match row_pooling(self.pooling, self.head):
            case "none":
                self._kept.append(rows.copy())
            case "cls":
                self._kept = self._kept or [rows[:1].copy()]
            case "last":
                self._kept = [rows[-1:].copy()]
            case _:
                total = np.zeros(rows.shape[1]) if self._sum is None else self._sum
                for row in rows:
                    total = total + row
                self._sum = total

    def _result(self) -> Rows:
        if self.pooling == "none":
            return np.concatenate(self._kept)
        if self._sum is not None:
            row = self._sum / len(self.sequence.token_ids)
        else:
            row = self._kept[0][0].astype(np.float64)
        if self.pooling == "rank":
            return self.head.classify(row).astype(np.float32)[None]
        return normalized(self.head.project(row)).astype(np.float32)[None]


def row_pooling(pooling: Pooling, head: PooledHead) -> Pooling:
    """How a row is made, if it is ranked then or not."""
    return head.rank_pooling if pooling == "rank" else pooling


def normalized(row: Float64) -> Float64:
    """The row with Euclidean length 1; zeros stay."""
    length = float(np.sqrt(np.sum(row**2)))
    return row / length if length > 0 else row

"""The rows that Model.score hands out, pulled one at a time, so that two models go side by side.

Model.score pushes blocks of rows from the engine's thread. Here that thread waits while the caller
looks at a block: no row is copied, and of several models that are read in turn one computes while
the others wait. Knows nothing of what rows are for.
"""

import queue
import threading
from collections.abc import Generator

import numpy as np
import numpy.typing as npt

from edgellm.llm import Model

Row = npt.NDArray[np.float32]


class _Left(Exception):
    """Ends a scoring whose reader has gone."""


def rows(model: Model, ids: list[int], start: int) -> Generator[Row, None, None]:
    """Logits, float32 (vocab_size,), of every position from `start` on.

    A row is valid until the next one is asked for. Close the iterator when it is left early: the
    model's engine waits until then. Errors are those of Model.score.
    """
    blocks: queue.SimpleQueue[Row | BaseException | None] = queue.SimpleQueue()
    answers: queue.SimpleQueue[bool] = queue.SimpleQueue()  # whether to go on

    def take(position: int, block: Row) -> None:
        blocks.put(block)
        if not answers.get():
            raise _Left

    def score() -> None:
        try:
            model.score(ids, take, start)
        except BaseException as error:
            blocks.put(error)
        else:
            blocks.put(None)

    threading.Thread(target=score, name="edgellm-rows", daemon=True).start()
    try:
        while (block := blocks.get()) is not None:
            if isinstance(block, BaseException):
                raise block
            yield from block
            answers.put(True)
    finally:
        answers.put(False)

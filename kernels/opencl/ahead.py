"""Which step comes next, where nobody has said so yet. Knows nothing of devices.

A sequence whose next token is the best one of its last row goes on in the next slot of its block.
A device may compute that step before the host has seen the token. Should another step come, what it
wrote lies behind the end of every sequence, where nothing is read before it is written again.
"""

from dataclasses import fields, replace
from typing import Any

import numpy as np

from edgellm.kernels.batch import Batch, Int32
from edgellm.kernels.kv import BLOCK_SIZE


def following(batch: Batch) -> Batch | None:
    """The step after one of a token for each sequence, without its input_ids; None where they
    need new blocks, or where it is no such step."""
    rows = np.arange(batch.num_seqs)
    is_decode = batch.num_tokens == batch.num_seqs and np.array_equal(batch.logits_rows, rows)
    slots = batch.slot_mapping + 1
    if not is_decode or not (slots % BLOCK_SIZE).all():
        return None
    return replace(
        batch, positions=batch.positions + 1, seq_lens=batch.seq_lens + 1, slot_mapping=slots
    )


def is_same(expected: Batch, batch: Batch, ids: Int32) -> bool:
    """Whether a batch is the one that was expected, with these input_ids."""
    expected = replace(expected, input_ids=ids)
    return all(_equal(getattr(expected, f.name), getattr(batch, f.name)) for f in fields(Batch))


def _equal(a: Any, b: Any) -> bool:
    return np.array_equal(a, b) if isinstance(a, np.ndarray) else bool(a == b)

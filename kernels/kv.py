"""The cache as kernels see it: keys and values, states. Knows nothing of who owns a block."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

BLOCK_SIZE = 32  # tokens per block, a divisor of ops.ATTENTION_TILE

KVArray = npt.NDArray[np.float32] | npt.NDArray[np.float16]


@dataclass(frozen=True, eq=False)
class KVStorage:
    """keys, values: by layer, (num_blocks, num_kv_heads, BLOCK_SIZE, head_dim or value_dim).

    float32 or float16, chosen apart for keys and values. The backend that writes a block decides
    how it lies inside (the cpu backend keeps a head's keys as (head_dim, BLOCK_SIZE)), so that
    others may copy, move or save whole blocks and read nothing from them.
    states: one array per recurrence, float32 (num_slots, *StateLayer.stored_shape), a slot for each
    sequence that runs. A sequence at position 0 starts from zero whatever its slot holds.
    """

    keys: tuple[KVArray, ...]
    values: tuple[KVArray, ...]
    states: tuple[npt.NDArray[np.float32], ...] = ()

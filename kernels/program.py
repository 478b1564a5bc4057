"""A recorded forward pass as data: values, weights, op calls, the shapes of caches.

`kernels.ops` records it, backends run it. Nothing here knows of models, files or machines; weights
arrive as byte arrays with a format.

Values are float32 matrices with one row per token of the batch ("tokens"), or one per wanted
logits row ("outputs"). A Value has one writer.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats import Format, by_id

Rows = Literal["tokens", "outputs"]

STATE_ALIGNMENT = 16  # floats: rows of a state begin and end on a cache line
ATTENTION_TILE = 256  # keys per partial softmax, counted from position 0; part of the numerics


@dataclass(frozen=True)
class Value:
    """A float32 matrix (rows, width) that exists while a program runs."""

    index: int
    width: int
    rows: Rows = "tokens"


@dataclass(frozen=True, eq=False)
class Weight:
    """A matrix as stored: `rows` output features of `columns` weights in a block format.

    data: uint8 (rows, row_bytes), usually a view of a memory map. Vectors have one row.
    """

    name: str
    type_id: int
    rows: int
    columns: int
    data: npt.NDArray[np.uint8]

    @property
    def format(self) -> Format:
        return by_id(self.type_id)


@dataclass(frozen=True, eq=False)
class OpCall:
    """One op with its operands. `attributes` are numbers and names fixed at record time."""

    op: str
    inputs: tuple[Value, ...]
    weights: tuple[Weight, ...]
    output: Value | None
    attributes: Mapping[str, int | float | str]


@dataclass(frozen=True)
class KVGroup:
    """Layers that see the same part of the past and so share block tables.

    window: keys a query sees, itself included; None is all of them.
    """

    window: int | None
    layers: tuple[int, ...]


@dataclass(frozen=True)
class KVLayer:
    """Shape of one layer's cache. `group` indexes Program.kv_groups.

    head_dim: numbers of a key. value_dim: of a stored value; 0 where values are part of the keys.
    """

    group: int
    num_kv_heads: int
    head_dim: int
    value_dim: int


@dataclass(frozen=True)
class StateLayer:
    """What one recurrence keeps of a sequence between steps: `rows` vectors of `width` float32."""

    rows: int
    width: int

    @property
    def stored_shape(self) -> tuple[int, int]:
        """(rows, width padded to STATE_ALIGNMENT)."""
        return self.rows, -(-self.width // STATE_ALIGNMENT) * STATE_ALIGNMENT


@dataclass(frozen=True, eq=False)
class Program:
    """A recorded forward pass.

    outputs: values by name. A language model has logits (rows "outputs"), a model of text has
    hidden: what its last layer says of each token, normed (rows "tokens").

    num_adapters: columns of Batch.adapter_scales that it reads. experts_on_disk: not all weights of
    experts fit into memory, so that those of the chosen ones should be asked for early. inputs:
    values that whoever runs it gives, by name; a whole model has none.
    """

    calls: tuple[OpCall, ...]
    outputs: Mapping[str, Value]
    kv_groups: tuple[KVGroup, ...]
    kv_layers: tuple[KVLayer, ...]
    vocab_size: int
    state_layers: tuple[StateLayer, ...] = ()
    num_adapters: int = 0
    experts_on_disk: bool = False
    inputs: Mapping[str, Value] = field(default_factory=dict)

    @property
    def is_causal(self) -> bool:
        """Whether no token sees those after it."""
        return all(call.attributes.get("causal", 1) for call in self.calls)

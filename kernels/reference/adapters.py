"""Adapters with a scale for each sequence, in numpy."""

from collections.abc import Mapping

import numpy as np

from edgellm.kernels.batch import Batch
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.program import OpCall
from edgellm.kernels.reference.common import Array, Inputs, Op, vector


def _add(x: Array, change: Array, call: OpCall, batch: Batch) -> Array:
    assert call.output is not None
    scales = batch.row_scales()[:, int(call.attributes["adapter"])]
    if call.output.rows == "outputs":
        scales = scales[batch.logits_rows]
    return np.where(scales[:, None] == 0, x, x + scales[:, None] * change)


def _add_scaled(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    x, change = inputs
    return _add(x, change, call, batch)


def _add_direction(call: OpCall, inputs: Inputs, batch: Batch, kv: KVStorage) -> Array:
    return _add(inputs[0], vector(call.weights[0])[None], call, batch)


OPS: Mapping[str, Op] = {"add_scaled": _add_scaled, "add_direction": _add_direction}

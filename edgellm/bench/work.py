"""What a program's products have to do per token: multiply-adds and bytes of weights.

Attention, the cache and vectors are left out: at short contexts they are small beside the weights.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgellm.kernels.program import OpCall, Program


@dataclass(frozen=True)
class Work:
    """macs_per_token: multiply-adds for each row. macs_per_output: further ones for each row of
    logits. weights: the bytes that a step with one token reads, each once."""

    macs_per_token: int
    macs_per_output: int
    weights: tuple[npt.NDArray[np.uint8], ...]

    @property
    def num_bytes(self) -> int:
        return sum(part.nbytes for part in self.weights)


def work(program: Program) -> Work:
    """Reckons from the recorded products; of experts it takes as many as a token is sent to."""
    macs = {"tokens": 0, "outputs": 0}
    weights = []
    for call in program.calls:
        if call.op not in ("matmul", "moe_matmul") or call.output is None:
            continue
        used = call.weights[0].data[: _rows(call)]
        macs[call.output.rows] += _rows(call) * call.weights[0].columns
        weights.append(used)
    return Work(macs["tokens"], macs["outputs"], tuple(weights))


def _rows(call: OpCall) -> int:
    """Rows of the weight that one token is multiplied with."""
    weight = call.weights[0]
    if call.op == "matmul":
        return weight.rows
    ranks = call.inputs[1].width // 2
    return weight.rows // int(call.attributes["experts"]) * ranks

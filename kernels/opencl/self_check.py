"""Products of a device held against exact ones, for each type of weights in a program.

A driver that compiles a kernel wrongly must not give a model that talks nonsense.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from edgellm.errors import DriverFault
from edgellm.kernels.formats import dequantize_rows
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.executable import Executable
from edgellm.kernels.opencl.ops import lower
from edgellm.kernels.opencl.warm_up import small_batch
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Program, Weight

_ROWS = 150  # of a matrix: several strips, the last of them not whole
_COLUMNS = 1024
_TOKENS = 49  # as many as the largest tile takes, and one row more
_TOLERANCE = 1e-5  # of the sum of the magnitudes of all products


def checks(context: Context, program: Program) -> Iterator[Callable[[], None]]:
    """A check for each type of weights that the program multiplies with, on rows of its own."""
    weights = [call.weights[0] for call in program.calls if call.op == "matmul"]
    for weight in {weight.type_id: weight for weight in reversed(weights)}.values():
        rows, columns = min(_ROWS, weight.rows), min(_COLUMNS, weight.columns)
        data = weight.data[:rows, : weight.format.row_bytes(columns)]
        yield partial(_check, context, replace(weight, rows=rows, columns=columns, data=data))


def _check(context: Context, weight: Weight) -> None:
    """DriverFault where a kernel is wrong, or not all that may compute a row agree on its bits."""
    # Whole numbers up to 127 stay what they are as int8, so that the result is exact.
    x = np.random.default_rng(0).integers(-127, 128, (_TOKENS, weight.columns)).astype(np.float32)
    x[:, ::32] = 127
    stored = dequantize_rows(weight.format, weight.data).astype(np.float64)
    want, most = x @ stored.T, np.abs(x) @ np.abs(stored).T
    b = Builder()
    given = b.embed(Weight("x", 0, _TOKENS, weight.columns, x.view(np.uint8)))
    program, kv = b.finish(logits=b.matmul(given, weight)), KVStorage((), ())
    plan = lower(program, kv, context)
    executable = Executable(program, plan, context)
    least = sorted({choice.least for launch in plan.launches for choice in launch.choices})
    got = [_rows(executable, min(tokens, _TOKENS)) for tokens in (*least, _TOKENS)]
    executable.close()
    error = np.abs(got[-1] - want)
    agree = all(np.array_equal(rows, got[-1][: len(rows)]) for rows in got)
    if not agree or not (error <= _TOLERANCE * most).all():  # an error of NaN is not
        raise DriverFault(
            f"the driver of {context.device.name.strip()} computes products with "
            f"{weight.format.name} weights wrongly ({context.variant.name} kernels): update it, "
            "choose another device, or use --backend cpu"
        )


def _rows(executable: Executable, tokens: int) -> np.ndarray:
    batch = replace(small_batch((tokens,), 0, 0, 0), input_ids=np.arange(tokens, dtype=np.int32))
    return executable.run(batch)["logits"].copy()

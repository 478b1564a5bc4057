"""The table of the numpy backend has every op of the builder, and says which it lacks."""

from dataclasses import replace

import numpy as np
import pytest

from edgellm.errors import BackendError
from edgellm.kernels import reference
from edgellm.kernels.ops import Builder
from edgellm.kernels.ops.base import Recording
from edgellm.kernels.program import OpCall
from tests.kernels.reference.programs import NO_KV, weight


def test_an_op_it_does_not_have_is_named() -> None:
    b = Builder()
    program = b.finish(logits=b.embed(weight(np.ones((2, 4)))))
    strange = replace(program, calls=(*program.calls, OpCall("tea", (), (), None, {})))
    with pytest.raises(BackendError, match="'tea'"):
        reference.load(strange, NO_KV)


def test_every_op_of_the_builder_is_there() -> None:
    b = Builder()
    vector, matrix = weight(np.ones(8)), weight(np.ones((8, 8)))
    x = b.layer_norm(b.add(b.embed(matrix), b.embed_positions(matrix)), vector, None, 1e-5)
    x = b.xielu(
        b.activate(b.clamp(b.add_columns(b.multiply_columns(x, vector), vector), 1.0), "relu"),
        1.0,
        1.0,
        1.0,
    )
    x = b.softcap(b.multiply(b.add(b.rms_norm(x, vector, 1e-5), b.matmul(x, matrix)), 1.0), 1.0)
    x = b.rope(b.gated(x, x, "silu"), b.rope_table(weight(np.ones(4))), 1, "split")
    x = b.attention(x, x, x, num_heads=1, num_kv_heads=1, scale=1.0)
    x = b.relative_attention(x, x, x, weight(np.ones((2, 3))), num_kv_heads=1, scale=1.0)
    routing = b.moe_route(x, 2, gating="softmax")
    x = b.moe_combine(b.moe_matmul(x, routing, matrix, experts=4), routing)
    x = b.softplus(b.short_convolution(x, weight(np.ones((2, 3)))))
    x = b.selective_scan(x, x, x, x, weight(np.ones((2, 1))), weight(np.ones(2)))
    x = b.wkv7(x, x, x, x, x, x, heads=2)
    x = b.delta_rule(x, x, x, x, x, weight(np.ones(2)), key_heads=2)
    x = b.linear_attention(x, x, x, x, heads=2)
    x = b.scale_heads(b.position_scale(b.gaussian_top_k(x, 1.0), 10, 0.1), b.columns(x, 0, 1))
    x = b.concat_heads(x, x, 1)
    x = b.head_matmul(b.concat_heads(x, x, 1), matrix, 1)
    x = b.add_direction(b.add_scaled(x, b.remainder(x), 0), vector, 0)
    b.select_outputs(b.columns(x, 0, 2))
    families = [family for family in Builder.__mro__ if issubclass(family, Recording)]
    methods = {name for family in families[1:-1] for name in vars(family) if name[0] != "_"}
    assert {call.op for call in b.calls} == methods | {"store_kv"} == set(reference.OPS)

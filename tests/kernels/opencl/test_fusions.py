"""Launches that do several calls: fewer of them, and the same bits."""

from collections.abc import Mapping

import numpy as np
import pytest

from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.ops import fusions
from edgellm.kernels.opencl.plan import Plan
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Program, Weight
from tests.kernels.cpu.programs import VOCABULARY, normal, pack, storage, stored, streams
from tests.kernels.cpu.test_bits import assert_same_bits

HEADS, HEAD_DIM, HIDDEN = 4, 32, 64


def layer(is_normed: bool) -> Program:
    """One layer of a decoder, plain or with norms of heads and of what blocks give."""
    rng, b = np.random.default_rng(0), Builder()
    kv_heads = HEADS if is_normed else HEADS // 2
    table = b.rope_table(stored(0.1 ** np.arange(0, 1, 2 / HEAD_DIM)))

    def matrix(rows: int, columns: int = HIDDEN, name: str = "Q8_0") -> Weight:
        return stored(normal(rng, rows, columns, scale=columns**-0.5), name)

    def ones(size: int) -> Weight:
        return stored(rng.uniform(0.5, 2, size))

    x = b.embed(stored(normal(rng, VOCABULARY, HIDDEN)))
    h = b.rms_norm(x, ones(HIDDEN), 1e-5)
    bias = stored(normal(rng, kv_heads * HEAD_DIM))
    q = b.matmul(h, matrix(HEADS * HEAD_DIM))
    k = b.matmul(h, matrix(kv_heads * HEAD_DIM), bias)
    v = b.matmul(h, matrix(kv_heads * HEAD_DIM, name="F16"))
    for heads in (HEADS, kv_heads) if is_normed else ():
        y = q if heads == HEADS else k
        y = b.rope(b.rms_norm(y, ones(HEAD_DIM), 1e-5, heads), table, heads, "split")
        q, k = (y, k) if heads == HEADS else (q, y)
    if not is_normed:
        q, k = (b.rope(y, table, y.width // HEAD_DIM, "interleaved") for y in (q, k))
    seen = b.attention(q, k, v, num_heads=HEADS, num_kv_heads=kv_heads, scale=HEAD_DIM**-0.5)
    y = b.matmul(seen, matrix(HIDDEN, HEADS * HEAD_DIM))
    x = b.add(x, b.rms_norm(y, ones(HIDDEN), 1e-5) if is_normed else y)
    h = b.layer_norm(x, ones(HIDDEN), None, 1e-5)
    h = b.gated(b.matmul(h, matrix(96)), b.matmul(h, matrix(96)), "silu")
    x = b.add(x, b.matmul(h, matrix(HIDDEN, 96)))
    return b.finish(logits=b.matmul(b.activate(x, "gelu"), matrix(VOCABULARY)))


def run(
    backend: OpenCLBackend, program: Program, cache: str, length: int
) -> tuple[np.ndarray, int]:
    """Outputs of a sequence in steps of many rows and few, and the launches of the last step."""
    (stream,) = streams(np.random.default_rng(1), 1, length, 1)
    executable = backend.load(program, storage(program, 16, cache, cache))
    rows = [executable.run(pack([(stream, n)]))["logits"] for n in (length - 2, 1, 1)]
    *_, last = executable._steps.values()
    return np.concatenate(rows), len(last)


# Where keys are split, they are stored before, and what is left needs a launch more.
@pytest.mark.parametrize(
    ("variant", "is_normed", "types", "length", "launches"),
    [
        ("cpu", False, "f16", 300, 13),
        ("cpu", False, "q8_0", 300, 21),
        ("cpu", True, "f16", 20, 16),
        ("gpu", False, "f16", 300, 15),
        ("gpu", False, "f16", 20, 13),
        ("gpu", True, "f16", 300, 18),
    ],
)
def test_fused_launches(
    backends: Mapping[str, OpenCLBackend],
    monkeypatch: pytest.MonkeyPatch,
    variant: str,
    is_normed: bool,
    types: str,
    length: int,
    launches: int,
) -> None:
    program = layer(is_normed)
    got, fused = run(backends[variant], program, types, length)
    assert fused == launches
    monkeypatch.setattr(fusions, "FUSIONS", ())
    monkeypatch.setattr(Plan, "new_records", lambda plan, x: None)
    want, more = run(backends[variant], program, types, length)
    assert np.isfinite(want).all() and more >= launches + 8
    assert_same_bits(got, want)

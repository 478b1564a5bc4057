"""Growing, and failing to grow, between steps."""

import numpy as np
import pytest

from edgellm.kernels.cpu import CpuBackend, executable as module
from edgellm.kernels.ops import Builder
from tests.kernels.cpu.programs import VOCABULARY, normal, rows_of, storage, tokens


def test_a_step_without_memory_leaves_the_executable_as_it_was(
    backend: CpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = normal(np.random.default_rng(0), VOCABULARY, 4096)
    b = Builder()
    program = b.finish(logits=b.multiply(rows_of(b, table), 2.0))
    executable = backend.load(program, storage(program, 0))

    def none_left(*args: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(module, "aligned_bytes", none_left)
        with pytest.raises(MemoryError):
            executable.run(tokens(np.arange(VOCABULARY)))
    for count in (1, VOCABULARY, 3):
        got = executable.run(tokens(np.arange(count)))["logits"]
        np.testing.assert_array_equal(got, 2 * table[:count])


def test_results_are_copies(backend: CpuBackend) -> None:
    b = Builder()
    program = b.finish(logits=rows_of(b, normal(np.random.default_rng(0), VOCABULARY, 8)))
    executable = backend.load(program, storage(program, 0))
    first = executable.run(tokens([1]))["logits"]
    kept = first.copy()
    executable.run(tokens([2]))
    np.testing.assert_array_equal(first, kept)

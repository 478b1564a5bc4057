"""Growing, and failing to grow, between steps."""

from dataclasses import replace

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


def test_results_that_nobody_keeps_are_lent(backend: CpuBackend) -> None:
    """And a batch that is written again is read again."""
    table = normal(np.random.default_rng(0), VOCABULARY, 8)
    b = Builder()
    program = b.finish(logits=rows_of(b, table))
    executable = backend.load(program, storage(program, 0))
    batch = replace(tokens([1]), keeps_outputs=False)
    first = executable.run(batch)["logits"]
    for token in (3, 2):
        batch.input_ids[0] = token
        assert executable.run(batch)["logits"] is first
        np.testing.assert_array_equal(first[0], table[token])
    kept = executable.run(replace(batch, keeps_outputs=True))["logits"]
    executable.run(tokens([4, 5, 6]))
    np.testing.assert_array_equal(kept[0], table[2])
    np.testing.assert_array_equal(executable.run(batch)["logits"][0], table[2])


def test_numbers_that_do_not_lie_side_by_side_are_copied_each_time(backend: CpuBackend) -> None:
    table = normal(np.random.default_rng(0), VOCABULARY, 8)
    b = Builder()
    program = b.finish(logits=rows_of(b, table))
    executable = backend.load(program, storage(program, 0))
    apart = np.array([1, 9, 2, 9], np.int32)[::2]
    batch = replace(tokens([0, 0]), input_ids=apart)
    for token in (1, 3):
        apart[0] = token
        np.testing.assert_array_equal(executable.run(batch)["logits"], table[[token, 2]])


def test_denormal_results_are_zero_in_steps_alone(backend: CpuBackend) -> None:
    """On every thread, and the caller computes as before."""
    b = Builder()
    table = np.full((VOCABULARY, 8), 1e-30, np.float32)
    program = b.finish(logits=b.multiply(rows_of(b, table), 1e-10))
    executable = backend.load(program, storage(program, 0))
    got = executable.run(tokens(np.arange(VOCABULARY)))["logits"]
    assert not got.any()
    assert table[0, 0] * np.float32(1e-10) > 0

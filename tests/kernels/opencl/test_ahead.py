"""Steps that a device begins before the host asks for them: the same bits, or none of them."""

from collections.abc import Mapping

import numpy as np
import pytest

from edgellm.kernels.batch import Batch
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.kernels.opencl import OpenCLBackend, executable as executables
from edgellm.kernels.opencl.ahead import following, is_same
from edgellm.kernels.opencl.executable import Executable
from tests.kernels.cpu.programs import Stream, decoder, pack, storage, streams
from tests.kernels.cpu.test_bits import assert_same_bits

LENGTH, PROMPT = 3 * BLOCK_SIZE, 5


def batch_at(computed: int, count: int = 1) -> Batch:
    (stream,) = streams(np.random.default_rng(0), 1, LENGTH, 2)
    stream.computed = computed
    return pack([(stream, count)], [count - 1])


def test_a_sequence_goes_on_in_its_block() -> None:
    now, then = batch_at(7), batch_at(8)
    expected = following(now)
    assert expected is not None and is_same(expected, then, then.input_ids)
    assert not is_same(expected, then, then.input_ids + 1)
    assert not is_same(expected, batch_at(9), batch_at(9).input_ids)


@pytest.mark.parametrize(("computed", "count"), [(BLOCK_SIZE - 1, 1), (4, 2)])
def test_what_comes_next_is_not_known(computed: int, count: int) -> None:
    assert following(batch_at(computed, count)) is None


def decoded(executable: Executable, strays: set[int]) -> list[np.ndarray]:
    """Logits of two sequences that take the best tokens, but for those steps where one strays."""
    work = streams(np.random.default_rng(3), 2, LENGTH, 1)
    rows = executable.run(pack([(s, PROMPT) for s in work], [PROMPT - 1, 2 * PROMPT - 1]))["logits"]
    seen = [rows.copy()]
    for step in range(LENGTH - PROMPT):
        for stream, row in zip(work, rows, strict=True):
            stream.ids[stream.computed] = row.argmax()
        if step in strays:
            work[1].ids[work[1].computed] ^= 1
        rows = executable.run(pack([(s, 1) for s in work], [0, 1]))["logits"]
        seen.append(rows.copy())
    return seen


@pytest.mark.parametrize("variant", ["cpu", "gpu"])
def test_the_same_bits(
    backends: Mapping[str, OpenCLBackend], monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    program, taken = decoder(1), []
    enqueue = Executable._enqueue_ahead

    def counted(executable: Executable, batch: Batch) -> object:
        step = enqueue(executable, batch)
        taken.append(step is not None)
        return step

    monkeypatch.setattr(Executable, "_enqueue_ahead", counted)
    strays = {20, 21, 40}
    got = decoded(backends[variant].load(program, storage(program, 6)), strays)
    assert sum(taken) > 20
    monkeypatch.setattr(executables, "_TRUSTED_AFTER", LENGTH)
    want = decoded(backends[variant].load(program, storage(program, 6)), strays)
    for one, other in zip(got, want, strict=True):
        assert_same_bits(one, other)


def test_blocks_pass_on_to_others(backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a step was begun in vain, whoever comes next finds nothing of it."""
    monkeypatch.setattr(executables, "_TRUSTED_AFTER", 2)
    program = decoder(1)
    (stream,) = streams(np.random.default_rng(5), 1, LENGTH, 1)
    other = Stream(np.roll(stream.ids, 7), stream.tables)
    executable = backend.load(program, storage(program, 3))
    rows = executable.run(pack([(stream, PROMPT)], [PROMPT - 1]))["logits"]
    for _ in range(6):
        stream.ids[stream.computed] = rows[0].argmax()
        rows = executable.run(pack([(stream, 1)], [0]))["logits"]
    assert executable._ahead is not None
    count = stream.computed + 8
    got = executable.run(pack([(other, count)], range(count)))["logits"]
    other.computed = 0
    fresh = backend.load(program, storage(program, 3))
    assert_same_bits(got, fresh.run(pack([(other, count)], range(count)))["logits"])
    executable.close()

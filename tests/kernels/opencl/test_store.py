"""Blocks of the cache on a device: copied, saved, put back; and what a device may refuse."""

import numpy as np
import pytest

from edgellm.errors import BackendError
from edgellm.kernels.kv import KVStorage
from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.executable import Executable
from edgellm.kernels.program import Program
from tests.kernels.cpu.programs import decoder, pack, storage, streams

PROGRAM = decoder(2)
BLOCKS, LENGTH = 6, 80


def loaded(backend: OpenCLBackend) -> Executable:
    """With every byte of the cache such that numbers are NaN."""
    kv = storage(PROGRAM, BLOCKS, "f16", "f32")
    executable = backend.load(PROGRAM, kv)
    for block in range(BLOCKS):
        executable.store.write(0, block, b"\xff" * len(executable.store.read(0, block)))
    return executable


def test_what_nobody_wrote_is_not_read(backend: OpenCLBackend) -> None:
    (stream,) = streams(np.random.default_rng(1), 1, LENGTH, 1)
    rows = loaded(backend).run(pack([(stream, LENGTH)], range(LENGTH)))["logits"]
    assert np.isfinite(rows).all()


@pytest.mark.parametrize("moves", ["copy", "bytes"])
def test_a_sequence_goes_on_in_other_blocks(backend: OpenCLBackend, moves: str) -> None:
    (stream,) = streams(np.random.default_rng(1), 1, LENGTH, 1)
    one, other = loaded(backend), loaded(backend)
    want = one.run(pack([(stream, LENGTH)], range(LENGTH)))["logits"]
    stream.computed = 0
    other.run(pack([(stream, 40)]))
    taken = [int(block) for block in stream.tables[0]]
    free = [block for block in range(BLOCKS) if block not in taken]
    for source, target in zip(taken, free, strict=False):
        if moves == "copy":
            other.store.copy(0, source, target)
        else:
            other.store.write(0, target, other.store.read(0, source))
    stream.tables = (np.array(free, np.int32),)
    got = other.run(pack([(stream, LENGTH - 40)], range(LENGTH - 40)))["logits"]
    np.testing.assert_array_equal(got, want[40:])


def test_a_program_of_unknown_ops_is_refused(backend: OpenCLBackend) -> None:
    call = PROGRAM.calls[0]
    changed = type(call)("dream", call.inputs, call.weights, call.output, call.attributes)
    program = Program((changed,), PROGRAM.outputs, (), (), 1)
    with pytest.raises(BackendError, match="no kernel for the op 'dream' yet"):
        backend.load(program, KVStorage((), ()))


def test_a_source_that_does_not_build_shows_the_log(
    backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    from edgellm.kernels.opencl import context
    from edgellm.kernels.opencl.sources import KernelKey

    monkeypatch.setattr(
        context, "program_text", lambda key, variant: "__kernel void f() { nonsense; }"
    )
    with pytest.raises(BackendError, match="cannot build rows.cl: update it(.|\n)*nonsense"):
        backend._context.kernel(KernelKey("rows", "f"))


def test_more_than_a_device_gives_at_once_is_refused(backend: OpenCLBackend) -> None:
    size = int(backend._context.device.max_mem_alloc_size) + 1
    with pytest.raises(BackendError, match=r"one buffer takes \d+ MiB and .* gives at most"):
        backend._context.room(size)

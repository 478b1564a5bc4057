"""Models on an OpenCL device, whole and in part, through the public API."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyopencl", reason="the test extra installs pyopencl and PoCL")

import edgellm
from edgellm.errors import BackendError, DeviceLost, OutOfDeviceMemory, RequestError
from edgellm.kernels.batch import Batch
from edgellm.kernels.opencl import devices, executable as executables
from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.executable import Executable
from edgellm.kernels.opencl.probe import check
from tests.gguf_writer import Tensor
from tests.models.recipes.parts import VOCAB
from tests.models.tiny import write_tiny

IDS = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3] * 4


pytestmark = pytest.mark.usefixtures("opencl")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def without_text(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys["tokenizer.ggml.model"] = "none"
        keys["llama.vocab_size"] = VOCAB

    return write_tiny(tmp_path_factory.mktemp("mixed"), "llama", without_text)


def logits(file: Path, **options: Any) -> np.ndarray:
    with edgellm.load(str(file), context_length=64, **options) as model:
        return np.asarray(model.logits(IDS))


@pytest.mark.parametrize("gpu_layers", ["auto", 1])
def test_a_model_on_the_device(file: Path, gpu_layers: Any) -> None:
    want = logits(file, backend="reference")
    got = logits(file, backend="opencl", gpu_layers=gpu_layers)
    assert np.square(got - want).mean() < 5e-3 * np.square(want).mean()


def test_a_split_model_answers_the_same_in_pieces(file: Path) -> None:
    with edgellm.load(
        str(file), backend="opencl", gpu_layers=1, context_length=64, max_num_seqs=2
    ) as model:
        whole = np.asarray(model.logits(IDS))
        again = np.asarray(model.logits(IDS[:17]))
    np.testing.assert_array_equal(again, whole[:17])


def test_no_layer_on_the_device_is_the_processor_alone(file: Path) -> None:
    got = logits(file, backend="opencl", gpu_layers=0)
    np.testing.assert_array_equal(got, logits(file, backend="cpu"))


def test_greedy_steps_are_begun_ahead(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two are in flight then; the answer is the one of steps that wait for each other."""
    params = edgellm.SamplingParams(temperature=0, max_tokens=64, ignore_eos=True)
    begin, begun = Executable._enqueue_ahead, 0

    def counted(executable: Executable, batch: Batch) -> object:
        nonlocal begun
        step = begin(executable, batch)
        begun += step is not None
        return step

    monkeypatch.setattr(Executable, "_enqueue_ahead", counted)
    with edgellm.load(str(file), backend="opencl", context_length=128) as model:
        ahead = model.complete(IDS, params).token_ids
        assert begun > params.max_tokens // 2
        monkeypatch.setattr(executables, "_TRUSTED_AFTER", params.max_tokens)
        begun = 0
        assert model.complete(IDS, params).token_ids == ahead
        assert begun == 0


def test_a_device_that_is_not_there(file: Path) -> None:
    with pytest.raises(RequestError, match="device is '99': the devices here are 0"):
        logits(file, backend="opencl", device="99")


def test_without_any_device(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "found", list)
    with pytest.raises(BackendError, match="no OpenCL device was found: install"):
        logits(file, backend="opencl", device="1")


def test_auto_never_takes_a_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    from edgellm import backend_kinds

    monkeypatch.setattr(backend_kinds, "_may_have_drivers", lambda: True)
    kinds = {device.type for device in devices.found()}
    assert kinds and backend_kinds.backend_name("auto") == (
        "opencl" if devices.has_gpu() else "cpu"
    )
    monkeypatch.setattr(devices, "_kind", lambda device: "gpu")
    assert backend_kinds.backend_name("auto") == "opencl"


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes every step fail on the device from now on."""
    import pyopencl as cl

    def fail(*arguments: Any, **options: Any) -> None:
        raise cl.RuntimeError("clEnqueueNDRangeKernel failed: OUT_OF_RESOURCES")

    return lambda: monkeypatch.setattr(cl, "enqueue_nd_range_kernel", fail)


def test_a_lost_device_fails_the_request_alone(
    file: Path, broken: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with edgellm.load(str(file), backend="opencl", context_length=64) as model:
        want = np.asarray(model.logits(IDS))
        broken()
        with pytest.raises(BackendError, match="device failed in the middle of a step: .*OUT_OF_R"):
            model.logits(IDS)
        monkeypatch.undo()
        np.testing.assert_array_equal(np.asarray(model.logits(IDS)), want)


def test_a_device_that_answers_no_more_is_opened_again(
    file: Path, broken: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As after a reset: its memory is lost, and so is all that the cache had."""
    own = "edgellm.kernels.opencl"

    def fail(context: Context) -> None:
        raise BackendError("no answer")

    with edgellm.load(str(file), backend="opencl", context_length=64, max_num_seqs=2) as model:
        want, lost = np.asarray(model.logits(IDS)), model._loaded.engine
        broken()
        monkeypatch.setattr(f"{own}.executable.check", fail)
        with pytest.raises(DeviceLost, match="answers no more .*OUT_OF_RESOURCES.*next request"):
            model.logits(IDS)
        monkeypatch.undo()
        checks = [fail]
        monkeypatch.setattr(
            f"{own}.backend.check", lambda context: (checks or [check]).pop()(context)
        )
        np.testing.assert_array_equal(np.asarray(model.logits(IDS)), want)
        assert model._loaded.engine is not lost and not checks


@pytest.mark.parametrize("kind", ["room", "get_sub_region"])
def test_a_full_device_fails_the_request_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """A step of more rows than any before needs more memory than there is."""
    import pyopencl as cl

    def fail(*arguments: Any) -> None:
        raise cl.MemoryError("create_buffer failed: MEM_OBJECT_ALLOCATION_FAILURE")

    with edgellm.load(str(file), backend="opencl", context_length=256) as model:
        want = np.asarray(model.logits(IDS))
        monkeypatch.setattr(*((Context, kind) if kind == "room" else (cl.Buffer, kind)), fail)
        with pytest.raises(OutOfDeviceMemory, match="in the middle of a step: .*Put fewer layers"):
            model.logits(IDS * 5)
        monkeypatch.undo()
        np.testing.assert_array_equal(np.asarray(model.logits(IDS)), want)
        np.testing.assert_array_equal(np.asarray(model.logits(IDS * 5))[: len(IDS)], want)


def test_a_failure_that_shows_later_fails_the_request_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drivers report what went wrong in a kernel where the host waits for it."""
    import pyopencl as cl

    def fail(events: object) -> None:
        raise cl.RuntimeError("clWaitForEvents failed: EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST")

    greedy = edgellm.SamplingParams(temperature=0, max_tokens=20)
    with edgellm.load(str(file), backend="opencl", context_length=64) as model:
        want = model.complete(IDS, greedy).token_ids
        monkeypatch.setattr(cl, "wait_for_events", fail)
        with pytest.raises(BackendError, match="in the middle of a step: .*EXEC_STATUS_ERROR"):
            model.complete(IDS, greedy)
        monkeypatch.undo()
        assert model.complete(IDS, greedy).token_ids == want


@pytest.mark.parametrize("part", [0.02, 0.5, 0.51, 0.97])
def test_a_failure_amid_a_step_leaves_nothing_behind(
    file: Path, monkeypatch: pytest.MonkeyPatch, part: float
) -> None:
    """Of what was enqueued of it, and of a step that was begun ahead."""
    import pyopencl as cl

    enqueue, count, fails_at = cl.enqueue_nd_range_kernel, 0, -1

    def failing(*arguments: Any) -> Any:
        nonlocal count
        count += 1
        if count == fails_at:
            raise cl.RuntimeError("clEnqueueNDRangeKernel failed: OUT_OF_HOST_MEMORY")
        return enqueue(*arguments)

    greedy = edgellm.SamplingParams(temperature=0, max_tokens=40, ignore_eos=True)
    with edgellm.load(str(file), backend="opencl", context_length=128) as model:
        want = model.complete(IDS, greedy).token_ids
        monkeypatch.setattr(cl, "enqueue_nd_range_kernel", failing)
        assert model.complete(IDS, greedy).token_ids == want
        count, fails_at = 0, int(part * count)
        with pytest.raises(BackendError, match="in the middle of a step: .*OUT_OF_HOST_MEMORY"):
            model.complete(IDS, greedy)
        assert model.complete(IDS, greedy).token_ids == want
        model._loaded.engine.check_integrity()


def test_a_model_that_fails_to_load_leaves_the_first_one_alone(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels may turn out not to run when they are run for the first time."""
    import pyopencl as cl

    monkeypatch.setattr(
        "edgellm.ready.backend_name", lambda name: "opencl" if name == "auto" else name
    )

    def fail(*arguments: Any) -> None:
        raise cl.RuntimeError("clEnqueueNDRangeKernel failed: INVALID_WORK_GROUP_SIZE")

    with edgellm.load(str(file), backend="opencl", context_length=64) as model:
        want = np.asarray(model.logits(IDS))
        monkeypatch.setattr(cl, "enqueue_nd_range_kernel", fail)
        with edgellm.load(str(file), context_length=64) as second:
            assert second.info.backend == "cpu"
        with pytest.raises(BackendError, match="INVALID_WORK_GROUP_SIZE"):
            logits(file, backend="opencl")
        monkeypatch.undo()
        np.testing.assert_array_equal(np.asarray(model.logits(IDS)), want)


def test_a_driver_that_cannot_build(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(
        "edgellm.kernels.opencl.context.program_text",
        lambda key, variant: "__kernel void f() { nonsense; }",
    )
    with pytest.raises(BackendError, match=r"cannot build .*\.cl: update it(.|\n)*nonsense"):
        logits(file, backend="opencl")
    monkeypatch.setattr(
        "edgellm.ready.backend_name", lambda name: "opencl" if name == "auto" else name
    )
    with edgellm.load(str(file), context_length=64) as model:
        assert model.info.backend == "cpu"
    assert "running on the processor instead" in caplog.text


def test_auto_falls_back_to_the_processor(
    file: Path, broken: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "edgellm.ready.backend_name", lambda name: "opencl" if name == "auto" else name
    )
    monkeypatch.setattr(devices, "found", list)
    with edgellm.load(str(file), context_length=64, device="2") as model:
        assert model.info.backend == "cpu"


@pytest.fixture
def full(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Makes the device refuse the next so many buffers, but for small ones."""
    import pyopencl as cl

    create = cl.Buffer

    def refuse(times: int) -> None:
        left = [times]

        def buffer(context: Any, flags: int, *size: int, **options: Any) -> Any:
            if left[0] and size and size[0] > 1024:
                left[0] -= 1
                raise cl.MemoryError("create_buffer failed: MEM_OBJECT_ALLOCATION_FAILURE")
            return create(context, flags, *size, **options)

        monkeypatch.setattr(cl, "Buffer", buffer)

    return refuse


def test_fewer_layers_where_memory_is_not_what_it_seemed(
    file: Path, full: Callable[[int], None], caplog: pytest.LogCaptureFixture
) -> None:
    want = logits(file, backend="reference")
    full(1)
    got = logits(file, backend="opencl")
    assert np.square(got - want).mean() < 5e-3 * np.square(want).mean()
    told = caplog.text
    assert "no device memory for" in told and "trying 4 layers" in told
    assert "4 of 6 layers run on" in told


def test_memory_of_the_largest_step_is_taken_when_a_model_is_loaded(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """So that a long prompt does not find a GPU full that another number of layers would suit."""
    reserve, reserved = Executable.reserve, []

    def full_at_first(executable: Executable, tokens: int, outputs: int) -> None:
        reserved.append(executable)
        if len(reserved) == 1:
            raise OutOfDeviceMemory("no device memory for 9 MiB of one buffer")
        reserve(executable, tokens, outputs)

    monkeypatch.setattr(Executable, "reserve", full_at_first)
    with edgellm.load(str(file), backend="opencl", context_length=1024) as model:
        capacity = dict(reserved[-1]._capacity)
        model.complete(IDS * 20, edgellm.SamplingParams(max_tokens=2))
        assert capacity["tokens"] == reserved[-1]._capacity["tokens"] >= 512
    assert "trying 4 layers" in caplog.text


def test_a_wanted_number_of_layers_is_not_lowered(file: Path, full: Callable[[int], None]) -> None:
    full(1)
    with pytest.raises(OutOfDeviceMemory, match="no device memory for .* Put fewer layers on"):
        logits(file, backend="opencl", gpu_layers=4)


def test_auto_goes_to_the_processor_when_no_layer_fits(
    file: Path,
    full: Callable[[int], None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    from edgellm import ready

    monkeypatch.setattr(ready, "backend_name", lambda name: "opencl" if name == "auto" else name)
    full(5)
    with edgellm.load(str(file), context_length=64) as model:
        assert model.info.backend == "cpu"
    assert "running on the processor instead" in caplog.text

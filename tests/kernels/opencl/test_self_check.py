"""A driver that compiles products wrongly is found out when a model is loaded."""

from dataclasses import replace

import numpy as np
import pytest

from edgellm.errors import BackendError, DriverFault
from edgellm.kernels.opencl import OpenCLBackend, context as contexts
from edgellm.kernels.opencl.binaries import OpenStore
from edgellm.kernels.opencl.self_check import checks
from edgellm.kernels.opencl.sources import KernelKey, program_text
from edgellm.kernels.opencl.variant import VARIANTS, Variant
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Program
from tests.kernels.cpu.programs import VOCABULARY, decoder, normal, random_weight, rows_of, storage

RIGHT, WRONG = "acc = fused(scale[j] * d,", "acc = fused(1.01f * scale[j] * d,"


def product(name: str) -> Program:
    rng, b = np.random.default_rng(0), Builder()
    x = rows_of(b, normal(rng, VOCABULARY, 512))
    return b.finish(logits=b.matmul(x, random_weight(rng, 200, 512, name)))


@pytest.mark.parametrize("name", ["Q4_1", "Q6_K", "IQ3_S", "F16"])
@pytest.mark.parametrize("variant", VARIANTS)
def test_what_is_right_passes(cache: OpenStore, variant: str, name: str) -> None:
    backend = OpenCLBackend(cache, variant=VARIANTS[variant], warms_up=False)
    (check,) = checks(backend._context, product(name))
    check()


def test_each_type_of_weights_once() -> None:
    kinds = {call.weights[0].type_id for call in decoder(3).calls if call.op == "matmul"}
    assert len(list(checks(None, decoder(3)))) == len(kinds) == 2  # type: ignore[arg-type]


@pytest.mark.parametrize("where", ["matmul", "tile"])
def test_what_is_wrong_is_found(
    cache: OpenStore, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """In one of the kernels alone: others give the same rows other bits."""
    backend = OpenCLBackend(cache, variant=VARIANTS["gpu"])

    def text(key: KernelKey, variant: Variant) -> str:
        own = program_text(key, variant)
        assert key.source not in ("matmul", "tile") or RIGHT in own or "IS_FLOAT" in own
        return own.replace(RIGHT, WRONG) if key.source == where else own

    monkeypatch.setattr(contexts, "program_text", text)
    (check,) = checks(backend._context, product("Q8_0"))
    with pytest.raises(DriverFault, match=r"with Q8_0 weights wrongly \(gpu kernels\): update"):
        check()


def test_what_is_wrong_in_kernels_of_all_kinds_is_refused(
    cache: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def text(key: KernelKey, variant: Variant) -> str:
        return program_text(key, variant).replace(RIGHT, WRONG)

    monkeypatch.setattr(contexts, "program_text", text)
    backend = OpenCLBackend(cache, variant=VARIANTS["gpu"])
    program = decoder(1)
    with pytest.raises(BackendError, match=r"wrongly \(gpu-small kernels\): update"):
        backend.load(program, storage(program, 3))


def test_kernels_go_without_what_is_computed_wrongly(
    cache: OpenStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The probe may find nothing where a whole product fails."""

    def text(key: KernelKey, variant: Variant) -> str:
        own = program_text(key, variant)
        return own.replace(RIGHT, WRONG) if variant.ahead else own

    monkeypatch.setattr(contexts, "program_text", text)
    cut = replace(VARIANTS["gpu"], name="gpu-ahead", ahead=64)
    backend = OpenCLBackend(cache, variant=cut)
    program = decoder(1)
    backend.load(program, storage(program, 3))
    assert backend._context.variant == VARIANTS["gpu"]
    assert "trying plainer kernels" in caplog.text

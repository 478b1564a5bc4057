"""Which device is meant, and how kernels are cut for it."""

from types import SimpleNamespace
from typing import Any

import pyopencl as cl
import pytest

from edgellm.errors import RequestError
from edgellm.kernels.opencl import devices
from edgellm.kernels.opencl.variant import VARIANTS, Variant, header

GPU, CPU = cl.device_type.GPU, cl.device_type.CPU


def device(name: str, kind: int = GPU, extensions: str = "", **more: Any) -> SimpleNamespace:
    return SimpleNamespace(name=name, type=kind, extensions=extensions, **more)


MACHINE = [device("Threads", CPU), device("Small card"), device("Large card")]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "found", lambda: MACHINE)


@pytest.mark.parametrize(
    ("wanted", "index"), [(None, 1), ("0", 0), ("2", 2), ("large", 2), ("card", 1)]
)
def test_a_device_is_found_by_number_or_name(machine: None, wanted: str | None, index: int) -> None:
    assert devices.choose(wanted) is MACHINE[index]


@pytest.mark.parametrize("wanted", ["3", "-1", "voodoo"])
def test_another_one_is_refused_with_those_that_are_there(machine: None, wanted: str) -> None:
    with pytest.raises(RequestError, match=r"here are 0 \(Threads\), 1 \(Small card\), 2"):
        devices.choose(wanted)


@pytest.mark.parametrize(
    ("found", "variant"),
    [
        (device("a", CPU, "cl_khr_integer_dot_product"), "cpu"),
        (device("b"), "gpu"),
        (device("c", GPU, "cl_khr_fp16 cl_khr_integer_dot_product"), "gpu-dot"),
        (
            device(
                "d",
                GPU,
                "cl_nv_device_attribute_query",
                compute_capability_major_nv=8,
                compute_capability_minor_nv=6,
            ),
            "gpu-dp4a",
        ),
        (
            device(
                "e",
                GPU,
                "cl_nv_device_attribute_query",
                compute_capability_major_nv=5,
                compute_capability_minor_nv=2,
            ),
            "gpu",
        ),
    ],
)
def test_variants(found: Any, variant: str) -> None:
    assert devices.variant_of(found).name == variant


def test_four_bytes_at_once_take_half_the_record() -> None:
    """The only part of a variant's text that no device of the tests can compile."""
    plain = VARIANTS["gpu"]
    for dot4 in ("khr", "ptx"):
        changed = Variant(**{**vars(plain), "dot4": dot4})
        assert changed.record_words == plain.record_words - 8
        assert "HAS_DOT4" in header(changed, 4) and "HAS_DOT4" not in header(plain, 4)


def test_what_this_device_does_not_have() -> None:
    """What PoCL cannot reach: when a newer one can, kernels for it may be written and tested."""
    found = devices.found()
    if not found or found[0].platform.name.strip() != "Portable Computing Language":
        pytest.skip("not on PoCL")
    here = devices.describe(0, found[0])
    assert here.kind == "cpu" and here.variant == "cpu"
    unreached = set(devices._FEATURES) - set(here.features)
    assert "integer dot product" in unreached
    print("unreached on", here.driver, *sorted(unreached))

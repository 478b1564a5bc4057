"""Which device is meant, and how kernels are cut for it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from edgellm.errors import BackendError, RequestError
from edgellm.kernels.formats import by_name
from edgellm.kernels.opencl import OpenCLBackend, devices
from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.opencl.variant import _DOT4, VARIANTS
from tests.kernels.cpu.programs import decoder, pack, storage, streams
from tests.kernels.opencl.test_bits import check_products

GPU, CPU = cl.device_type.GPU, cl.device_type.CPU


def device(name: str, kind: int = GPU, extensions: str = "", **more: Any) -> SimpleNamespace:
    more = {"max_work_group_size": 256, "local_mem_size": 48 << 10, "half_fp_config": 0, **more}
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


def _no_platform() -> None:
    raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")


def _no_device() -> None:
    raise cl.RuntimeError("clGetDeviceIDs failed: DEVICE_NOT_FOUND")


@pytest.mark.parametrize(
    "platforms", [list, _no_platform, lambda: [SimpleNamespace(get_devices=_no_device)]]
)
def test_drivers_that_are_missing_or_broken(
    monkeypatch: pytest.MonkeyPatch, platforms: Any
) -> None:
    monkeypatch.setattr(cl, "get_platforms", platforms)
    assert devices.found() == [] and not devices.has_gpu()
    with pytest.raises(BackendError, match="no OpenCL device was found: install the driver"):
        OpenCLBackend(None)


@pytest.mark.parametrize(
    ("found", "variant"),
    [
        (device("a", CPU, "cl_khr_integer_dot_product"), "cpu-avx2"),
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


@pytest.mark.parametrize(("size", "slices", "group"), [(1024, 8, 64), (64, 4, 64), (32, 2, 32)])
def test_groups_fit_the_device(size: int, slices: int, group: int) -> None:
    cut = devices.variant_of(device("f", max_work_group_size=size))
    assert (cut.slices, cut.group) == (slices, group)
    assert cut.lanes * cut.slices <= size and cut.items <= size
    assert all(cut.lanes * tile.items <= size for tile in cut.tiles)


@pytest.mark.parametrize(
    ("local", "groups"), [(64 << 10, [4, 4]), (32 << 10, [4, 2]), (16 << 10, [2, 1]), (2 << 10, [])]
)
def test_tiles_fit_local_memory(local: int, groups: list[int]) -> None:
    cut = devices.variant_of(device("g", local_mem_size=local))
    assert [tile.groups for tile in cut.tiles] == groups
    assert all(tile.local_bytes(cut) <= local for tile in cut.tiles)


@pytest.mark.parametrize(
    ("extensions", "half", "shuffles", "has_half"),
    [
        ("cl_khr_subgroups cl_khr_fp16", cl.device_fp_config.INF_NAN, "none", False),
        ("cl_khr_subgroups cl_khr_subgroup_shuffle cl_intel_subgroups", 0, "khr", False),
        ("cl_intel_subgroups cl_khr_fp16", cl.device_fp_config.DENORM, "intel", True),
    ],
)
def test_extensions_that_are_used(
    extensions: str, half: int, shuffles: str, has_half: bool
) -> None:
    cut = devices.variant_of(device("k", GPU, extensions, half_fp_config=half))
    assert (cut.shuffles, cut.has_half) == (shuffles, has_half)
    assert (cut.plain.shuffles, cut.plain.has_half) == ("none", False)


@pytest.mark.parametrize("way", ["khr", "intel"])
def test_folds_within_subgroups_have_the_same_bits(
    backends: Mapping[str, OpenCLBackend], cache: Path, way: Any
) -> None:
    cut = replace(VARIANTS["gpu"], name="gpu-shuffles", shuffles=way)
    backend = OpenCLBackend(cache, variant=cut, warms_up=False)
    if not backend.name.endswith("gpu-shuffles)"):
        pytest.skip(f"this device does not reach {way}")
    program = decoder(1)
    got, want = (
        made.load(program, storage(program, 3)).run(
            pack([(streams(np.random.default_rng(0), 1, 80, 1)[0], 80)], range(80))
        )["logits"]
        for made in (backend, backends["gpu"])
    )
    np.testing.assert_array_equal(got, want)


def test_memory_that_the_driver_says_is_free() -> None:
    card = device("h", extensions="cl_amd_device_attribute_query", global_mem_size=8 << 30)
    card.get_info = lambda what: [3 << 20]  # KiB
    memory = devices.memory_of(card)
    assert memory.usable == 3 << 30
    assert memory.note == "3.0 of its 8.0 GiB are free"


@pytest.mark.parametrize(("total", "usable"), [(20, 18), (4, 3.5), (0.75, 0.375)])
def test_memory_of_a_silent_driver(total: float, usable: float) -> None:
    memory = devices.memory_of(device("i", global_mem_size=int(total * 2**30)))
    assert memory.usable == pytest.approx(usable * 2**30, abs=2)
    assert "does not say how much is free" in memory.note


# What the real ways to do it compute; no device of the tests has one.
DOT4 = """static inline int DOT4(uint q, uint x, int sum)
{
    char4 a = as_char4(q), b = as_char4(x);
    return sum + a.s0 * b.s0 + a.s1 * b.s1 + a.s2 * b.s2 + a.s3 * b.s3;
}
"""


@pytest.mark.parametrize("name", ["Q4_0", "Q8_0", "Q6_K", "IQ1_M"])
def test_products_of_four_bytes_at_once(
    cache: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    if not devices.found():
        pytest.skip("no OpenCL device")
    monkeypatch.setitem(_DOT4, "khr", DOT4)
    cut = replace(VARIANTS["gpu"], name="dot", dot4="khr")
    backend = OpenCLBackend(cache, variant=cut, warms_up=False)
    assert backend.name.endswith("dot)")
    check_products(backend, by_name(name), (1, 3, 33))


def test_a_driver_without_what_it_promised_gets_plain_kernels(cache: Path) -> None:
    """PoCL has no integer dot products; test_compile.py has all that no device here has."""
    if not devices.found():
        pytest.skip("no OpenCL device")
    cut = replace(VARIANTS["gpu"], name="gpu-dot", dot4="khr")
    backend = OpenCLBackend(cache, variant=cut, warms_up=False)
    if backend.name.endswith("gpu-dot)"):
        pytest.skip("this device has integer dot products")
    assert backend.name.endswith("gpu)")
    check_products(backend, by_name("Q4_0"), (1,))


# Ways through kernels that some devices have. Another is NVIDIA's dp4a, whose assembly PoCL takes
# without looking at it, and cannot run. test_compile.py holds all of them against a compiler.
WAYS: Mapping[str, Mapping[str, Any]] = {
    "integer dot product": {"dot4": "khr"},
    "subgroup shuffles": {"shuffles": "khr"},
    "Intel's subgroups": {"shuffles": "intel"},
    "half": {"has_half": True},
}


def test_ways_that_this_device_does_not_reach(cache: Path) -> None:
    """On the PoCL of the test extra that is all of them; a newer one may reach some."""
    found = devices.found()
    if not found or found[0].platform.name.strip() != "Portable Computing Language":
        pytest.skip("not on PoCL")
    here = devices.describe(0, found[0])
    assert here.kind == "cpu" and here.variant == "cpu-avx2"
    unreached = {
        name
        for name, more in WAYS.items()
        if not Context(found[0], replace(VARIANTS["gpu"], **more), cache).compiles()
    }
    print("unreached on", here.driver, *sorted(unreached))
    assert unreached == set(WAYS) or not here.driver.startswith("3.0")


def test_programs_are_stored_by_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the driver does not do so itself, as PoCL and NVIDIA's do."""
    if not devices.found():
        pytest.skip("no OpenCL device")
    monkeypatch.setattr("pyopencl.characterize.has_src_build_cache", lambda device: False)
    key = KernelKey("hadamard", "hadamard", definitions=(("SIZE", 32), ("FACTOR", "1.0f")))
    other = KernelKey("hadamard", "hadamard", definitions=(("SIZE", 64), ("FACTOR", "1.0f")))
    stored = []
    for wanted in (key, key, other):  # in a new process, as it were
        OpenCLBackend(tmp_path, variant=VARIANTS["gpu"])._context.kernel(wanted)
        stored.append(len(list(tmp_path.rglob("binary"))))
    assert stored == [1, 1, 2]
    OpenCLBackend(None, variant=VARIANTS["gpu"])._context.kernel(key)
    assert len(list(tmp_path.rglob("binary"))) == 2

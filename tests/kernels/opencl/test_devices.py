"""Which device is meant, and how kernels are cut for it."""

import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest

from edgellm.errors import BackendError, DriverFault, RequestError
from edgellm.kernels.formats import by_name
from edgellm.kernels.opencl import OpenCLBackend, devices
from edgellm.kernels.opencl.backend import report
from edgellm.kernels.opencl.binaries import OpenStore
from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.opencl.variant import _DOT4, VARIANTS
from tests.kernels.cpu.programs import decoder, pack, storage, streams
from tests.kernels.opencl.test_bits import check_products

GPU, CPU = cl.device_type.GPU, cl.device_type.CPU
AMD = "cl_amd_device_attribute_query"


def device(name: str, kind: int = GPU, extensions: str = "", **more: Any) -> SimpleNamespace:
    usual = {
        "max_work_group_size": 256,
        "max_num_sub_groups": 0,
        "local_mem_size": 48 << 10,
        "local_mem_type": cl.device_local_mem_type.LOCAL,
        "half_fp_config": 0,
        "host_unified_memory": 0,
        "max_mem_alloc_size": 1 << 30,
        "global_mem_size": 4 << 30,
        "platform": SimpleNamespace(name="Portable Computing Language"),
    }
    return SimpleNamespace(name=name, type=kind, extensions=extensions, **usual | more)


GRAPHICS = device("Graphics of the processor", host_unified_memory=1, global_mem_size=32 << 30)
MACHINE = [
    device("Threads", CPU, host_unified_memory=1),
    GRAPHICS,
    device("Small card"),
    device("Large card", global_mem_size=16 << 30),
]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "found", lambda: MACHINE)


@pytest.mark.parametrize(
    ("wanted", "indices"),
    [
        (None, [3, 2, 1]),
        ("0", [0]),
        ("2", [2]),
        ("large", [3]),
        ("card", [3, 2]),
        ("r", [3, 2, 1, 0]),
    ],
)
def test_devices_are_found_by_number_or_name(
    machine: None, wanted: str | None, indices: list[int]
) -> None:
    assert devices.meant(wanted) == [MACHINE[index] for index in indices]


@pytest.mark.parametrize("wanted", ["4", "-1", "voodoo"])
def test_another_one_is_refused_with_those_that_are_there(machine: None, wanted: str) -> None:
    with pytest.raises(RequestError, match=r"here are 0 \(Threads\), 1 \(Graphics"):
        devices.meant(wanted)


def _no_platform() -> None:
    raise cl.LogicError("clGetPlatformIDs failed: PLATFORM_NOT_FOUND_KHR")


def _no_device() -> None:
    raise cl.RuntimeError("clGetDeviceIDs failed: DEVICE_NOT_FOUND")


@pytest.mark.parametrize(
    "platforms",
    [list, _no_platform, lambda: [SimpleNamespace(name="none", get_devices=_no_device)]],
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
        (device("a", CPU, platform=SimpleNamespace(name="rusticl")), "cpu-plain"),
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
        (device("gfx90a:sramecc+:xnack-", GPU, AMD), "gpu-gfx9"),
        (device("gfx1030", GPU, AMD), "gpu-gfx9"),
        (device("gfx1201", GPU, AMD), "gpu-gfx11"),
        (device("gfx803", GPU, AMD), "gpu"),
        (device("Ellesmere", GPU, AMD), "gpu"),
    ],
)
def test_variants(found: Any, variant: str) -> None:
    assert devices.variant_of(found).name == variant


@pytest.mark.parametrize(
    ("size", "slices", "group"), [(1024, 16, 64), (128, 8, 64), (64, 4, 64), (32, 2, 32)]
)
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


def test_no_tiles_where_local_memory_is_like_the_other() -> None:
    slow = device("m", local_mem_type=cl.device_local_mem_type.GLOBAL)
    assert not devices.variant_of(slow).tiles


def test_subgroups_without_an_extension() -> None:
    """As OpenCL 3.0 has them."""
    later = device("n", extensions="cl_khr_subgroup_shuffle", max_num_sub_groups=8)
    assert devices.variant_of(later).shuffles == "khr"


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
    dotless = replace(cut, name="gpu-dot", dot4="khr").fallbacks[0]
    assert (dotless.shuffles, dotless.has_half) == (shuffles, has_half)
    *_, plain, half, small = cut, *cut.fallbacks
    assert (plain.shuffles, plain.has_half) == ("none", False)
    assert plain.fallbacks == (half, small) and half.fallbacks == (small,)
    assert small.fallbacks == () and (half.slices, small.slices) == (8, 1)
    assert replace(plain, slices=8, row_group=128).fallbacks == (small,)


def test_few_registers_are_taken_on_intel(backend: OpenCLBackend, cache: OpenStore) -> None:
    """Fewer still where it multiplies no bytes; with the same bits."""
    dot = devices.variant_of(
        device("o", extensions="cl_intel_subgroups cl_khr_integer_dot_product")
    )
    old, usual = devices.variant_of(device("p", extensions="cl_intel_subgroups")), VARIANTS["gpu"]
    assert dot.pairs == old.pairs < usual.pairs
    assert dot.tokens == usual.tokens and dot.tiles == usual.tiles
    number = str(devices.found().index(backend._context.device))
    program, rows = decoder(1), []
    for cut in (old, usual):
        made = OpenCLBackend(cache, number, replace(cut, shuffles="none"), warms_up=False)
        check_products(made, by_name("Q5_1"), (1, 2, 3, 16, 33))
        batch = pack([(streams(np.random.default_rng(0), 1, 40, 1)[0], 40)], range(40))
        rows.append(made.load(program, storage(program, 2)).run(batch)["logits"].copy())
    np.testing.assert_array_equal(*rows)


def test_memory_that_the_driver_says_is_free() -> None:
    card = device("h", extensions="cl_amd_device_attribute_query", global_mem_size=8 << 30)
    card.get_info = lambda what: [3 << 20]  # KiB
    memory = devices.memory_of(card)
    assert memory.usable == 3 << 30
    assert memory.note == "3.0 of its 8.0 GiB are free"


def test_what_matters_of_a_device() -> None:
    chip = device(
        "Chip ",
        extensions="cl_khr_fp16 cl_khr_integer_dot_product",
        platform=SimpleNamespace(name="Maker"),
        version="OpenCL 3.0 NEO ",
        driver_version="24.1",
        global_mem_size=16 * 10**9,
        max_mem_alloc_size=4 * 10**9,
        host_unified_memory=1,
        max_compute_units=96,
    )
    assert devices.describe(3, chip).description == (
        "3: Chip (Maker, OpenCL 3.0, driver 24.1, gpu, 16 GB shared with the processor, 4 GB at "
        "once, 96 units, groups of 256 with 48 KiB, half and integer dot product, gpu-dot kernels)"
    )
    card = device("Card", extensions=AMD, global_mem_size=8 * 10**9)
    card.get_info = lambda what: [5_000_000_000 >> 10]
    assert devices.memory_of(card).brief == "8 GB its own, 5 GB free"


@pytest.mark.parametrize(("total", "usable"), [(20, 18), (4, 3.5), (0.75, 0.375)])
def test_memory_of_a_silent_driver(total: float, usable: float) -> None:
    memory = devices.memory_of(device("i", global_mem_size=int(total * 2**30)))
    assert memory.usable == pytest.approx(usable * 2**30, abs=2)
    assert "does not say how much is free" in memory.note


# Ways through kernels that some devices have. Another is NVIDIA's dp4a, whose assembly drivers of
# processors cannot run. test_compile.py holds all of them against a compiler.
WAYS: Mapping[str, Mapping[str, Any]] = {
    "integer dot product": {"dot4": "khr"},
    "subgroup shuffles": {"shuffles": "khr"},
    "Intel's subgroups": {"shuffles": "intel"},
    "half": {"has_half": True},
}


def reached(way: str, cache: OpenStore) -> OpenCLBackend | None:
    """A backend that goes this way on the first device where it works."""
    cut = replace(VARIANTS["gpu"], name=way, **WAYS[way])
    for number in range(len(devices.found())):
        with suppress(BackendError):
            backend = OpenCLBackend(cache, str(number), cut, warms_up=False)
            if backend.name.endswith(f"{way})"):
                return backend
    return None


@pytest.mark.parametrize("way", WAYS)
def test_all_ways_give_the_same_bits(opencl: None, cache: OpenStore, way: str) -> None:
    backend = reached(way, cache)
    if backend is None:
        pytest.skip("no device here reaches it")
    number = str(devices.found().index(backend._context.device))
    plain = OpenCLBackend(cache, number, VARIANTS["gpu"], warms_up=False)
    program = decoder(1)
    got, want = (
        made.load(program, storage(program, 3)).run(
            pack([(streams(np.random.default_rng(0), 1, 80, 1)[0], 80)], range(80))
        )["logits"]
        for made in (backend, plain)
    )
    np.testing.assert_array_equal(got, want)
    for name in ("Q4_0", "Q8_0", "IQ1_M") if "dot4" in WAYS[way] else ():
        check_products(backend, by_name(name), (1, 3, 33))


def test_ways_that_no_device_here_reaches(opencl: None, cache: OpenStore) -> None:
    """On the PoCL of the test extra those are all; Intel's driver knows all of them."""
    names = {device.platform.name.strip() for device in devices.found()}
    unreached = {way for way in WAYS if reached(way, cache) is None}
    print("unreached on", *sorted(names), *sorted(unreached))
    if "Intel(R) OpenCL" in names:
        assert not unreached


def test_a_driver_without_what_it_promised_gets_plain_kernels(
    backend: OpenCLBackend, cache: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether it does not build, or computes something else."""
    number = str(devices.found().index(backend._context.device))
    cut = replace(VARIANTS["gpu"], name="gpu-dot", dot4="khr")
    for way in ("no_such_function(q, x)", "(int)(q + x) + (sum)"):
        monkeypatch.setitem(_DOT4, "khr", f"#define DOT4(q, x, sum) ({way})\n")
        plain = OpenCLBackend(cache, number, cut, warms_up=False)
        assert plain.name.endswith("gpu)")
        assert plain._context.variant == cut.fallbacks[0]  # what else there is stays
        check_products(plain, by_name("Q4_0"), (1,))


@pytest.mark.parametrize(
    ("kernels", "size", "way"),
    [
        ({"probe", "matmul"}, 32, "small"),
        ({"matmul"}, 32, "small"),
        ({"embed"}, 32, "small"),
        ({"matmul"}, 128, "half"),
    ],
)
def test_a_compiler_that_grants_small_groups_gets_small_ones(
    backend: OpenCLBackend,
    cache: OpenStore,
    monkeypatch: pytest.MonkeyPatch,
    kernels: set[str],
    size: int,
    way: str,
) -> None:
    """Whether that shows when the device is opened or when a model is loaded."""
    number, program = str(devices.found().index(backend._context.device)), decoder(1)
    batch = pack([(streams(np.random.default_rng(0), 1, 40, 1)[0], 40)], range(40))
    want = backend.load(program, storage(program, 2)).run(batch)["logits"]
    ask = cl.Kernel.get_work_group_info

    def granted(kernel: cl.Kernel, what: int, device: cl.Device) -> Any:
        most = what == cl.kernel_work_group_info.WORK_GROUP_SIZE and kernel.function_name in kernels
        return size if most else ask(kernel, what, device)

    monkeypatch.setattr(cl.Kernel, "get_work_group_info", granted)
    small = OpenCLBackend(cache, number, VARIANTS["gpu"])
    got = small.load(program, storage(program, 2)).run(batch)["logits"]
    np.testing.assert_allclose(got, want, rtol=0.02, atol=0.02)
    for name in ("Q4_0", "F16"):
        check_products(small, by_name(name), (1, 3, 33))
    assert small.name.endswith(f"gpu-{way})")


def test_a_kernel_that_cannot_be_made_is_a_fault_of_the_driver(
    backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some drivers finish building there, or find that there are too few registers."""

    def fail(program: Any, name: str) -> None:
        raise cl.MemoryError("clCreateKernel failed: OUT_OF_RESOURCES")

    monkeypatch.setattr(cl, "Kernel", fail)
    with pytest.raises(DriverFault, match=r"cannot build \w+.cl: update it(.|\n)*OUT_OF_RESOURCES"):
        backend._context.kernel(KernelKey("probe", "probe"))


def test_the_next_device_is_taken_where_one_fails(
    backend: OpenCLBackend, cache: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    working = backend._context.device
    broken = cl.Device.from_int_ptr(working.int_ptr)
    monkeypatch.setattr(devices, "found", lambda: [broken, working])

    def check(context: Context) -> None:
        if context.device is broken:
            raise BackendError("out of order")

    monkeypatch.setattr("edgellm.kernels.opencl.backend.check", check)
    assert OpenCLBackend(cache, variant=VARIANTS["cpu"])._context.device is working
    with pytest.raises(BackendError, match="out of order"):
        OpenCLBackend(cache, device="0")


def test_what_is_wrong_with_a_device_is_reported(
    backend: OpenCLBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = "edgellm.kernels.opencl.backend"
    monkeypatch.setattr(f"{own}.found", lambda: [backend._context.device])
    assert re.search(r"^0: .* [\w-]+ kernels\)$", report()[0])

    def check(context: Context) -> None:
        raise BackendError("cannot build probe.cl\n\n  1:2: error: no such thing\n  error: more")

    monkeypatch.setattr(f"{own}.check", check)
    (line,) = report()
    assert line.endswith("no kernels): cannot build probe.cl: 1:2: error: no such thing")

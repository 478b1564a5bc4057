"""Devices with less than the ones at hand: kernels keep within their limits and compute the same.

What a device would have is only told to the code that cuts kernels for it; they run on one that has
more, and say what they take.
"""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyopencl as cl
import pytest
from hypothesis import Phase, given, settings, strategies as st

from edgellm.kernels.formats import FORMATS
from edgellm.kernels.opencl import OpenCLBackend
from edgellm.kernels.opencl.binaries import OpenStore
from edgellm.kernels.opencl.context import Context
from edgellm.kernels.opencl.devices import variant_of
from edgellm.kernels.opencl.ops import lower
from edgellm.kernels.opencl.sources import KernelKey
from edgellm.kernels.ops import Builder
from tests.kernels.cpu.cases import CASES, Maker
from tests.kernels.cpu.programs import VOCABULARY, normal, random_weight, rows_of, storage
from tests.kernels.cpu.test_parity import full_precision_gelu, run_both
from tests.kernels.opencl.test_bits import check_products
from tests.kernels.opencl.test_compile import texts
from tests.kernels.opencl.test_devices import device

__all__ = ["full_precision_gelu"]  # a fixture that pytest finds here

LOCAL, WHOLE = cl.device_local_mem_type.LOCAL, cl.device_local_mem_type.GLOBAL
# Work-items of a group, local memory in KiB, and what kind of memory that is.
DEVICES = {
    "groups of 32": device("a", max_work_group_size=32, local_mem_size=32 << 10),
    "16 KiB": device("b", max_work_group_size=256, local_mem_size=16 << 10),
    "local memory is global": device("c", local_mem_size=32 << 10, local_mem_type=WHOLE),
}
INFO = cl.kernel_work_group_info


@pytest.fixture(scope="module", params=DEVICES)
def limited(
    request: pytest.FixtureRequest, opencl: None, cache: OpenStore
) -> Iterator[OpenCLBackend]:
    """A backend cut for the device, whose kernels are looked at before they run."""
    own = DEVICES[request.param]
    make = Context.kernel

    def looked_at(context: Context, key: KernelKey) -> cl.Kernel:
        kernel = make(context, key)
        check(kernel, context.device, own)
        return kernel

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Context, "kernel", looked_at)
        yield OpenCLBackend(cache, variant=variant_of(own), warms_up=False)


def check(kernel: cl.Kernel, at_hand: cl.Device, limits: SimpleNamespace) -> None:
    """PoCL says what local memory a kernel takes; Intel's driver for processors, too."""
    taken = kernel.get_work_group_info(INFO.LOCAL_MEM_SIZE, at_hand)
    group = kernel.get_work_group_info(INFO.COMPILE_WORK_GROUP_SIZE, at_hand)
    assert taken <= limits.local_mem_size - 512, kernel.function_name
    assert np.prod(group) <= limits.max_work_group_size, kernel.function_name


@pytest.mark.parametrize("op", sorted({case: op for op, case in CASES.items()}.values()))
@settings(max_examples=1, deadline=None, phases=(Phase.generate,))
@given(data=st.data())
def test_ops(limited: OpenCLBackend, op: str, data: Any) -> None:
    maker = Maker(data, np.random.default_rng(0), Builder())
    run_both(limited, maker.b.finish(logits=CASES[op](maker)), maker)


@pytest.mark.parametrize("name", ["Q4_1", "Q2_K", "F16", "NVFP4", "IQ2_S"])
def test_products_of_many_rows(limited: OpenCLBackend, name: str) -> None:
    (fmt,) = (fmt for fmt in FORMATS.values() if fmt.name == name)
    check_products(limited, fmt, (1, 4, 9, 33))


@pytest.mark.parametrize(
    ("local", "kind", "few", "tiled"),
    [(64, LOCAL, 3, 2), (48, LOCAL, 3, 1), (16, LOCAL, 0, 0), (64, WHOLE, 0, 0)],
)
def test_a_grid_is_copied_where_there_is_room(local: int, kind: int, few: int, tiled: int) -> None:
    """One of 16 KiB."""
    cut = variant_of(device("d", local_mem_size=local << 10, local_mem_type=kind))
    b, rng = Builder(), np.random.default_rng(0)
    x = rows_of(b, normal(rng, VOCABULARY, 256))
    program = b.finish(logits=b.matmul(x, random_weight(rng, 8, 256, "IQ1_S")))
    copying = [text for text in texts(program, cut) if "#define LOCAL_GRID" in text]
    tiles = [text for text in copying if "#define TILE_TOKENS" in text]
    assert (len(copying) - len(tiles), len(tiles)) == (few, tiled)


def test_the_group_of_a_launch_is_that_of_its_kernel(limited: OpenCLBackend) -> None:
    """Those that do not say are launched with `items` of them."""
    variant = limited._context.variant
    for program in wide_programs():
        plan = lower(program, storage(program, 1), limited._context)
        for launch in plan.launches:
            for choice in launch.choices:
                kernel = limited._context.kernel(choice.key)
                said = kernel.get_work_group_info(
                    INFO.COMPILE_WORK_GROUP_SIZE, limited._context.device
                )
                local = choice.grid.local
                assert np.prod(local) == variant.items or tuple(said)[: len(local)] == local


def wide_programs() -> Iterator[Any]:
    """As wide as models are: heads of 64 to 576 numbers, 8 of them to a key; 512 experts."""
    rng = np.random.default_rng(0)
    for head_dim, value_dim in ((64, 64), (128, 128), (256, 256), (192, 128), (576, 512)):
        b = Builder()
        q, k = (rows_of(b, normal(rng, VOCABULARY, n * head_dim)) for n in (8, 1))
        v = rows_of(b, normal(rng, VOCABULARY, value_dim))
        yield b.finish(logits=b.attention(q, k, v, num_heads=8, num_kv_heads=1, scale=0.1))
    b = Builder()
    routing = b.moe_route(rows_of(b, normal(rng, VOCABULARY, 512)), 8, gating="softmax")
    weight = random_weight(rng, 512 * 8, 32, "Q8_0")
    wide = b.moe_matmul(rows_of(b, normal(rng, VOCABULARY, 32)), routing, weight, experts=512)
    yield b.finish(logits=b.moe_combine(wide, routing))

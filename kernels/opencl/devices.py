"""The OpenCL devices of this machine, and how kernels are cut for each."""

import re
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyopencl as cl

from edgellm.errors import BackendError, RequestError
from edgellm.kernels.opencl.drivers import LAST, platforms
from edgellm.kernels.opencl.variant import CPU, GPU, Dot4, Tile, Variant

# What a device may have, by the extensions that offer it. Kernels need none of it.
_FEATURES = {
    "subgroups": {"cl_khr_subgroups", "cl_intel_subgroups"},
    "half": {"cl_khr_fp16"},
    "integer dot product": {"cl_khr_integer_dot_product"},
}


@dataclass(frozen=True)
class DeviceMemory:
    """Bytes in all, those that may be allocated, and those of one buffer at most. is_known: the
    driver says what is free. is_shared: all of it is the processor's, so that no more is free than
    there."""

    total: int
    usable: int
    at_once: int
    is_known: bool
    is_shared: bool

    @property
    def brief(self) -> str:
        """On a line with other things."""
        kind = "shared with the processor" if self.is_shared else "its own"
        free = f", {self.usable / 1e9:.3g} GB free" if self.is_known else ""
        return f"{self.total / 1e9:.3g} GB {kind}{free}"

    @property
    def note(self) -> str:
        """All of it for users."""
        sizes = f"{self.usable / 2**30:.1f} of its {self.total / 2**30:.1f} GiB"
        if self.is_known:
            return f"{sizes} are free"
        return f"{sizes} may be used, for its driver does not say how much is free"


@dataclass(frozen=True)
class Device:
    """One device. kind: "gpu", "cpu" or "other". version: of OpenCL. local: bytes of a work-group.
    features: of _FEATURES, those it has. variant: how kernels are cut for it."""

    number: int
    name: str
    platform: str
    driver: str
    kind: str
    version: str
    memory: DeviceMemory
    local: int
    work_group: int
    compute_units: int
    features: tuple[str, ...]
    variant: str

    @property
    def description(self) -> str:
        """All of it on one line."""
        return (
            f"{self.number}: {self.name} ({self.platform}, {self.version}, driver {self.driver}, "
            f"{self.kind}, {self.memory.brief}, {self.memory.at_once / 1e9:.3g} GB at once, "
            f"{self.compute_units} units, groups of {self.work_group} with "
            f"{self.local / 1024:.0f} KiB, {' and '.join(self.features) or 'no extras'}, "
            f"{self.variant} kernels)"
        )


def found() -> list[Any]:
    """All devices in the order of their numbers; none where there is no driver."""
    try:
        here = platforms()
    except cl.Error:  # no driver at all
        return []
    devices = []
    for platform in here:
        try:
            devices += platform.get_devices()
        except cl.Error:  # a platform without devices
            continue
    return devices


def describe(number: int, device: Any) -> Device:
    """What matters of a device."""
    extensions = _extensions(device)
    return Device(
        number=number,
        name=device.name.strip(),
        platform=device.platform.name.strip(),
        driver=device.driver_version.strip(),
        kind=_kind(device),
        version=" ".join(device.version.split()[:2]),
        memory=memory_of(device),
        local=int(device.local_mem_size),
        work_group=int(device.max_work_group_size),
        compute_units=int(device.max_compute_units),
        features=tuple(name for name, offers in _FEATURES.items() if offers & extensions),
        variant=variant_of(device).name,
    )


_FREE_MEMORY_AMD = 0x4039  # of cl_amd_device_attribute_query, in KiB
_LEFT_ALONE = 0.1  # of a device's memory, where the driver does not say what is free
_LEAST_LEFT = 512 << 20  # for what screens and the driver need, but never more than half


def memory_of(device: Any) -> DeviceMemory:
    """What the driver says is free, or all but a reserve."""
    total = int(device.global_mem_size)
    at_once, is_shared = int(device.max_mem_alloc_size), bool(device.host_unified_memory)
    if "cl_amd_device_attribute_query" in _extensions(device):
        try:
            free = int(np.ravel(device.get_info(_FREE_MEMORY_AMD))[0]) << 10
            return DeviceMemory(total, free, at_once, True, is_shared)
        except (cl.Error, TypeError, ValueError):  # an attribute that few drivers know
            pass
    reserve = min(total // 2, max(int(_LEFT_ALONE * total), _LEAST_LEFT))
    return DeviceMemory(total, total - reserve, at_once, False, is_shared)


def has_gpu() -> bool:
    """Whether any device is a GPU."""
    return any(_kind(device) == "gpu" for device in found())


def _kind(device: Any) -> str:
    kinds = {"gpu": cl.device_type.GPU, "cpu": cl.device_type.CPU}
    return next((name for name, bit in kinds.items() if device.type & bit), "other")


# Drivers for processors that give clang's builtins to clang's own code generators. One that goes by
# SPIR-V (Mesa's rusticl) does not refuse them: its translator ends the process.
_TAKE_BUILTINS = {"Portable Computing Language", LAST}


def variant_of(device: Any) -> Variant:
    """How kernels are cut for a device, with what it offers beyond what they need."""
    if _kind(device) == "cpu":
        if device.platform.name.strip() not in _TAKE_BUILTINS:
            return replace(CPU, name=f"{CPU.name}-plain", inlines_itself=False, ahead=0)
        return replace(CPU, name=f"{CPU.name}-avx2", dot4="avx2")
    # Few devices have groups this small, or as little local memory.
    variant = _with_extensions(GPU, device).within(int(device.max_work_group_size))
    variant = replace(variant, local=int(device.local_mem_size) - _RESERVED)
    tokens = tuple(n for n in variant.tokens if variant.parts_bytes(n) <= variant.local)
    has_local = device.local_mem_type == cl.device_local_mem_type.LOCAL
    tiles = (_fitted(tile, variant) for tile in variant.tiles if has_local)
    return replace(variant, tokens=tokens, tiles=tuple(filter(None, tiles)))


_RESERVED = 1024  # bytes of local memory that drivers may need for themselves


def _fitted(tile: Tile, variant: Variant) -> Tile | None:
    """The tile with what local memory has room for at once; None where that is nothing."""
    for groups in (tile.groups, tile.groups // 2, 1):
        smaller = replace(tile, groups=groups)
        if smaller.local_bytes(variant) <= variant.local:
            return smaller
    return None


def _extensions(device: Any) -> set[str]:
    """Of a device. From OpenCL 3.0 on subgroups are a feature, and need no extension."""
    extensions = set(str(device.extensions).split())
    with suppress(cl.Error, AttributeError):  # earlier drivers know no such number
        if device.max_num_sub_groups:
            extensions.add("cl_khr_subgroups")
    return extensions


# What 128 registers hold: more spills, and crashes Intel's compiler of 2022 (of Debian 12).
_PAIRS_OF_INTEL, _AT_ONCE_OF_INTEL = 4, 4
# The same of products where four bytes are not multiplied at once.
_TOKENS_OF_INTEL, _TILES_OF_INTEL = (1, 2), (Tile(least=16, tokens=16, items=8, groups=4),)
_AMD_CHIP = re.compile(r"gfx(?P<generation>9|1\d)[0-9a-f]{2}\b")


def _with_extensions(variant: Variant, device: Any) -> Variant:
    extensions = _extensions(device)
    if "cl_khr_integer_dot_product" in extensions:
        variant = replace(variant, name="gpu-dot", dot4="khr")
    elif "cl_nv_device_attribute_query" in extensions and _compute_capability(device) >= (6, 1):
        variant = replace(variant, name="gpu-dp4a", dot4="ptx")
    elif "cl_amd_device_attribute_query" in extensions and (chip := _AMD_CHIP.match(device.name)):
        generation: Dot4 = "gfx11" if int(chip["generation"]) >= 11 else "gfx9"
        variant = replace(variant, name=f"gpu-{generation}", dot4=generation)
    if {"cl_khr_subgroups", "cl_khr_subgroup_shuffle"} <= extensions:
        variant = replace(variant, shuffles="khr")
    elif "cl_intel_subgroups" in extensions:
        variant = replace(variant, shuffles="intel")
    if "cl_intel_subgroups" in extensions:
        variant = replace(variant, pairs=_PAIRS_OF_INTEL, at_once=_AT_ONCE_OF_INTEL)
        if variant.dot4 == "none":
            variant = replace(variant, tokens=_TOKENS_OF_INTEL, tiles=_TILES_OF_INTEL)
    # Scales may be subnormal halves, which not all devices keep.
    keeps_all = "cl_khr_fp16" in extensions and device.half_fp_config & cl.device_fp_config.DENORM
    return replace(variant, has_half=bool(keeps_all))


def _compute_capability(device: Any) -> tuple[int, int]:
    """Of an NVIDIA device; dp4a came with 6.1."""
    return int(device.compute_capability_major_nv), int(device.compute_capability_minor_nv)


def _rank(device: Any) -> tuple[bool, int]:
    """Cards come before graphics of processors, and those of more memory before others."""
    return bool(device.host_unified_memory), -int(device.global_mem_size)


def meant(wanted: str | None) -> list[Any]:
    """The device with this number, or those with this text in their name, the best first.

    None is every GPU, or all devices where there is none. BackendError when there is no device at
    all, RequestError when none is meant.
    """
    devices = found()
    if not devices:
        raise BackendError(
            "no OpenCL device was found: install the driver of the GPU (its OpenCL part), or use "
            "--backend cpu"
        )
    if wanted is None:
        return sorted((d for d in devices if _kind(d) == "gpu"), key=_rank) or devices
    if wanted.isdigit():
        chosen = devices[int(wanted) :][:1]
    else:
        named = (device for device in devices if wanted.lower() in device.name.lower())
        chosen = sorted(named, key=_rank)
    if chosen:
        return chosen
    known = ", ".join(f"{i} ({d.name.strip()})" for i, d in enumerate(devices))
    raise RequestError(f"device is {wanted!r}: the devices here are {known}", "device")

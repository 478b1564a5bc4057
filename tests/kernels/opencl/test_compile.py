"""Sources for devices that no test has, through clang's front end: is there no mistake in them?

Skipped where there is no clang. It says nothing of what such a device computes.
"""

import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings, strategies as st

from edgellm.kernels.formats import FORMATS, Format
from edgellm.kernels.opencl.ops import lower
from edgellm.kernels.opencl.sources import KernelKey, program_text
from edgellm.kernels.opencl.variant import GPU, Variant
from edgellm.kernels.ops import Builder
from edgellm.kernels.program import Program
from tests.kernels.cpu.cases import CASES, Maker
from tests.kernels.cpu.programs import VOCABULARY, normal, random_weight, rows_of, storage

CLANG = shutil.which("clang")
pytestmark = pytest.mark.skipif(CLANG is None, reason="no clang here")

VARIANTS = {
    "spir64": replace(GPU, has_half=True),
    "spir64 dot": replace(GPU, dot4="khr", shuffles="khr", has_half=True),
    "spir64 intel": replace(GPU, dot4="none", shuffles="intel"),
    "nvptx64-nvidia-nvcl": replace(GPU, dot4="ptx"),
    "amdgcn-amd-amdhsa gfx1030": replace(GPU, dot4="gfx9", has_half=True),
    "amdgcn-amd-amdhsa gfx1100": replace(GPU, dot4="gfx11", has_half=True),
}
# What the front end does not know: Intel's functions, and integer dot products before clang 20.
MORE = """
float __attribute__((overloadable)) intel_sub_group_shuffle_xor(float, uint);
uint __attribute__((overloadable)) get_max_sub_group_size(void);
uint __attribute__((overloadable)) get_sub_group_id(void);
uint __attribute__((overloadable)) get_sub_group_local_id(void);
"""
DOT = "int __attribute__((overloadable)) dot_4x8packed_ss_int(uint, uint);\n"


class Paper:
    """A context without a device."""

    def __init__(self, variant: Variant) -> None:
        self.variant, self.queue = variant, None

    def room(self, size: int, what: str = "") -> None:
        pass

    def upload(self, data: Any, what: str) -> None:
        pass


def check(text: str, name: str, folder: Path) -> None:
    """Fails with what clang says of the text."""
    target, _, way = name.partition(" ")
    language = "CL3.0" if way == "dot" else "CL1.2"
    known = {"dot": DOT, "intel": MORE}.get(way, "")
    source = folder / "source.cl"
    source.write_text(known + text)
    extensions = "-cl-ext=+cl_khr_fp16,+cl_khr_subgroups,+cl_khr_subgroup_shuffle"
    chip = [f"-mcpu={way}", "-nogpulib"] if way.startswith("gfx") else []
    assert CLANG is not None
    done = subprocess.run(
        [CLANG, "-fsyntax-only", "-Werror", "-Wno-unused", "-Wno-unknown-pragmas", "-x", "cl",
         f"-cl-std={language}", "-target", target, *chip, "-Xclang", "-finclude-default-header",
         "-Xclang", extensions, str(source)],
        capture_output=True, text=True,
    )  # fmt: skip
    assert not done.returncode, done.stderr[:4000]


def texts(program: Program, variant: Variant) -> set[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgellm.kernels.opencl.weights.to_strips", lambda *given: None)
        plan = lower(program, storage(program, 1, "f16", "q8_0"), Paper(variant))  # type: ignore[arg-type]
    return {program_text(key, variant) for key in plan.kernels}


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("op", sorted({case: op for op, case in CASES.items()}.values()))
@settings(max_examples=1, deadline=None, phases=(Phase.generate,))
@given(data=st.data())
def test_ops(tmp_path_factory: pytest.TempPathFactory, name: str, op: str, data: Any) -> None:
    maker = Maker(data, np.random.default_rng(0), Builder())
    program = maker.b.finish(logits=CASES[op](maker))
    folder = tmp_path_factory.mktemp("sources")
    for text in texts(program, VARIANTS[name]):
        check(text, name, folder)


@pytest.mark.parametrize("name", VARIANTS)
@pytest.mark.parametrize("fmt", FORMATS.values(), ids=lambda fmt: fmt.name)
def test_formats(tmp_path: Path, name: str, fmt: Format) -> None:
    b = Builder()
    x = rows_of(b, normal(np.random.default_rng(0), VOCABULARY, 512))
    weight = random_weight(np.random.default_rng(0), 8, 512, fmt.name)
    program = b.finish(logits=b.matmul(x, weight))
    for text in texts(program, VARIANTS[name]):
        if re.search("TILE_TOKENS 64|TOKENS 4|SIZE", text):
            check(text, name, tmp_path)


def test_what_belongs_to_no_op(tmp_path: Path) -> None:
    layout = ("TYPE_SIZE", 18), ("SCALE_LAST", 0)
    for name, variant in VARIANTS.items():
        for key in (KernelKey("probe", "probe"), KernelKey("strips", "to_strips", None, layout)):
            check(program_text(key, variant), name, tmp_path)

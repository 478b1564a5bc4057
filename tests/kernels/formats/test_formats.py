"""Every format: sizes, and the numpy reference against the `gguf` package and scalar layouts."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

from edgellm.gguf_loader import GGML_TYPES, open_gguf
from edgellm.kernels.formats import (
    FORMATS,
    Format,
    by_id,
    by_name,
    dequantize_rows,
    quantize_rows,
)
from edgellm.kernels.formats.format import Blocks, Values
from tests.kernels.formats.blocks import random_blocks

ALL = list(FORMATS.values())
NOT_WEIGHTS = {"I8", "I16", "I32", "I64", "Q8_1", "Q8_K"}
NOT_IN_GGUF = {
    "F64",
    "Q1_0",
    "Q2_0",
}  # the package cannot dequantise these: see test_scalar_layouts

every_format = pytest.mark.parametrize("fmt", ALL, ids=lambda fmt: fmt.name)


def bits(values: Values) -> npt.NDArray[np.uint32]:
    return values.view(np.uint32)


def from_gguf(fmt: Format, blocks: Blocks) -> Values:
    # The largest scale of MXFP4; signalling NaN on some processors.
    with np.errstate(over="ignore", invalid="ignore"):
        values = quants.dequantize(blocks, GGMLQuantizationType(fmt.type_id))
    return np.asarray(values, np.float32).reshape(len(blocks), fmt.block_size)


def test_the_table_has_every_weight_type() -> None:
    assert {fmt.name for fmt in ALL} == {t.name for t in GGML_TYPES.values()} - NOT_WEIGHTS
    for fmt in ALL:
        known = GGML_TYPES[fmt.type_id]
        assert (fmt.name, fmt.block_size, fmt.type_size) == (
            known.name,
            known.block_size,
            known.type_size,
        )


@every_format
def test_sizes_and_lookup(fmt: Format) -> None:
    assert by_id(fmt.type_id) is fmt is by_name(fmt.name)
    if fmt.name in GGMLQuantizationType.__members__:
        kind = GGMLQuantizationType[fmt.name]
        assert (fmt.type_id, (fmt.block_size, fmt.type_size)) == (kind, GGML_QUANT_SIZES[kind])
    assert (fmt.unpack is None) == (fmt.block_size == 1)
    assert fmt.block_size == 1 or fmt.block_size % fmt.group_size == 0
    assert fmt.row_bytes(3 * fmt.block_size) == 3 * fmt.type_size


def test_a_row_is_whole_blocks() -> None:
    with pytest.raises(ValueError, match="multiple of 256 weights, not 300"):
        by_name("Q4_K").row_bytes(300)


@pytest.mark.parametrize(
    "fmt", [fmt for fmt in ALL if fmt.name not in NOT_IN_GGUF], ids=lambda fmt: fmt.name
)
def test_dequantize_has_the_bits_of_gguf(fmt: Format) -> None:
    blocks = random_blocks(fmt, 300)
    if fmt.block_size == 1:  # these bytes are the value, and may be NaN
        finite = np.isfinite(from_gguf(fmt, blocks)[:, 0])
        blocks = blocks[finite]
    got = fmt.dequantize(blocks)
    assert got.dtype == np.float32 and got.shape == (len(blocks), fmt.block_size)
    assert np.array_equal(bits(got), bits(from_gguf(fmt, blocks)))


def test_dequantize_is_silent_about_non_finite_floats() -> None:
    assert np.isnan(by_name("F16").dequantize(np.array([[0, 0x7E]], np.uint8)))
    assert np.isnan(by_name("BF16").dequantize(np.array([[0xC0, 0x7F]], np.uint8)))
    huge = np.array([[1e300]]).view(np.uint8)
    assert np.isinf(by_name("F64").dequantize(huge))


def scalar_q1_0(block: Blocks) -> list[float]:
    d = float(block[:2].view("<f2")[0])
    return [d if block[2 + i // 8] >> i % 8 & 1 else -d for i in range(128)]


def scalar_q2_0(block: Blocks) -> list[float]:
    d = float(block[:2].view("<f2")[0])
    return [d * (int(block[2 + i // 4] >> 2 * (i % 4) & 3) - 1) for i in range(64)]


def scalar_nvfp4(block: Blocks) -> list[float]:
    magnitudes = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
    values = []
    for i in range(64):
        code = int(block[i // 16]) & 127
        mantissa, exponent = code & 7, code >> 3
        scale = (
            mantissa / 8 * 2.0**-6 if exponent == 0 else (1 + mantissa / 8) * 2.0 ** (exponent - 7)
        )
        scale = 0.0 if block[i // 16] == 127 else scale
        byte = int(block[4 + i // 16 * 8 + i % 8])
        nibble = byte >> 4 if i % 16 >= 8 else byte & 15
        values.append(scale * magnitudes[nibble & 7] * (-1 if nibble & 8 else 1))
    return values


def scalar_f64(block: Blocks) -> list[float]:
    return [float(block.view("<f8")[0])]


SCALAR = {"Q1_0": scalar_q1_0, "Q2_0": scalar_q2_0, "NVFP4": scalar_nvfp4, "F64": scalar_f64}


@pytest.mark.parametrize("name", SCALAR)
def test_scalar_layouts(name: str) -> None:
    fmt = by_name(name)
    blocks = random_blocks(fmt, 100)
    if name == "F64":
        blocks = np.random.default_rng(0).standard_normal((100, 1)).view(np.uint8)
    want = np.array([SCALAR[name](block) for block in blocks], np.float32)
    assert np.array_equal(fmt.dequantize(blocks), want)


@every_format
def test_rows(fmt: Format) -> None:
    blocks = random_blocks(fmt, 12, seed=3)
    with np.errstate(invalid="ignore"):
        rows = dequantize_rows(fmt, blocks.reshape(4, 3 * fmt.type_size))
    assert rows.shape == (4, 3 * fmt.block_size)
    assert np.array_equal(
        rows.reshape(12, -1), fmt.dequantize(blocks), equal_nan=fmt.block_size == 1
    )


def test_unwritable_formats_say_so() -> None:
    read_only = replace(by_name("Q4_K"), quantize=None)
    with pytest.raises(ValueError, match="does not write Q4_K"):
        quantize_rows(read_only, np.zeros((1, 256), np.float32))


def oracle_files(oracle: Path) -> list[Path]:
    files = sorted((oracle / "quants").glob("*.gguf"))
    assert len(files) >= 26
    return files


def test_oracle_files_dequantise_as_gguf_does(oracle: Path) -> None:
    seen = set()
    for path in oracle_files(oracle):
        with open_gguf(path) as file:
            for name, info in file.tensors.items():
                fmt = by_id(info.type_id)
                seen.add(fmt.name)
                blocks = np.array(file.data(name)).reshape(-1, fmt.type_size)
                values = fmt.dequantize(blocks)
                assert np.isfinite(values).all(), (path.name, name)
                scalar = SCALAR.get(fmt.name)
                if scalar is None:
                    want = from_gguf(fmt, blocks)
                else:  # slow: a sample
                    values = values[:32]
                    want = np.array([scalar(block) for block in blocks[:32]], np.float32)
                assert np.array_equal(values, want), (path.name, name)
    assert seen >= {fmt.name for fmt in ALL} - {"F64", "NVFP4"}


def test_importing_the_formats_loads_neither_gguf_nor_numba() -> None:
    code = (
        "import sys, edgellm.kernels.formats as f\n"
        "loaded = {'gguf', 'numba', 'llvmlite'} & set(sys.modules)\n"
        "sys.exit(f'loaded {loaded}' if loaded else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

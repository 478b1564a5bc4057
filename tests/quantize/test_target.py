"""Files of a given size: what is chosen fits, costs least where it counts, and can be written."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.errors import RequestError
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.formats import by_name, dequantize_rows, quantize_rows
from edgellm.quantize.plan import parse_override
from edgellm.quantize.sensitivity import measure
from edgellm.quantize.target import CANDIDATES, Target, plan_for
from edgellm.quantize.write import write_quantized
from tests.gguf_writer import F16, F32, Tensor, write_gguf

ROWS, COLUMNS = 32, 512
NAMES = ("blk.0.ffn_up.weight", "blk.0.ffn_down.weight", "blk.1.ffn_up.weight")


@pytest.fixture
def source(tmp_path: Path) -> Path:
    rng = np.random.default_rng(0)
    tensors: list[Tensor] = [
        (name, (COLUMNS, ROWS), F16, rng.standard_normal((ROWS, COLUMNS)).astype(np.float16))
        for name in NAMES
    ]
    tensors.append(("output_norm.weight", (COLUMNS,), F32, np.ones(COLUMNS, np.float32)))
    return write_gguf(tmp_path / "in.gguf", {"general.architecture": "llama"}, tensors)


def test_errors_are_those_of_the_whole_tensor(source: Path) -> None:
    mean = np.linspace(0, 4, COLUMNS, dtype=np.float32)
    with open_gguf(source) as file:
        tensor = file.tensors[NAMES[0]]
        [now, choice] = measure(file, [tensor], ["Q4_K"], {NAMES[0]: mean[None]}, 1)[NAMES[0]]
        values = file.data(NAMES[0]).view(np.float16).reshape(ROWS, COLUMNS).astype(np.float32)
    assert (now.type, now.nbytes, now.error) == ("F16", 2 * ROWS * COLUMNS, 0)
    back = dequantize_rows(by_name("Q4_K"), quantize_rows(by_name("Q4_K"), values, mean))
    want = (mean * (values - back) ** 2).sum() / (mean * values**2).sum()
    assert choice.error == pytest.approx(want, rel=1e-4)
    assert choice.nbytes == ROWS * COLUMNS // 256 * 144


@pytest.mark.parametrize("bits", [3.0, 3.3, 4.5, 5.01, 6.6, 9, 16])
def test_bits_for_each_weight(source: Path, bits: float) -> None:
    with open_gguf(source) as file:
        plan, chosen = plan_for(file, Target(bits=bits), CANDIDATES, {}, 2)
        assert plan.nbytes * 8 <= bits * file.num_parameters
        assert [planned.type for planned in plan.tensors[:3]] == [
            chosen[name].type for name in NAMES
        ]
        assert plan.tensors[3].is_copied
        if bits < 16:  # as near as the next step of the smallest tensor
            assert plan.nbytes * 8 > (bits - 2) * file.num_parameters


@pytest.mark.parametrize("kilobytes", [25, 33, 60])
def test_the_file_is_no_larger(source: Path, kilobytes: int) -> None:
    out = source.with_name("out.gguf")
    with open_gguf(source) as file:
        plan, _ = plan_for(file, Target(nbytes=kilobytes << 10), CANDIDATES, {}, 2)
        assert write_quantized(file, plan, out, 2) <= kilobytes << 10
    with open_gguf(out) as file:
        found = {name: file.tensors[name].type_name for name in NAMES}
        assert found == {planned.tensor.name: planned.type for planned in plan.tensors[:3]}
        assert file.integer("general.file_type") == plan.file_type


def test_what_is_asked_for_by_name_is_kept_and_paid_for(source: Path) -> None:
    overrides = [parse_override(r"ffn_down=Q8_0")]
    with open_gguf(source) as file:
        plan, chosen = plan_for(file, Target(bits=5.5), CANDIDATES, {}, 1, overrides)
        assert plan.nbytes * 8 <= 5.5 * file.num_parameters
    assert plan.tensors[1].type == "Q8_0" and NAMES[1] not in chosen


def test_what_costs_more_gets_more_bits(source: Path) -> None:
    with open_gguf(source) as file:
        plan, _ = plan_for(file, Target(bits=4.6), CANDIDATES, {}, 1, costs={"ffn_down": 9.0})
    assert plan.tensors[1].nbytes > plan.tensors[0].nbytes


def test_a_target_that_cannot_be_met(source: Path) -> None:
    with open_gguf(source) as file, pytest.raises(RequestError, match="allow smaller types"):
        plan_for(file, Target(bits=1.5), CANDIDATES, {}, 1)


def test_what_no_type_can_hold_is_named(tmp_path: Path) -> None:
    values = np.ones((4, 256), np.float16)
    values[1, 1] = np.nan
    tensors: list[Tensor] = [("blk.0.ffn_up.weight", (256, 4), F16, values)]
    path = write_gguf(tmp_path / "in.gguf", {"general.architecture": "llama"}, tensors)
    with (
        open_gguf(path) as file,
        pytest.raises(RequestError, match=r"ffn_up.weight' to Q2_K: .*NaN"),
    ):
        plan_for(file, Target(bits=5), CANDIDATES, {}, 2)

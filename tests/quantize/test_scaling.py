"""Scales for columns: chosen where they help, left alone where they do not."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.gguf_loader import open_gguf
from edgellm.kernels.formats import by_id, dequantize_rows
from edgellm.kernels.formats.format import Values
from edgellm.models import read_config, record
from edgellm.quantize.folds import factors_of, find_folds
from edgellm.quantize.importance import Importance
from edgellm.quantize.plan import make_plan
from edgellm.quantize.scaling import choose_scales
from edgellm.quantize.write import write_quantized
from tests.models.tiny import write_tiny

IDS = list(range(1, 30))


def means_of(path: Path, driven: Values) -> dict[str, Values]:
    """As strongly as `driven` (columns,) says, for all matrices that many columns wide."""
    with open_gguf(path) as file:
        return {
            name: driven[None]
            for name, tensor in file.tensors.items()
            if tensor.columns == len(driven) and tensor.rows > 1
        }


@pytest.mark.parametrize("smooth", [False, True])
def test_columns_that_are_driven_strongly(tmp_path: Path, smooth: bool) -> None:
    """Their errors fall, and the model that is written computes nearly the same."""
    path = write_tiny(tmp_path, "llama", format_name="F16")
    with open_gguf(path) as file:
        columns = file.tensors["blk.0.attn_q.weight"].columns
    driven = np.full(columns, 0.01, np.float32)
    driven[::16] = 100
    means = means_of(path, driven)
    errors = {}
    with open_gguf(path) as file:
        plan = make_plan(file, "Q4_0", pure=True)
        folds = find_folds(record(file, read_config(file), 1), file)
        chosen = choose_scales(file, plan, folds.found, means, smooth, 2)
        assert {fold.readers[0] for fold, _ in chosen} >= {"blk.0.attn_q.weight"}
        for scales in ([], chosen):
            factors, out = factors_of(file, scales), tmp_path / f"{len(scales)}.gguf"
            write_quantized(file, plan, out, 1, Importance(means, (), 1), factors=factors)
            errors[out] = 0.0
            with open_gguf(out) as written:
                for name in ("blk.0.attn_q.weight", "blk.0.ffn_gate.weight"):
                    stored, tensor = written.data(name), written.tensors[name]
                    back = dequantize_rows(by_id(tensor.type_id), stored.reshape(tensor.rows, -1))
                    if scales and factors[name].columns is not None:
                        back = back / factors[name].columns
                    truth = file.data(name).view(np.float16).reshape(tensor.rows, -1)
                    errors[out] += float((np.square(back - truth) * driven).sum())
    before, after = errors.values()
    assert after < 0.8 * before


def test_types_that_lose_nothing_are_left_alone(tmp_path: Path) -> None:
    path = write_tiny(tmp_path, "llama", format_name="F16")
    with open_gguf(path) as file:
        columns = file.tensors["blk.0.attn_q.weight"].columns
        folds = find_folds(record(file, read_config(file), 1), file)
        means = means_of(path, np.ones(columns, np.float32))
        assert not choose_scales(file, make_plan(file, "F16"), folds.found, means, False, 1)
        assert not choose_scales(file, make_plan(file, "Q4_0"), folds.found, {}, False, 1)

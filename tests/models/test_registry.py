"""Every architecture row: a tiny random model of it must run, alone, in chunks and in company."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from edgellm.models import ARCHITECTURES, read_config, record
from edgellm.models.decoder import FEED_FORWARDS, MIXERS
from tests.models.conftest import TinyFile
from tests.models.recipes import RECIPES
from tests.models.recipes.parts import CONTEXT, VOCAB, WINDOW
from tests.models.running import Logits, Runner, logits_of, record_file
from tests.models.tiny import write_tiny

IDS = np.random.default_rng(3).integers(0, VOCAB, size=50).tolist()


# Of the energy: how far the order of float sums may lead, GELU's table of halves included.
TOLERANCE = 1e-8
TOLERANCES = {"gemma3n": 5e-8}


def assert_same(name: str, got: Logits, want: Logits) -> None:
    """Equal but for the order of float sums."""
    assert got.shape == want.shape
    difference = ((got - want) ** 2).mean()
    assert difference <= TOLERANCES.get(name, TOLERANCE) * (want**2).mean()


every_row = pytest.mark.parametrize("name", ARCHITECTURES)
every_causal_row = pytest.mark.parametrize(
    "name", [n for n, row in ARCHITECTURES.items() if row.causal]
)


@every_causal_row
def test_logits_are_finite_and_causal(tiny_file: TinyFile, name: str) -> None:
    path = tiny_file(name)
    logits = logits_of(path, IDS)
    assert logits.shape == (len(IDS), VOCAB)
    assert np.isfinite(logits).all()
    changed = [*IDS[:-1], (IDS[-1] + 1) % VOCAB]
    other = logits_of(path, changed)
    assert_same(name, other[:-1], logits[:-1])
    assert np.abs(other[-1] - logits[-1]).max() > 1e-2


@every_causal_row
def test_a_prompt_in_chunks_is_the_prompt_at_once(tiny_file: TinyFile, name: str) -> None:
    path = tiny_file(name)
    runner = Runner(path)
    sequence = runner.sequence(IDS)
    parts = [runner.step((sequence, count)) for count in (1, 7, 33, 9)]
    assert_same(name, np.concatenate(parts), logits_of(path, IDS))


@every_causal_row
def test_a_batch_of_two_is_each_alone(tiny_file: TinyFile, name: str) -> None:
    path = tiny_file(name)
    runner = Runner(path)
    first, second = runner.sequence(IDS), runner.sequence(IDS[::-1])
    mixed = [runner.step((first, 40), (second, 3)), runner.step((second, 20), (first, 10))]
    assert_same(name, np.concatenate([mixed[0][:40], mixed[1][20:]]), logits_of(path, IDS))
    assert_same(
        name, np.concatenate([mixed[0][40:], mixed[1][:20]]), logits_of(path, IDS[::-1])[:23]
    )


@every_causal_row
def test_token_order_matters(tmp_path: Path, name: str) -> None:
    """Without positions the last row would not tell one order of the past from another."""
    path = write_tiny(tmp_path, name)
    swapped = [IDS[1], IDS[0], *IDS[2:6]]
    difference = logits_of(path, IDS[:6])[-1] - logits_of(path, swapped)[-1]
    assert np.abs(difference).max() > 1e-3


@every_row
def test_a_tensor_that_is_missing_is_named(tiny_file: TinyFile, name: str) -> None:
    """In one layer: what is missing in all of them may be what files can do without.

    Where it is what told the layer's block: the layer, or what that other block would need.
    """
    telling = {tensor for tensor, _ in (*MIXERS, *FEED_FORWARDS)}
    layer = f"{ARCHITECTURES[name].part}blk.2."
    with open_gguf(tiny_file(name)) as file:
        config, whole = read_config(file), file.tensors
        for missing in (n for n in whole if n.startswith((layer, "output_norm.weight"))):
            file.tensors = {n: info for n, info in whole.items() if n != missing}
            is_telling = missing.removeprefix(layer).removesuffix(".weight") in telling
            named = (
                rf"tensor {re.escape(layer)}|{name}\.\S+ is" if is_telling else re.escape(missing)
            )
            with pytest.raises(GGUFError, match=named):
                record(file, config, CONTEXT)


@every_row
def test_a_tensor_of_another_shape_is_named(tiny_file: TinyFile, name: str) -> None:
    with open_gguf(tiny_file(name)) as file:
        config, whole = read_config(file), file.tensors
        for wrong in (n for n in whole if not n.startswith("dec.")):
            if "blk." in wrong and "blk.2." not in wrong:
                continue
            info = whole[wrong]
            shape = (info.shape[0] + 1, *info.shape[1:])
            file.tensors = {**whole, wrong: replace(info, shape=shape)}
            with pytest.raises(GGUFError, match=rf"{re.escape(wrong)} has shape"):
                record(file, config, CONTEXT)


def test_gemma3_windowed_layers_rotate_by_a_table_of_their_own(tmp_path: Path) -> None:
    tables = {
        name: sum(call.op == "rope_table" for call in record_file(write_tiny(tmp_path, name)).calls)
        for name in ("gemma3", "gpt-oss")
    }
    assert tables == {"gemma3": 2, "gpt-oss": 1}


def test_the_27b_gemma3_scales_scores_by_hidden_size_per_head(tmp_path: Path) -> None:
    with open_gguf(write_tiny(tmp_path, "gemma3")) as file:
        small = read_config(file)
    width = ARCHITECTURES["gemma3"].attention_width
    assert width(small) == small.head_dim
    large = replace(small, num_layers=62, hidden_size=5376, num_heads=(32,) * 62, head_dim=128)
    assert width(large) == 168


@every_row
def test_layers_are_grouped_by_window(tiny_file: TinyFile, name: str) -> None:
    window = WINDOW if ARCHITECTURES[name].causal else WINDOW // 2 + 1
    windows = [window if yes else None for yes in RECIPES[name].windowed]
    program = record_file(tiny_file(name))
    by_layer = {layer: g.window for g in program.kv_groups for layer in g.layers}
    assert [by_layer[layer] for layer in range(len(windows))] == windows
    assert len(program.kv_groups) == len(set(windows))

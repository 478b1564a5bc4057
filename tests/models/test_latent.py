"""Latent attention: both ways that files hold its matrices, and the scale of its scores."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.formats import by_name
from edgellm.models import read_config
from tests.gguf_writer import Tensor
from tests.models.recipes.experts import (
    KV_RANK,
    LOCAL_RANK,
    PLAIN_DIM,
    ROPE_DIM,
    UNFOLDED_KEYS,
    VALUE_DIM,
)
from tests.models.recipes.parts import HEADS, LAYERS, VOCAB
from tests.models.running import Logits, Runner, logits_of, record_file
from tests.models.tiny import random_tensor, write_tiny

IDS = np.random.default_rng(6).integers(0, VOCAB, size=30).tolist()


def in_floats(keys: dict[str, Any], tensors: list[Tensor]) -> None:
    tensors[:] = [random_tensor(name, shape, "F32") for name, shape, _, _ in tensors]


def unfolded(keys: dict[str, Any], tensors: list[Tensor]) -> None:
    """As older files have it: both matrices of a head in one, the keys' not turned."""
    in_floats(keys, tensors)
    for name in [key for key in keys if "attention.key_length" in key or "value_length" in key]:
        del keys[name]
    keys.update({f"deepseek2.{key}": value for key, value in UNFOLDED_KEYS.items()})
    stored = {name: data.view(np.float32) for name, _, _, data in tensors}
    kept = [t for t in tensors if not t[0].endswith(("attn_k_b.weight", "attn_v_b.weight"))]
    for name in [name for name in stored if name.endswith("attn_k_b.weight")]:
        to_latent = stored[name].reshape(HEADS, KV_RANK, PLAIN_DIM).swapaxes(1, 2)
        to_values = stored[name.replace("k_b", "v_b")].reshape(HEADS, VALUE_DIM, KV_RANK)
        both = np.concatenate([to_latent, to_values], axis=1).reshape(-1, KV_RANK)
        shape = KV_RANK, len(both)
        data = np.ascontiguousarray(both).view(np.uint8)
        kept.append((name.replace("k_b", "kv_b"), shape, by_name("F32").type_id, data))
    tensors[:] = kept


def near(got: Logits, want: Logits) -> bool:
    return bool(((got - want) ** 2).mean() <= 1e-9 * (want**2).mean())


def test_one_matrix_or_two_give_the_same(tmp_path: Path) -> None:
    two = logits_of(write_tiny(tmp_path, "deepseek2", in_floats), IDS)
    assert near(logits_of(write_tiny(tmp_path, "deepseek2", unfolded), IDS), two)


def test_layers_with_a_window_may_have_latents_of_their_own(tmp_path: Path) -> None:
    layers = record_file(write_tiny(tmp_path, "dots3note")).kv_layers
    widths = [KV_RANK if layer == 3 else LOCAL_RANK for layer in range(LAYERS)]
    assert [kv.head_dim for kv in layers] == [width + ROPE_DIM for width in widths]


def test_only_the_latent_and_the_position_are_stored(tmp_path: Path) -> None:
    layers = record_file(write_tiny(tmp_path, "deepseek2")).kv_layers
    assert {(kv.num_kv_heads, kv.head_dim, kv.value_dim) for kv in layers} == {
        (1, KV_RANK + ROPE_DIM, 0)
    }


def test_yarn_goes_into_the_scores_and_not_into_the_rotation(tmp_path: Path) -> None:
    scaling = {"type": "yarn", "factor": 40.0, "yarn_log_multiplier": 0.0707}

    def scaled(keys: dict[str, Any], _: list[Tensor]) -> None:
        keys.update({f"deepseek2.rope.scaling.{key}": value for key, value in scaling.items()})

    with open_gguf(write_tiny(tmp_path, "deepseek2", scaled)) as file:
        config = read_config(file)
    assert config.latent is not None
    # mscale_all_dim of DeepSeek-V2-Lite is 0.707: (0.1 * 0.707 * ln 40 + 1)^2
    assert config.latent.score_factor == pytest.approx((1 + 0.0707 * math.log(40)) ** 2)
    assert config.rope_scaling.magnitude == 1


def test_a_file_that_does_not_say_how_wide_latents_are_is_refused(tmp_path: Path) -> None:
    path = write_tiny(
        tmp_path, "deepseek2", lambda keys, _: keys.pop("deepseek2.attention.kv_lora_rank")
    )
    with pytest.raises(GGUFError, match="attn_kv_a_mqa.*kv_lora_rank"):
        Runner(path)

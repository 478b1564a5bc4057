"""What files and rows say of experts: gates, widths, groups, layers that predict further ahead."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.errors import GGUFError
from edgellm.models import ARCHITECTURES
from edgellm.models.expert_config import ExpertConfig
from tests.gguf_writer import Tensor
from tests.models.recipes import RECIPES
from tests.models.recipes.parts import FF, LAYERS, VOCAB
from tests.models.running import logits_of, record_file
from tests.models.test_config import config_of
from tests.models.tiny import random_tensor, write_tiny


def experts_of(folder: Path, name: str, **changes: Any) -> ExpertConfig:
    experts = config_of(folder, name, **changes).experts
    assert experts is not None
    return experts


def test_a_key_of_zero_leaves_it_to_the_family(tmp_path: Path) -> None:
    keys = {"expert_gating_func": 0, "expert_weights_scale": 0.0, "expert_group_count": 0}
    experts = experts_of(tmp_path, "glm4moe", **keys)
    assert (experts.gating, experts.factor, experts.groups) == ("sigmoid", 1.0, 1)


@pytest.mark.parametrize(
    "name", [n for n, recipe in RECIPES.items() if "expert_count" in recipe.keys]
)
def test_a_key_can_only_add_that_weights_are_normalised(tmp_path: Path, name: str) -> None:
    """Writers put "no" into files of families that always do it."""
    assert experts_of(tmp_path, name, expert_weights_norm=True).normalize
    untold = experts_of(tmp_path, name, expert_weights_norm=None).normalize
    assert experts_of(tmp_path, name, expert_weights_norm=False).normalize is untold
    assert untold is ARCHITECTURES[name].normalize_gates


@pytest.mark.parametrize("name", ["llama", "llama-embed", "minicpm"])
def test_the_weights_of_mixtrals_kin_add_up_to_one(tmp_path: Path, name: str) -> None:
    assert experts_of(tmp_path, name, expert_count=8, expert_used_count=2).normalize


def test_where_all_layers_have_experts_no_other_width_is_needed(tmp_path: Path) -> None:
    def without(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys["qwen3moe.expert_feed_forward_length"] = FF
        del keys["qwen3moe.feed_forward_length"]

    ids = list(range(9))
    want = logits_of(write_tiny(tmp_path, "qwen3moe"), ids)
    np.testing.assert_array_equal(logits_of(write_tiny(tmp_path, "qwen3moe", without), ids), want)


def test_layers_may_use_different_numbers_of_experts(tmp_path: Path) -> None:
    """As pruned models do. Source: Bercovich et al. 2024 (Puzzle)."""

    def pruned(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys["qwen3moe.expert_used_count"] = [1, 2, 3, 2, 1, 3]

    calls = record_file(write_tiny(tmp_path, "qwen3moe", pruned)).calls
    assert [c.attributes["top_k"] for c in calls if c.op == "moe_route"] == [1, 2, 3, 2, 1, 3]

    def idle(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys["qwen3moe.expert_used_count"] = [1, 2, 3, 0, 1, 3]

    with pytest.raises(GGUFError, match="expert_used_count is 0 for layer 3"):
        record_file(write_tiny(tmp_path, "qwen3moe", idle))


@pytest.mark.parametrize(
    ("number", "gating"), [(1, "softmax"), (2, "sigmoid"), (3, "softmax_selected")]
)
def test_the_gate_by_number(tmp_path: Path, number: int, gating: str) -> None:
    assert experts_of(tmp_path, "deepseek2", expert_gating_func=number).gating == gating


def test_widths_without_keys(tmp_path: Path) -> None:
    none = {"expert_feed_forward_length": None, "expert_shared_feed_forward_length": None}
    mixtral = experts_of(tmp_path, "granitemoe", **none)
    assert mixtral.intermediate_size == mixtral.shared_intermediate_size == (FF,) * LAYERS
    assert experts_of(tmp_path, "qwen2moe", **none).intermediate_size == (FF // 2,) * LAYERS
    shared = experts_of(tmp_path, "deepseek", **none, expert_shared_count=2)
    assert shared.shared_intermediate_size == (2 * FF,) * LAYERS


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"expert_used_count": 4}, "expert_used_count"),
        ({"expert_gating_func": 4}, "expert_gating_func"),
        ({"expert_count": 6, "expert_group_count": 4}, "expert_group_count is 4.*6 experts"),
        (
            {"expert_count": 3, "expert_group_count": 3, "expert_group_used_count": 1},
            "expert_group_used_count is 1.*room for 2",
        ),
        ({"nextn_predict_layers": LAYERS}, "nextn_predict_layers"),
        ({"nextn_predict_layers": -1}, "nextn_predict_layers is -1"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, keys: dict[str, Any], named: str) -> None:
    with pytest.raises(GGUFError, match=named):
        config_of(tmp_path, "deepseek2", **keys)


@pytest.mark.parametrize("key", ["swiglu_clamp_exp", "swiglu_clamp_shexp"])
def test_an_activation_with_a_limit_takes_no_other(tmp_path: Path, key: str) -> None:
    assert experts_of(tmp_path, "gpt-oss", **{key: 0.0}).limits == (None,) * LAYERS
    with pytest.raises(GGUFError, match=f"{key} is given, expected none"):
        config_of(tmp_path, "gpt-oss", **{key: 7.0})


def test_layers_that_predict_further_ahead_are_left_out(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).integers(0, VOCAB, 10).tolist()

    def more(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys["glm4moe.block_count"] = LAYERS + 1
        keys["glm4moe.nextn_predict_layers"] = 1
        keys["glm4moe.attention.head_count"] = np.full(LAYERS + 1, 4, np.uint32)
        last = f"blk.{LAYERS - 1}."
        extra = [(n.replace(last, f"blk.{LAYERS}."), s) for n, s, *_ in tensors if last in n]
        tensors += [random_tensor(name, shape) for name, shape in extra]
        tensors.append(random_tensor(f"blk.{LAYERS}.nextn.eh_proj.weight", (128, 64)))

    want = logits_of(write_tiny(tmp_path, "glm4moe"), ids)
    np.testing.assert_array_equal(logits_of(write_tiny(tmp_path, "glm4moe", more), ids), want)


@pytest.mark.parametrize(
    ("name", "best"), [("deepseek2", 2), ("mistral4", 2), ("deepseek2 without bias", 1)]
)
def test_how_many_experts_score_a_group(tmp_path: Path, name: str, best: int) -> None:
    name, *without = name.split(" ", 1)

    def edit(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        grouped = {"expert_count": 3, "expert_group_count": 3, "expert_group_used_count": 2}
        keys |= {f"{name}.{key}": value for key, value in grouped.items()}
        if without:
            tensors[:] = [tensor for tensor in tensors if "exp_probs_b" not in tensor[0]]

    calls = record_file(write_tiny(tmp_path, name, edit)).calls
    routes = [call.attributes for call in calls if call.op == "moe_route"]
    assert routes and {route["group_best"] for route in routes} == {best}

"""Metadata outside its range, of the wrong type or missing is refused by the name of its key."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from edgellm.models import ARCHITECTURES, ModelConfig, read_config
from edgellm.models.registry import NOT_RUN
from tests.gguf_writer import float32, uint64, write_gguf
from tests.models.recipes.parts import LAYERS
from tests.models.tiny import metadata


def config_of(folder: Path, name: str = "llama", **changes: Any) -> ModelConfig:
    """The configuration of a tiny file with some keys changed (`__` is a dot) or removed (None)."""
    keys = metadata(name)
    for key, value in changes.items():
        full = f"{name}.{key.replace('__', '.')}"
        keys.pop(full, None)
        if value is not None:
            keys[full] = value
    with open_gguf(write_gguf(folder / "config.gguf", keys)) as file:
        return read_config(file)


def test_defaults_follow_from_what_is_there(tmp_path: Path) -> None:
    config = config_of(
        tmp_path,
        attention__head_count_kv=None,
        attention__key_length=None,
        attention__value_length=None,
        rope__freq_base=None,
    )
    assert config.num_kv_heads == config.num_heads == (4,) * LAYERS
    assert config.head_dim == config.rotary_dim == 16
    assert config.rope_base == 10000.0
    assert config.attention_scale is None and config.final_softcap is None
    assert config.rope_scaling.factor == 1


def test_lists_have_one_entry_per_layer(tmp_path: Path) -> None:
    heads = np.array([4, 2, 4, 2, 4, 2], np.uint32)
    assert config_of(tmp_path, attention__head_count=heads).num_heads == tuple(heads)
    with pytest.raises(GGUFError, match=r"llama.attention.head_count is a list of 5"):
        config_of(tmp_path, attention__head_count=heads[:5])
    with pytest.raises(GGUFError, match=r"llama.attention.head_count.*\b0\b"):
        config_of(tmp_path, attention__head_count=heads * np.uint32(0))
    with pytest.raises(GGUFError, match=r"llama.feed_forward_length.*expected"):
        config_of(tmp_path, feed_forward_length=["a"] * LAYERS)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (None, [1, 1, 1, 1, 1, 0]),
        (3, [1, 1, 0, 1, 1, 0]),
        (np.array([0, 1, 0, 0, 0, 1], np.bool_), [0, 1, 0, 0, 0, 1]),
        (np.array([1, 0, 1, 0, 1, 0], np.uint32), [1, 0, 1, 0, 1, 0]),
    ],
)
def test_window_patterns(tmp_path: Path, pattern: Any, expected: list[int]) -> None:
    config = config_of(tmp_path, "gemma3", attention__sliding_window_pattern=pattern)
    assert config.windows == tuple(8 if yes else None for yes in expected)


def test_a_window_of_zero_is_none(tmp_path: Path) -> None:
    config = config_of(tmp_path, "gemma3", attention__sliding_window=0)
    assert config.windows == (None,) * LAYERS


def test_local_layers_have_their_own_rope_base(tmp_path: Path) -> None:
    assert config_of(tmp_path, "gemma3").local_rope_base == 10000.0
    assert config_of(tmp_path, "gemma3", rope__freq_base_swa=500.0).local_rope_base == 500.0
    for name in ("mimo2", "step35"):
        assert config_of(tmp_path, name, rope__freq_base_swa=None).local_rope_base == 10000.0


def test_a_soft_cap_counts_only_where_the_family_has_one(tmp_path: Path) -> None:
    assert config_of(tmp_path, "gemma3", final_logit_softcapping=30.0).final_softcap == 30
    assert config_of(tmp_path, "llama", final_logit_softcapping=30.0).final_softcap is None


def test_a_rotary_width_of_zero_is_all_of_a_head(tmp_path: Path) -> None:
    assert config_of(tmp_path, rope__dimension_count=0).rotary_dim == 32


def test_a_scaling_factor_of_zero_means_none(tmp_path: Path) -> None:
    config = config_of(tmp_path, rope__scaling__type="linear", rope__scaling__factor=0.0)
    assert config.rope_scaling.factor == 1


@pytest.mark.parametrize(
    "key",
    [
        "block_count",
        "context_length",
        "embedding_length",
        "feed_forward_length",
        "attention.head_count",
        "attention.layer_norm_rms_epsilon",
    ],
)
def test_a_missing_key_is_named(tmp_path: Path, key: str) -> None:
    with pytest.raises(GGUFError, match=f"llama.{key} is missing"):
        config_of(tmp_path, **{key.replace(".", "__"): None})


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("block_count", 0),
        ("block_count", 2**31),
        ("context_length", 0),
        ("embedding_length", uint64(2**40)),
        ("feed_forward_length", 0),
        ("attention.head_count", 0),
        ("attention.head_count_kv", 3),
        ("attention.key_length", 0),
        ("attention.value_length", 0),
        ("attention.layer_norm_rms_epsilon", -1.0),
        ("attention.layer_norm_rms_epsilon", math.nan),
        ("attention.sliding_window", -1),
        ("attention.sliding_window_pattern", 0),
        ("attention.scale", math.inf),
        ("rope.dimension_count", 33),
        ("rope.dimension_count", 7),
        ("rope.freq_base", 0.0),
        ("rope.scaling.type", "magic"),
        ("rope.scaling.factor", -2.0),
        ("rope.scaling.original_context_length", 0),
        ("expert_count", 2**20),
        ("expert_used_count", 1),
    ],
)
def test_a_value_outside_its_range_is_named(tmp_path: Path, key: str, value: Any) -> None:
    named = "attention.head_count" if key == "attention.head_count_kv" else key
    with pytest.raises(GGUFError, match=rf"llama.{named}\b.*expected"):
        config_of(tmp_path, **{key.replace(".", "__"): value})


def test_an_unknown_architecture_is_named_with_those_that_are_known(tmp_path: Path) -> None:
    for keys in ({"general.architecture": "perceptron"}, {"general.name": "x"}):
        with (
            open_gguf(write_gguf(tmp_path / "x.gguf", keys)) as file,
            pytest.raises(GGUFError, match=r"perceptron.*llama.*qwen2|general.architecture"),
        ):
            read_config(file)


@pytest.mark.parametrize("name", ["clip", "mmproj", "whisper", "flux"])
def test_a_file_that_holds_no_language_model_is_refused_by_what_it_is(
    tmp_path: Path, name: str
) -> None:
    path = write_gguf(tmp_path / "x.gguf", {"general.architecture": name})
    with (
        open_gguf(path) as file,
        pytest.raises(GGUFError, match=rf"projector|speech|images.*{name}"),
    ):
        read_config(file)


@pytest.mark.parametrize("name", NOT_RUN)
def test_a_model_that_is_known_and_not_run_is_refused_by_what_it_needs(
    tmp_path: Path, name: str
) -> None:
    assert name not in ARCHITECTURES
    path = write_gguf(tmp_path / "x.gguf", {"general.architecture": name})
    with open_gguf(path) as file, pytest.raises(GGUFError, match=f"{name}.*{NOT_RUN[name]}"):
        read_config(file)


@pytest.mark.parametrize(
    ("name", "key"),
    [("deepseek2-ocr", "attention.sliding_window")],
)
def test_a_key_that_asks_for_what_is_not_done_is_refused(
    tmp_path: Path, name: str, key: str
) -> None:
    with pytest.raises(GGUFError, match=rf"{name}\.{key} is given.*not supported"):
        config_of(tmp_path, name, **{key: 16})


def test_a_file_may_name_its_activation_where_the_family_has_several(tmp_path: Path) -> None:
    assert config_of(tmp_path, "bitnet").activation == "silu"
    assert config_of(tmp_path, "bitnet", hidden_activation="relu2").activation == "relu2"
    assert config_of(tmp_path, "modern-bert", hidden_activation="swiglu").activation == "silu"
    assert config_of(tmp_path, "llama", hidden_activation="relu2").activation == "silu"
    with pytest.raises(GGUFError, match=r"bitnet.hidden_activation is 'odd', expected one of silu"):
        config_of(tmp_path, "bitnet", hidden_activation="odd")


def test_a_key_says_from_which_position_on_queries_grow(tmp_path: Path) -> None:
    assert config_of(tmp_path, "mistral4").temperature_length == 16  # the original context
    longer = config_of(tmp_path, "mistral4", **{"attention.temperature_length": 24})
    assert longer.temperature_length == 24


def test_pooling_may_be_said_to_be_unspecified(tmp_path: Path) -> None:
    assert config_of(tmp_path, pooling_type=0xFFFFFFFF).pooling is None
    assert config_of(tmp_path, pooling_type=3).pooling == "last"


def test_keys_may_raise_the_base_of_rotation_and_leave_dimensions_out(tmp_path: Path) -> None:
    raised = config_of(tmp_path, "hunyuan_vl")
    assert raised.rope_base == pytest.approx(50000.0 * 1000.0 ** (32 / 30))
    halved = config_of(tmp_path, "step35")
    assert (halved.rotary_dim, halved.local_rotary_dim) == (16, 32)


def test_llama4_has_windows_unless_the_file_says_0(tmp_path: Path) -> None:
    for window, expected in ((None, 8192), (16, 16), (0, None)):
        config = config_of(tmp_path, "llama4", **{"attention.sliding_window": window})
        assert config.windows[0] == expected
        row = ARCHITECTURES["llama4"]
        assert row.rotates(config, 3) == (window == 0)


def test_an_adapter_is_refused_as_one(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "x.gguf", metadata("llama") | {"general.type": "adapter"})
    with open_gguf(path) as file, pytest.raises(GGUFError, match="adapter"):
        read_config(file)


def test_xielu_curves_are_made_of_what_training_learned(tmp_path: Path) -> None:
    config = config_of(tmp_path, "apertus")
    first, last = config.xielu[0], config.xielu[-1]
    assert len(config.xielu) == LAYERS
    assert first.alpha_p == pytest.approx(math.log1p(math.exp(0.2)))
    assert first.alpha_n == pytest.approx(0.5 + math.log1p(math.exp(-0.5)))
    assert last.alpha_p == pytest.approx(math.log1p(math.exp(1.0)))
    assert first.beta == last.beta == 0.5


@pytest.mark.parametrize("values", [np.ones(2, np.float32), np.full(LAYERS, np.nan, np.float32)])
def test_xielu_without_a_number_for_each_layer_is_refused(tmp_path: Path, values: Any) -> None:
    keys = metadata("apertus") | {"xielu.alpha_n": values}
    path = write_gguf(tmp_path / "x.gguf", keys)
    with open_gguf(path) as file, pytest.raises(GGUFError, match=r"xielu.alpha_n"):
        read_config(file)


NUMBERS = st.one_of(
    st.integers(-(2**31), 2**32 - 1), st.floats(width=32).map(float32), st.booleans()
)
VALUES = st.one_of(NUMBERS, st.text(max_size=3), st.lists(st.integers(0, 9), max_size=7))


@given(key=st.sampled_from(sorted(metadata("gpt-oss"))), value=VALUES)
def test_any_value_gives_a_configuration_or_an_error_that_names_the_key(
    tmp_path_factory: pytest.TempPathFactory, key: str, value: Any
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.gguf"
    try:
        with open_gguf(write_gguf(path, metadata("gpt-oss") | {key: value})) as file:
            read_config(file)
    except GGUFError as error:
        assert key.split(".")[-1] in str(error) or "gpt-oss." in str(error)

"""Families whose code `transformers` does not have are written as llama.cpp's converter does."""

import json
from pathlib import Path

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.families import FAMILIES
from edgellm.convert.write import write_converted
from edgellm.gguf_loader import open_gguf
from tests.convert.checkpoints import save_safetensors, small_tokenizer
from tests.convert.golden import weights_of
from tests.convert.written import FOLDER, NAMES, summary

# Keys that say nothing, or that the other converter takes from elsewhere.
_OTHERWISE = {
    "codeshell": ("rope.scaling.type", "rope.scaling.factor"),  # of no scaling
    "neo-bert": ("rope.scaling.type",),
    "bailingmoe3": ("expert_group_count", "expert_group_used_count", "attention.value_length"),
    "deepseek2-ocr": ("rope.dimension_count",),  # 0 for all of a head
    "jina-bert-v2": ("rope.freq_base",),  # without rotation
    "nomic-bert-moe": ("context_length",),
}


def plain(shape: list[int]) -> list[int]:
    """Without the ones at its end, which mean nothing in GGUF."""
    while len(shape) > 1 and shape[-1] == 1:
        shape = shape[:-1]
    return shape


@pytest.mark.parametrize("name", NAMES)
def test_files_are_those_of_llama_cpp(tmp_path: Path, name: str) -> None:
    want = json.loads((FOLDER / f"{name}.json").read_text())
    shapes = {tensor: tuple(shape) for tensor, shape in want["shapes"].items()}
    (tmp_path / "config.json").write_text(json.dumps(want["config"]))
    (tmp_path / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
    save_safetensors(tmp_path / "model.safetensors", weights_of(shapes))
    write_converted(open_checkpoint(tmp_path), tmp_path / "out.gguf", "F32")
    with open_gguf(tmp_path / "out.gguf") as file:
        assert file.tensors.keys() == want["tensors"].keys()
        for tensor, (shape, expected) in want["tensors"].items():
            values = np.frombuffer(file.data(tensor), "<f4")
            assert plain(list(file.tensors[tensor].shape)) == plain(shape), tensor
            assert summary(values) == pytest.approx(expected, rel=1e-5, abs=1e-5), tensor
        kind = file.metadata["general.architecture"]
        others = {f"{kind}.{key}" for key in _OTHERWISE.get(str(kind), ())}
        for key, value in want["keys"].items():
            if key.startswith(f"{kind}.") and key not in others:
                got = np.asarray(file.metadata[key]).tolist()
                assert got == (value if isinstance(value, str) else pytest.approx(value)), key


def test_every_one_is_converted() -> None:
    assert set(NAMES) <= FAMILIES.keys()


def test_plamos_queries_stand_by_the_keys_they_read(tmp_path: Path) -> None:
    """Query h reads head h modulo their number of keys; in GGUF, heads in a row read one."""
    heads, dim, hidden = 8, 4, 32
    matrices = {"q_proj": 32, "k_proj": 16, "v_proj": 16, "o_proj": 32}
    layer = {f"self_attn.{n}.weight": (rows, hidden) for n, rows in matrices.items()}
    layer |= {"norm.weight": (hidden,), "mlp.gate_proj.weight": (48, hidden)}
    layer |= {"mlp.up_proj.weight": (48, hidden), "mlp.down_proj.weight": (hidden, 48)}
    shapes = {f"model.layers.layers.0.{n}": shape for n, shape in layer.items()}
    ends = {"model.embed_tokens.weight": (64, hidden), "lm_head.weight": (64, hidden)}
    weights = weights_of(shapes | ends | {"model.norm.weight": (hidden,)})
    config = {
        **{"architectures": ["PlamoForCausalLM"], "num_hidden_layers": 1, "rms_norm_eps": 1e-6},
        **{"hidden_size": hidden, "intermediate_size": 48, "num_attention_heads": heads},
        **{"n_shared_head": 2, "vocab_size": 64, "tie_word_embeddings": False},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
    save_safetensors(tmp_path / "model.safetensors", weights)
    write_converted(open_checkpoint(tmp_path), tmp_path / "out.gguf", "F32")
    with open_gguf(tmp_path / "out.gguf") as file:
        assert file.metadata["plamo.attention.head_count_kv"] == 4
        q = np.frombuffer(file.data("blk.0.attn_q.weight"), "<f4").reshape(heads, dim, hidden)
        out = np.frombuffer(file.data("blk.0.attn_output.weight"), "<f4").reshape(
            hidden, heads, dim
        )
    prefix = "model.layers.layers.0.self_attn"
    was_q = weights[f"{prefix}.q_proj.weight"].reshape(heads, dim, hidden)
    was_out = weights[f"{prefix}.o_proj.weight"].reshape(hidden, heads, dim)
    for head in range(heads):
        new = head % 4 * 2 + head // 4
        assert np.array_equal(q[new], was_q[head])
        assert np.array_equal(out[:, new], was_out[:, head])


def test_gates_of_jinas_model_for_code_lie_behind(tmp_path: Path) -> None:
    """The first half of its matrix is multiplied by the activation of the second."""
    hidden, width = 32, 48
    linear = {"weight": (hidden, hidden), "bias": (hidden,)}
    norm = {"weight": (hidden,), "bias": (hidden,)}
    layer: dict[str, dict[str, tuple[int, ...]]] = {
        **{f"attention.self.{n}": linear for n in ("query", "key", "value")},
        **{f"attention.self.layer_norm_{n}": norm for n in "qk"},
        **{"attention.output.dense": linear, "attention.output.LayerNorm": norm},
        **{"layer_norm_1": norm, "layer_norm_2": norm},
        "mlp.up_gated_layer": {"weight": (2 * width, hidden)},
        "mlp.down_layer": {"weight": (hidden, width), "bias": (hidden,)},
    }
    shapes = {
        f"encoder.layer.0.{name}.{part}": shape
        for name, parts in layer.items()
        for part, shape in parts.items()
    }
    shapes |= {"embeddings.word_embeddings.weight": (64, hidden)}
    shapes |= {"embeddings.token_type_embeddings.weight": (2, hidden)}
    shapes |= {f"embeddings.LayerNorm.{part}": (hidden,) for part in ("weight", "bias")}
    config = {
        **{"architectures": ["JinaBertForMaskedLM"], "num_hidden_layers": 1, "hidden_size": hidden},
        **{"num_attention_heads": 4, "intermediate_size": width, "vocab_size": 64},
        **{"max_position_embeddings": 64, "layer_norm_eps": 1e-12, "type_vocab_size": 2},
        **{"position_embedding_type": "alibi", "feed_forward_type": "geglu", "hidden_act": "gelu"},
    }
    weights = weights_of(shapes)
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
    save_safetensors(tmp_path / "model.safetensors", weights)
    write_converted(open_checkpoint(tmp_path), tmp_path / "out.gguf", "F32")
    both = weights["encoder.layer.0.mlp.up_gated_layer.weight"]
    with open_gguf(tmp_path / "out.gguf") as file:
        for name, values in (("ffn_up", both[:width]), ("ffn_gate", both[width:])):
            got = file.data(f"blk.0.{name}.weight").view(np.float32)
            assert np.array_equal(got.reshape(width, hidden), values)
        assert {"blk.0.attn_norm_2.weight", "blk.0.attn_q_norm.bias"} <= file.tensors.keys()

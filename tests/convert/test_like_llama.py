"""Families that `transformers` does not have and that compute what Llama does: its weights under
their names give its logits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.write import write_converted
from edgellm.gguf_loader import open_gguf
from tests.convert.checkpoints import Weights, save_safetensors, small_tokenizer
from tests.convert.golden import golden, weights_of
from tests.convert.test_golden import distance
from tests.models.running import logits_of

HEADS, KV_HEADS, LAYERS = 4, 2, 2
NORMS = {"input_layernorm": "attention_norm", "post_attention_layernorm": "ffn_norm"}


def renamed(weights: Weights, names: dict[str, str]) -> Weights:
    found = {}
    for name, values in weights.items():
        for old, new in names.items():
            name = name.replace(old, new)
        found[name] = values
    return found


def internlm2(weights: Weights) -> Weights:
    """For each head of keys its queries, keys and values."""
    weights = dict(weights)
    for i in range(LAYERS):
        p = f"model.layers.{i}.self_attn."
        q, k, v = (weights.pop(f"{p}{n}_proj.weight") for n in "qkv")
        dim = len(k) // KV_HEADS
        groups = [part.reshape(KV_HEADS, -1, dim, part.shape[1]) for part in (q, k, v)]
        both = np.concatenate(groups, axis=1).reshape(-1, q.shape[1])
        weights[f"model.layers.{i}.attention.wqkv.weight"] = np.ascontiguousarray(both)
    names = {
        "embed_tokens": "tok_embeddings",
        "lm_head": "output",
        "self_attn.o_proj": "attention.wo",
    }
    mlp = {"mlp.gate_proj": "feed_forward.w1", "mlp.up_proj": "feed_forward.w3"}
    return renamed(weights, {**names, **mlp, "mlp.down_proj": "feed_forward.w2", **NORMS})


def exaone(weights: Weights) -> Weights:
    names = {"model.embed_tokens": "transformer.wte", "model.norm": "transformer.ln_f"}
    layer = {"model.layers": "transformer.h", "self_attn.o_proj": "attn.attention.out_proj"}
    mlp = {
        "mlp.gate_proj": "mlp.c_fc_0",
        "mlp.up_proj": "mlp.c_fc_1",
        "mlp.down_proj": "mlp.c_proj",
    }
    norms = {"input_layernorm": "ln_1", "post_attention_layernorm": "ln_2"}
    return renamed(weights, {**names, **layer, **mlp, **norms, "self_attn": "attn.attention"})


def baichuan(weights: Weights) -> Weights:
    weights = dict(weights)
    for i in range(LAYERS):
        p = f"model.layers.{i}.self_attn."
        weights[f"{p}W_pack.weight"] = np.concatenate(
            [weights.pop(f"{p}{n}_proj.weight") for n in "qkv"]
        )
    return weights


MINICPM = {"scale_emb": 1, "scale_depth": LAYERS**0.5, "dim_model_base": 32}
KINDS: dict[str, tuple[str, Callable[[Weights], Weights], dict[str, Any]]] = {
    "InternLM2ForCausalLM": ("llama", internlm2, {}),
    "InternLM3ForCausalLM": ("llama", dict, {}),
    "ExaoneForCausalLM": ("llama", exaone, {}),
    "MiniCPMForCausalLM": ("llama", dict, MINICPM),
    "LlavaForConditionalGeneration": ("llama", dict, {}),
}


def converted(folder: Path, kind: str, name: str, weights: Weights, **more: Any) -> Path:
    folder.mkdir()
    config = {**golden(name).config, "architectures": [kind], **more}
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
    save_safetensors(folder / "model.safetensors", weights)
    path = folder / "out.gguf"
    write_converted(open_checkpoint(folder), path)
    return path


@pytest.mark.parametrize("kind", KINDS)
def test_logits_are_those_of_llama(tmp_path: Path, kind: str) -> None:
    name, change, more = KINDS[kind]
    model = golden(name)
    path = converted(tmp_path / "model", kind, name, change(weights_of(model.shapes)), **more)
    assert distance(logits_of(path, model.ids), model.rows) < 1e-9


def test_baichuan_has_llamas_tensors(tmp_path: Path) -> None:
    """Whether its layers rotate depends on how many there are: tensors are compared, not logits."""
    weights = weights_of(golden("llama-heads").shapes)
    with (
        open_gguf(converted(tmp_path / "a", "LlamaForCausalLM", "llama-heads", weights)) as llama,
        open_gguf(
            converted(tmp_path / "b", "BaichuanForCausalLM", "llama-heads", baichuan(weights))
        ) as other,
    ):
        assert llama.tensors.keys() == other.tensors.keys()
        for name in llama.tensors:
            assert np.array_equal(llama.data(name), other.data(name)), name

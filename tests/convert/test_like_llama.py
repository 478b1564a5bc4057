"""Families that `transformers` does not have and that compute what others of it do: the weights of
those under their names give the same logits."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.families import FAMILIES, refused
from edgellm.convert.write import write_converted
from edgellm.errors import RequestError
from edgellm.gguf_loader import open_gguf
from edgellm.models.registry import ARCHITECTURES, NO_LANGUAGE_MODELS, NOT_RUN
from tests.convert.checkpoints import Weights, save_safetensors, small_tokenizer
from tests.convert.golden import golden, weights_of
from tests.convert.test_golden import distance
from tests.models.running import hidden_of, logits_of

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


def fused(weights: Weights, new: str, suffixes: tuple[str, ...] = ("weight",)) -> Weights:
    """Queries, keys and values of layers in one matrix, under the name `new`."""
    weights = dict(weights)
    for i in range(LAYERS):
        for suffix in suffixes:
            parts = [weights.pop(f"model.layers.{i}.self_attn.{n}_proj.{suffix}") for n in "qkv"]
            weights[f"model.layers.{i}.{new}.{suffix}"] = np.concatenate(parts)
    return weights


def deepseek(weights: Weights) -> Weights:
    """Mixtral's experts, and one for all that gives nothing."""
    parts = {".w1.": ".gate_proj.", ".w2.": ".down_proj.", ".w3.": ".up_proj."}
    weights = renamed(weights, {"block_sparse_moe": "mlp", **parts})
    for i in range(LAYERS):
        for part, shape in (("gate", (48, 32)), ("up", (48, 32)), ("down", (32, 48))):
            name = f"model.layers.{i}.mlp.shared_experts.{part}_proj.weight"
            weights[name] = np.zeros(shape, np.float32)
    return weights


def bailing(weights: Weights) -> Weights:
    names = {"self_attn.o_proj": "attention.dense", "embed_tokens": "word_embeddings"}
    return renamed(fused(deepseek(weights), "attention.query_key_value"), names)


def bailing2(weights: Weights) -> Weights:
    names = {
        **{"self_attn.o_proj": "attention.dense", "embed_tokens": "word_embeddings"},
        **{"self_attn.q_norm": "attention.query_layernorm"},
        **{"self_attn.k_norm": "attention.key_layernorm"},
        "e_score_correction_bias": "expert_bias",
    }
    return renamed(fused(weights, "attention.query_key_value"), names)


def sarvam(weights: Weights) -> Weights:
    """Biases of experts have a mean, which is taken off when the model runs."""
    weights = bailing2(weights)
    moved = {n: v + np.float32(3) for n, v in weights.items() if n.endswith("expert_bias")}
    return weights | moved


def kormo(weights: Weights) -> Weights:
    norms = {"input": "pre_attention", "post_attention": "pre_mlp"}
    return renamed(weights, {f"{o}_layernorm": f"{n}_layernorm" for o, n in norms.items()})


def qwen(weights: Weights) -> Weights:
    both = fused(weights, "attn.c_attn", ("weight", "bias"))
    names = {"model.embed_tokens": "transformer.wte", "model.norm": "transformer.ln_f"}
    mlp = {"mlp.up_proj": "mlp.w1", "mlp.gate_proj": "mlp.w2", "mlp.down_proj": "mlp.c_proj"}
    norms = {"input_layernorm": "ln_1", "post_attention_layernorm": "ln_2"}
    layer = {"model.layers": "transformer.h", "self_attn.o_proj": "attn.c_proj"}
    return renamed(both, {**names, **mlp, **norms, **layer})


def chatglm(weights: Weights) -> Weights:
    both = fused(weights, "self_attention.query_key_value", ("weight", "bias"))
    names = {
        "model.embed_tokens": "transformer.embedding.word_embeddings",
        "model.norm": "transformer.encoder.final_layernorm",
        "lm_head": "transformer.output_layer",
        "model.layers": "transformer.encoder.layers",
        "self_attn.o_proj": "self_attention.dense",
        "mlp.gate_up_proj": "mlp.dense_h_to_4h",
        "mlp.down_proj": "mlp.dense_4h_to_h",
    }
    return renamed(both, names)


def inside(text: str, output: str) -> Callable[[Weights], Weights]:
    """Within a model that sees too: `text` in front of all names but the output's."""

    def wrap(weights: Weights) -> Weights:
        found = renamed({f"^{n}": v for n, v in weights.items()}, {"^model.": text, "^": ""})
        found = {n.replace("lm_head.", output): v for n, v in found.items()}
        return found | {"model.vision_tower.patch.weight": np.zeros((2, 2), np.float32)}

    return wrap


MINICPM = {"scale_emb": 1, "scale_depth": LAYERS**0.5, "dim_model_base": 32}
KINDS: dict[str, tuple[str, Callable[[Weights], Weights], dict[str, Any]]] = {
    "InternLM2ForCausalLM": ("llama", internlm2, {}),
    "InternLM3ForCausalLM": ("llama", dict, {}),
    "ExaoneForCausalLM": ("llama", exaone, {}),
    "MiniCPMForCausalLM": ("llama", dict, MINICPM),
    "LlavaForConditionalGeneration": ("llama", dict, {}),
    "XverseForCausalLM": ("llama", dict, {}),
    "PanguEmbeddedForCausalLM": ("llama-biases", dict, {}),
    "OrionForCausalLM": ("stablelm-whole", dict, {"rms_norm_eps": 1e-5}),
    "DeepseekForCausalLM": (
        "mixtral",
        deepseek,
        {"n_shared_experts": 1, "moe_intermediate_size": 48, "norm_topk_prob": True},
    ),
    "BailingMoeForCausalLM": (
        "mixtral",
        bailing,
        {"num_shared_experts": 1, "moe_intermediate_size": 48, "norm_topk_prob": True},
    ),
    "BailingMoeV2ForCausalLM": ("glm4-moe", bailing2, {"num_shared_experts": 1}),
    "SarvamMoEForCausalLM": ("dots1", sarvam, {"num_shared_experts": 1}),
    "KORMoForCausalLM": ("llama-heads", kormo, {}),
    "QWenLMHeadModel": (
        "qwen2-heads",
        qwen,
        {"intermediate_size": 96, "layer_norm_epsilon": 1e-6, "rotary_emb_base": 10000.0},
    ),
    "ChatGLMModel": (
        "glm",
        chatglm,
        {"num_layers": LAYERS, "kv_channels": 8, "ffn_hidden_size": 48, "seq_length": 64,
         "multi_query_attention": True, "multi_query_group_num": KV_HEADS,
         "layernorm_epsilon": 1.5625e-07},
    ),
    "Exaone4_5_ForConditionalGeneration": (
        "exaone4", inside("model.language_model.", "lm_head."), {}
    ),
}  # fmt: skip
WRAPPED: dict[str, tuple[str, str, str, str]] = {
    "InternVLForConditionalGeneration": ("qwen2", "text_config", "model.language_model.", ""),
    "LlavaNextForConditionalGeneration": ("llama", "text_config", "language_model.model.", ""),
    "InternVLChatModel": ("qwen3", "llm_config", "language_model.model.", "language_model."),
    "SmolVLMForConditionalGeneration": ("llama-tied", "text_config", "model.text_model.", ""),
    "Lfm2VlForConditionalGeneration": ("lfm2", "text_config", "model.language_model.", ""),
    "KimiVLForConditionalGeneration": (
        "deepseek3", "text_config", "language_model.model.", "language_model."
    ),
}  # fmt: skip


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


@pytest.mark.parametrize("kind", WRAPPED)
def test_text_models_inside_others_are_converted(tmp_path: Path, kind: str) -> None:
    name, settings, text, output = WRAPPED[kind]
    model = golden(name)
    weights = inside(text, f"{output}lm_head.")(weights_of(model.shapes))
    (tmp_path / "model").mkdir()
    config = {"architectures": [kind], settings: model.config, "vision_config": {"hidden_size": 4}}
    (tmp_path / "model" / "config.json").write_text(json.dumps(config))
    (tmp_path / "model" / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
    save_safetensors(tmp_path / "model" / "model.safetensors", weights)
    done = write_converted(open_checkpoint(tmp_path / "model"), tmp_path / "out.gguf")
    assert done.left_out == {"model.vision_tower": 1}
    assert distance(logits_of(tmp_path / "out.gguf", model.ids), model.rows) < 1e-9


def test_jinas_fifth_are_made_of_eurobert_or_qwen(tmp_path: Path) -> None:
    for name in ("eurobert", "qwen3-rows"):
        model = golden(name)
        weights = weights_of(model.shapes)
        path = converted(tmp_path / name, "JinaEmbeddingsV5Model", name, weights)
        assert distance(hidden_of(path, [model.ids])[0], model.rows) < 1e-9


def test_bidirectional_llamas_are_those_of_eurobert(tmp_path: Path) -> None:
    model = golden("eurobert")
    weights = weights_of(model.shapes)
    path = converted(tmp_path / "model", "LlamaBidirectionalModel", "eurobert", weights)
    assert distance(hidden_of(path, [model.ids])[0], model.rows) < 1e-9


UNKNOWN = {
    "Plamo2ForCausalLM": "plamo2 in GGUF: its tokenizer",
    "DreamModel": "which is not run: it generates text by diffusion",
    "OddForCausalLM": "it is not known here",
}


@pytest.mark.parametrize("kind", UNKNOWN)
def test_families_without_a_row_are_named_with_the_reason(tmp_path: Path, kind: str) -> None:
    weights = weights_of(golden("llama").shapes)
    with pytest.raises(RequestError, match=f"{kind}.*{UNKNOWN[kind]}"):
        converted(tmp_path / "model", kind, "llama", weights)


def test_an_unknown_text_model_is_named_with_what_is_around_it(tmp_path: Path) -> None:
    weights = weights_of(golden("llama").shapes)
    inner = {"text_config": {"model_type": "odd"}}
    kind = "InternVLForConditionalGeneration"
    with pytest.raises(RequestError, match=f"{kind} around a text model that"):
        converted(tmp_path / "model", kind, "llama", weights, **inner)


def test_every_reason_is_of_an_architecture_that_is_known() -> None:
    known = {*ARCHITECTURES, *NOT_RUN, *NO_LANGUAGE_MODELS}
    for kind, name in refused._ARCHITECTURES.items():
        assert name in known and kind not in FAMILIES


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

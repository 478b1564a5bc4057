"""Tiny checkpoints as they are published, and their forward pass in numpy. Holds no tests.

The forward pass is that of the models' published code: halves of a head are rotated together, and
the weights are those of the checkpoint itself.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from edgellm.kernels.formats import by_name, quantize_rows

Array = npt.NDArray[np.float32]
Weights = dict[str, Array]

HIDDEN, FF, LAYERS, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 32, 48, 2, 4, 2, 16, 272
BASE: dict[str, Any] = {
    "hidden_size": HIDDEN,
    "intermediate_size": FF,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "num_key_value_heads": KV_HEADS,
    "head_dim": HEAD_DIM,
    "vocab_size": VOCAB,
    "max_position_embeddings": 64,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "bos_token_id": 257,
    "eos_token_id": [256, 257],
}
CONFIGS: dict[str, dict[str, Any]] = {
    "LlamaForCausalLM": BASE,
    "MistralForCausalLM": BASE,
    "Qwen2ForCausalLM": {**BASE, "head_dim": HIDDEN // HEADS, "tie_word_embeddings": True},
    "Qwen3ForCausalLM": BASE,
    "Gemma3ForCausalLM": {**BASE, "sliding_window": 8, "rope_theta": 1e6},
}


def shapes(kind: str, config: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    q, kv = HEADS * config["head_dim"], KV_HEADS * config["head_dim"]
    layer: dict[str, tuple[int, ...]] = {
        "input_layernorm.weight": (HIDDEN,),
        "self_attn.q_proj.weight": (q, HIDDEN),
        "self_attn.k_proj.weight": (kv, HIDDEN),
        "self_attn.v_proj.weight": (kv, HIDDEN),
        "self_attn.o_proj.weight": (HIDDEN, q),
        "post_attention_layernorm.weight": (HIDDEN,),
        "mlp.gate_proj.weight": (FF, HIDDEN),
        "mlp.up_proj.weight": (FF, HIDDEN),
        "mlp.down_proj.weight": (HIDDEN, FF),
    }
    if kind == "Qwen2ForCausalLM":
        layer |= {f"self_attn.{n}_proj.bias": (w,) for n, w in (("q", q), ("k", kv), ("v", kv))}
    if kind in ("Qwen3ForCausalLM", "Gemma3ForCausalLM"):
        layer |= {f"self_attn.{n}_norm.weight": (config["head_dim"],) for n in "qk"}
    if kind == "Gemma3ForCausalLM":
        layer |= {f"{n}_feedforward_layernorm.weight": (HIDDEN,) for n in ("pre", "post")}
    every = {"model.embed_tokens.weight": (VOCAB, HIDDEN), "model.norm.weight": (HIDDEN,)}
    if kind != "Gemma3ForCausalLM" and not config.get("tie_word_embeddings"):
        every["lm_head.weight"] = (VOCAB, HIDDEN)
    layers = range(config["num_hidden_layers"])
    return every | {f"model.layers.{i}.{name}": s for i in layers for name, s in layer.items()}


def random_weights(kind: str, config: Mapping[str, Any]) -> Weights:
    rng = np.random.default_rng(7)
    weights = {}
    for name, shape in shapes(kind, config).items():
        scale = 0.1 if len(shape) == 1 else shape[-1] ** -0.5
        values = rng.standard_normal(shape) * scale
        if name.endswith("norm.weight") and kind != "Gemma3ForCausalLM":
            values += 1
        weights[name] = values.astype(np.float32)
    return weights


_DTYPES = {
    **{"int8": "I8", "uint8": "U8", "int16": "I16", "int32": "I32", "int64": "I64", "bool": "BOOL"},
    **{"float16": "F16", "float32": "F32"},
}


@dataclass(frozen=True, eq=False)
class Raw:
    """Bytes in a dtype that numpy does not have."""

    dtype: str
    codes: npt.NDArray[np.uint8]


def save_safetensors(
    path: Path, weights: Mapping[str, npt.NDArray[Any] | Raw], dtype: str = "F32"
) -> None:
    """Written by hand, so that tests can write what is wrong as well. dtype: of float32 arrays."""
    header: dict[str, Any] = {}
    pieces: list[bytes] = []
    end = 0
    for name, values in weights.items():
        if isinstance(values, Raw):
            kind, shape, raw = values.dtype, values.codes.shape, values.codes.tobytes()
        elif values.dtype == np.float32 and dtype != "F32":
            rows = values.reshape(-1, (values.shape or (1,))[-1])
            kind, shape, raw = dtype, values.shape, quantize_rows(by_name(dtype), rows).tobytes()
        else:
            kind, shape, raw = _DTYPES[values.dtype.name], values.shape, values.tobytes()
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + len(raw)]}
        pieces.append(raw)
        end += len(raw)
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(pieces))


def byte_letters() -> list[str]:
    """The letters that stand for bytes in byte-level BPE."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = iter(range(256, 512))
    return [chr(b) if b in plain else chr(next(others)) for b in range(256)]


QWEN2_SPLIT = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def byte_tokenizer() -> dict[str, Any]:
    """Byte-level BPE: 256 bytes, two special tokens, one of the user's, three merges."""
    vocab = {letter: i for i, letter in enumerate(byte_letters())}
    vocab |= {"he": 260, "hel": 261, "\u0120w": 262}
    split = {"type": "Split", "pattern": {"Regex": QWEN2_SPLIT}, "behavior": "Isolated"}
    level = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
    return {
        "model": {"type": "BPE", "vocab": vocab, "merges": ["h e", ["he", "l"], "\u0120 w"]},
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [split, level]},
        "added_tokens": [
            {"id": 256, "content": "<|end|>", "special": True},
            {"id": 257, "content": "<|start|>", "special": True},
            {"id": 258, "content": "<tool>", "special": False},
        ],
    }


def small_tokenizer(size: int = 64) -> dict[str, Any]:
    """Byte-level BPE of a few letters: enough where ids are all that counts."""
    content = byte_tokenizer()
    content["model"] |= {"vocab": {t: i for i, t in enumerate(byte_letters()[:size])}, "merges": []}
    return {**content, "added_tokens": []}


def write_checkpoint(
    folder: Path,
    kind: str,
    config: Mapping[str, Any] | None = None,
    weights: Weights | None = None,
    dtype: str = "F32",
    shards: int = 1,
    tokenizer: Mapping[str, Any] | None = None,
) -> Weights:
    """A folder with all that is published of a model; gives the weights back."""
    folder.mkdir(exist_ok=True)
    config = {**CONFIGS[kind], **(config or {})}
    weights = random_weights(kind, config) if weights is None else weights
    (folder / "config.json").write_text(json.dumps({"architectures": [kind], **config}))
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer or byte_tokenizer()))
    settings = {
        "bos_token": {"content": "<|start|>"},
        "eos_token": "<|end|>",
        "add_bos_token": False,
        "chat_template": "{% for m in messages %}{{ m.content }}{% endfor %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    if shards == 1:
        save_safetensors(folder / "model.safetensors", weights, dtype)
        return weights
    places = {name: f"model-{i % shards}.safetensors" for i, name in enumerate(weights)}
    for shard in set(places.values()):
        part = {name: values for name, values in weights.items() if places[name] == shard}
        save_safetensors(folder / shard, part, dtype)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))
    return weights


def forward(kind: str, w: Weights, ids: list[int], config: Mapping[str, Any]) -> Array:
    """Logits (len(ids), VOCAB) in float64 arithmetic."""
    gemma = kind == "Gemma3ForCausalLM"
    shift = 1.0 if gemma else 0.0
    eps, dim = config["rms_norm_eps"], config["head_dim"]

    def norm(x: Any, name: str) -> Any:
        return x / np.sqrt((x**2).mean(-1, keepdims=True) + eps) * (w[name] + shift)

    def rotate(x: Any, base: float) -> Any:
        frequencies = base ** -(np.arange(0, dim, 2) / dim)
        angles = np.arange(len(ids))[:, None] * frequencies
        cos, sin = (np.tile(f(angles), 2)[:, None] for f in (np.cos, np.sin))
        turned = np.concatenate([-x[..., dim // 2 :], x[..., : dim // 2]], axis=-1)
        return x * cos + turned * sin

    x = w["model.embed_tokens.weight"][ids].astype(np.float64)
    if gemma:
        x = x * np.sqrt(HIDDEN)
    after = np.arange(len(ids))
    for i in range(config["num_hidden_layers"]):
        p = f"model.layers.{i}."
        local = gemma and (i + 1) % 6 != 0
        h = norm(x, p + "input_layernorm.weight")
        parts = []
        for n, heads in (("q", HEADS), ("k", KV_HEADS), ("v", KV_HEADS)):
            y = h @ w[f"{p}self_attn.{n}_proj.weight"].T
            y = y + w.get(f"{p}self_attn.{n}_proj.bias", np.float32(0))
            y = y.reshape(len(ids), heads, dim)
            if f"{p}self_attn.{n}_norm.weight" in w:
                y = norm(y, f"{p}self_attn.{n}_norm.weight")
            if n != "v":
                y = rotate(y, 10000.0 if local else config["rope_theta"])
            parts.append(np.repeat(y, HEADS // heads, axis=1))
        q, k, v = parts
        scores = np.einsum("thd,shd->hts", q, k) / np.sqrt(dim)
        seen = after[:, None] >= after[None]
        if local:
            seen = seen & (after[:, None] - after[None] < config["sliding_window"])
        scores = np.where(seen, scores, -np.inf)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        scores /= scores.sum(-1, keepdims=True)
        mixed = np.einsum("hts,shd->thd", scores, v).reshape(len(ids), -1)
        y = mixed @ w[p + "self_attn.o_proj.weight"].T
        if gemma:
            y = norm(y, p + "post_attention_layernorm.weight")
        x = x + y
        before = "pre_feedforward_layernorm" if gemma else "post_attention_layernorm"
        h = norm(x, f"{p}{before}.weight")
        gate, up = (h @ w[f"{p}mlp.{n}_proj.weight"].T for n in ("gate", "up"))
        if gemma:
            active = 0.5 * gate * (1 + np.tanh(np.sqrt(2 / np.pi) * (gate + 0.044715 * gate**3)))
        else:
            active = gate / (1 + np.exp(-gate))
        y = (active * up) @ w[p + "mlp.down_proj.weight"].T
        x = x + (norm(y, p + "post_feedforward_layernorm.weight") if gemma else y)
    h = norm(x, "model.norm.weight")
    logits: Array = h @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T
    return logits

"""Encoders: each family against its own forward pass, written out in float64; any company."""

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.config import cache_dir
from edgellm.kernels import reference
from edgellm.kernels.cpu import CpuBackend
from edgellm.kernels.reference import activation
from edgellm.models import ARCHITECTURES
from edgellm.models.registry import architecture
from edgellm.models.relative import bucket_of_distance
from tests.gguf_writer import Tensor
from tests.models.conftest import TinyFile
from tests.models.formulas import (
    Float64,
    Tensors,
    gelu,
    gelu_tanh,
    mixed,
    rotated,
    silu,
    softmax,
)
from tests.models.recipes.parts import (
    EXPERTS_USED,
    HEAD_DIM,
    HEADS,
    LAYERS,
    VOCAB,
    WINDOW,
)
from tests.models.running import hidden_of, record_file
from tests.models.tiny import write_tiny

IDS = np.random.default_rng(7).integers(0, VOCAB, size=40).tolist()
TEXTS = [IDS, IDS[::-1][:3], [5], IDS[3:30]]
ENCODERS = [name for name, row in ARCHITECTURES.items() if not row.causal]


@pytest.fixture(scope="module")
def backend() -> Iterator[CpuBackend]:
    backend = CpuBackend(cache_dir(), 2)
    yield backend
    backend.close()


def bert_like(
    t: Tensors,
    ids: list[int],
    attention: Callable[[Tensors, Float64, str], Float64],
    feed_forward: Callable[[Tensors, Float64, str], Float64],
    second: int | None = None,
) -> Float64:
    first = len(ids) if second is None else second
    types = np.repeat([0, 1], [first, len(ids) - first])
    x = t.all["token_embd.weight"][ids] + t.all["token_types.weight"][types]
    if "position_embd.weight" in t.all:
        x = x + t.all["position_embd.weight"][: len(ids)]
    x = t.norm(x, "token_embd_norm")
    for layer in range(LAYERS):
        p = f"blk.{layer}"
        before = x
        x = t.norm(x + t.linear(attention(t, x, p), f"{p}.attn_output"), f"{p}.attn_output_norm")
        if f"{p}.attn_norm_2.weight" in t.all:
            x = t.norm(x + before, f"{p}.attn_norm_2")
        x = t.norm(x + feed_forward(t, x, p), f"{p}.layer_output_norm")
    return x


def plain_attention(t: Tensors, x: Float64, p: str) -> Float64:
    return mixed(*t.heads(x, p))


def rope_attention(t: Tensors, x: Float64, p: str) -> Float64:
    q, k, v = t.heads(x, p)
    return mixed(rotated(q, 50000.0), rotated(k, 50000.0), v)


def jina_attention(t: Tensors, x: Float64, p: str) -> Float64:
    q, k = (t.norm(t.linear(x, f"{p}.attn_{n}"), f"{p}.attn_{n}_norm") for n in "qk")
    shape = (len(x), -1, HEAD_DIM)
    v = t.linear(x, f"{p}.attn_v").reshape(shape)
    slopes = 2.0 ** (-8.0 * np.arange(1, HEADS + 1) / HEADS)
    places = np.arange(len(x))
    bias = -slopes[:, None, None] * np.abs(places[:, None] - places)
    return mixed(q.reshape(shape), k.reshape(shape), v, bias)


def plain_mlp(t: Tensors, x: Float64, p: str) -> Float64:
    return t.linear(gelu(t.linear(x, f"{p}.ffn_up")), f"{p}.ffn_down")


def gated_mlp(
    activation: Callable[[Float64], Float64],
) -> Callable[[Tensors, Float64, str], Float64]:
    def mlp(t: Tensors, x: Float64, p: str) -> Float64:
        gate = activation(t.linear(x, f"{p}.ffn_gate"))
        return t.linear(gate * t.linear(x, f"{p}.ffn_up"), f"{p}.ffn_down")

    return mlp


def experts_or_mlp(t: Tensors, x: Float64, p: str) -> Float64:
    if f"{p}.ffn_gate_inp.weight" not in t.all:
        return plain_mlp(t, x, p)
    odds = softmax(t.linear(x, f"{p}.ffn_gate_inp"))
    out = np.zeros_like(x)
    for row, (token, odd) in enumerate(zip(x, odds, strict=True)):
        for e in np.argsort(-odd)[:EXPERTS_USED]:
            up = gelu(t.all[f"{p}.ffn_up_exps.weight"][e] @ token)
            out[row] += odd[e] * (t.all[f"{p}.ffn_down_exps.weight"][e] @ up)
    return out


def near(length: int) -> Float64:
    """0 for pairs of tokens at most half a window apart, else minus infinity."""
    places = np.arange(length)
    far = np.abs(places[:, None] - places) > WINDOW // 2
    return np.where(far, -np.inf, 0.0)


def modern_bert(t: Tensors, ids: list[int]) -> Float64:
    x = t.norm(t.all["token_embd.weight"][ids], "token_embd_norm")
    for layer in range(LAYERS):
        p = f"blk.{layer}"
        q, k, v = t.heads(x if layer == 0 else t.norm(x, f"{p}.attn_norm"), p)
        is_local = layer % 3 > 0
        base = 10000.0 if is_local else 50000.0
        bias = near(len(ids)) if is_local else 0.0
        x = x + t.linear(mixed(rotated(q, base), rotated(k, base), v, bias), f"{p}.attn_output")
        gate, up = np.split(t.linear(t.norm(x, f"{p}.ffn_norm"), f"{p}.ffn_up"), 2, axis=1)
        x = x + t.linear(gelu(gate) * up, f"{p}.ffn_down")
    return t.norm(x, "output_norm")


def gemma_embedding(t: Tensors, ids: list[int]) -> Float64:
    x = t.all["token_embd.weight"][ids] * np.sqrt(t.all["token_embd.weight"].shape[1])
    for layer in range(LAYERS):
        p = f"blk.{layer}"
        q, k, v = t.heads(t.rms(x, f"{p}.attn_norm"), p)
        is_local = layer % 6 < 5
        base = 10000.0 if is_local else 50000.0
        q = rotated(t.rms(q, f"{p}.attn_q_norm"), base)
        k = rotated(t.rms(k, f"{p}.attn_k_norm"), base)
        mix = mixed(q, k, v, near(len(ids)) if is_local else 0.0)
        x = x + t.rms(t.linear(mix, f"{p}.attn_output"), f"{p}.post_attention_norm")
        out = gated_mlp(gelu_tanh)(t, t.rms(x, f"{p}.ffn_norm"), p)
        x = x + t.rms(out, f"{p}.post_ffw_norm")
    return t.rms(x, "output_norm")


def llama_like(interleaved: bool) -> Callable[[Tensors, list[int]], Float64]:
    def forward(t: Tensors, ids: list[int]) -> Float64:
        x = t.all["token_embd.weight"][ids]
        for layer in range(LAYERS):
            p = f"blk.{layer}"
            q, k, v = t.heads(t.rms(x, f"{p}.attn_norm"), p)
            q, k = (rotated(part, 50000.0, interleaved) for part in (q, k))
            x = x + t.linear(mixed(q, k, v), f"{p}.attn_output")
            x = x + gated_mlp(silu)(t, t.rms(x, f"{p}.ffn_norm"), p)
        return t.rms(x, "output_norm")

    return forward


def neo_bert(t: Tensors, ids: list[int]) -> Float64:
    x = t.all["token_embd.weight"][ids]
    for layer in range(LAYERS):
        p = f"blk.{layer}"
        q, k, v = t.heads(t.rms(x, f"{p}.attn_norm"), p)
        y = mixed(rotated(q, 50000.0, True), rotated(k, 50000.0, True), v)
        x = x + t.linear(y, f"{p}.attn_output")
        gate, up = np.split(t.linear(t.rms(x, f"{p}.ffn_norm"), f"{p}.ffn_up"), 2, axis=1)
        x = x + t.linear(silu(gate) * up, f"{p}.ffn_down")
    return t.rms(x, "enc.output_norm")


def t5_bucket(distance: int, buckets: int = 8) -> int:
    """Of the paper's own code, for ranges up to 128 tokens."""
    half = buckets // 2
    size, exact = abs(distance), half // 2
    if size >= exact:
        growth = math.log(size / exact) / math.log(128 / exact)
        size = min(exact + int(growth * (half - exact) + 1e-9), half - 1)
    return size + (half if distance > 0 else 0)


def t5(t: Tensors, ids: list[int]) -> Float64:
    x = t.all["token_embd.weight"][ids]
    places = range(len(ids))
    for layer in range(LAYERS):
        p = f"enc.blk.{layer}"
        q, k, v = t.heads(t.rms(x, f"{p}.attn_norm"), p)
        own = f"{p}.attn_rel_b.weight"
        biases = t.all[own if own in t.all else "enc.blk.0.attn_rel_b.weight"]
        bias = np.array([[biases[t5_bucket(key - query)] for key in places] for query in places])
        y = mixed(q, k, v, bias.transpose(2, 0, 1), scale=1.0)
        x = x + t.linear(y, f"{p}.attn_o")
        read = t.rms(x, f"{p}.ffn_norm")
        if f"{p}.ffn_gate.weight" in t.all:
            x = x + gated_mlp(gelu_tanh)(t, read, p)
        else:
            x = x + t.linear(np.maximum(t.linear(read, f"{p}.ffn_up"), 0), f"{p}.ffn_down")
    return t.rms(x, "enc.output_norm")


FORWARDS: Mapping[str, Callable[[Tensors, list[int]], Float64]] = {
    "bert": lambda t, ids: bert_like(t, ids, plain_attention, plain_mlp),
    "eurobert": llama_like(interleaved=False),
    "gemma-embedding": gemma_embedding,
    "jina-bert-v2": lambda t, ids: bert_like(t, ids, jina_attention, gated_mlp(gelu)),
    "jina-bert-v3": lambda t, ids: bert_like(t, ids, rope_attention, plain_mlp),
    "llama-embed": llama_like(interleaved=True),
    "modern-bert": modern_bert,
    "neo-bert": neo_bert,
    "nomic-bert": lambda t, ids: bert_like(t, ids, rope_attention, gated_mlp(silu)),
    "nomic-bert-moe": lambda t, ids: bert_like(t, ids, rope_attention, experts_or_mlp),
    "t5": t5,
    "t5encoder": t5,
}


@pytest.mark.parametrize("name", ENCODERS)
def test_the_program_is_the_family_s_own(
    tiny_file: TinyFile, backend: CpuBackend, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(activation, "_half", lambda x: x)  # GELU in full, as others have it
    path = tiny_file(name, "F32")
    tensors = Tensors(path)
    for load in (reference.load, backend.load):
        for ids, got in zip(TEXTS, hidden_of(path, TEXTS, load), strict=True):
            want = FORWARDS[name](tensors, ids)
            assert ((got - want) ** 2).mean() <= 1e-9 * (want**2).mean()


def test_tokens_of_a_second_text_are_of_another_type(
    tiny_file: TinyFile, backend: CpuBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(activation, "_half", lambda x: x)
    path = tiny_file("bert", "F32")
    tensors, seconds = Tensors(path), [11, 1]
    for load in (reference.load, backend.load):
        both = hidden_of(path, TEXTS, load, seconds)
        for ids, second, got in zip(TEXTS, [*seconds, None, None], both, strict=True):
            want = bert_like(tensors, ids, plain_attention, plain_mlp, second)
            assert ((got - want) ** 2).mean() <= 1e-9 * (want**2).mean()


def test_a_jina_may_have_no_gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activation, "_half", lambda x: x)

    def without_gates(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        tensors[:] = [tensor for tensor in tensors if "ffn_gate" not in tensor[0]]

    path = write_tiny(tmp_path, "jina-bert-v2", without_gates, "F32")
    (got,) = hidden_of(path, [TEXTS[0]])
    want = bert_like(Tensors(path), TEXTS[0], jina_attention, plain_mlp)
    assert ((got - want) ** 2).mean() <= 1e-9 * (want**2).mean()


@pytest.mark.parametrize("name", ENCODERS)
def test_company_makes_no_difference(tiny_file: TinyFile, backend: CpuBackend, name: str) -> None:
    path = tiny_file(name)
    together = hidden_of(path, TEXTS, backend.load)
    for ids, rows in zip(TEXTS, together, strict=True):
        (alone,) = hidden_of(path, [ids], backend.load)
        np.testing.assert_array_equal(alone.view(np.uint32), rows.view(np.uint32))


@pytest.mark.parametrize("name", ENCODERS)
def test_every_token_sees_the_last(tiny_file: TinyFile, name: str) -> None:
    path = tiny_file(name)
    assert not record_file(path).is_causal
    assert not architecture(name).causal
    changed = [*IDS[:-1], (IDS[-1] + 1) % VOCAB]
    one, other = hidden_of(path, [IDS, changed])
    assert (np.abs(one - other).max(axis=1) > 1e-4).all()


def test_an_encoder_beside_a_decoder_sees_all_whatever_the_file_says(tmp_path: Path) -> None:
    def causal(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        keys["t5.attention.causal"] = True

    program = record_file(write_tiny(tmp_path, "t5", causal))
    assert not program.is_causal and "logits" not in program.outputs


@pytest.mark.parametrize("buckets", [4, 8, 32, 50])
def test_ranges_of_distance_are_the_paper_s(buckets: int) -> None:
    want = [t5_bucket(distance, buckets) for distance in range(-128, 129)]
    assert bucket_of_distance(buckets, 128).tolist() == want
    assert {t5_bucket(d, buckets) for d in (128, 129, 1000)} == {want[-1]}

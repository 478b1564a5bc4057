"""Quantised checkpoints: what their matrices stand for, and which blocks hold them."""

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm.convert.checkpoint import open_checkpoint
from edgellm.convert.moves import rotated_pairs
from edgellm.convert.packings.fp8 import E4M3, E5M2
from edgellm.convert.write import write_converted
from edgellm.errors import EdgeLLMError
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.formats import by_name, dequantize_rows
from tests.convert import packing
from tests.convert.checkpoints import (
    CONFIGS,
    HIDDEN,
    Raw,
    save_safetensors,
    small_tokenizer,
    write_checkpoint,
)
from tests.convert.golden import golden, weights_of
from tests.convert.packing import Packing
from tests.models.running import logits_of

Pack = Callable[[int, int, Any], Packing]
SIZE = {"hidden_size": 64, "intermediate_size": 128, "head_dim": 16}
_QK_NORMS = ("q_norm.weight", "k_norm.weight")
COMPRESSED = {"quant_method": "compressed-tensors", "format": "pack-quantized"}

# The way to pack, quantization_config, the type in GGUF, and how far off it may be in halves' ulps.
KINDS: dict[str, tuple[Pack, dict[str, Any], str, float]] = {
    "gptq": (packing.gptq, {"quant_method": "gptq", "bits": 4}, "Q4_0", 0),
    "gptq zeros": (
        partial(packing.gptq, symmetric=False), {"quant_method": "gptq", "bits": 4}, "Q4_1", 1,
    ),
    "gptq v2": (
        partial(packing.gptq, symmetric=False, version=2),
        {"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"}, "Q4_1", 1,
    ),
    "gptq ordered": (
        partial(packing.gptq, ordered=True), {"quant_method": "gptq", "bits": 4}, "F16", 1,
    ),
    "gptq groups of 64": (
        partial(packing.gptq, group=64), {"quant_method": "gptq", "bits": 4}, "Q4_0", 0,
    ),
    "gptq groups of 16": (
        partial(packing.gptq, group=16), {"quant_method": "gptq", "bits": 4}, "F16", 1,
    ),
    "gptq one group": (
        partial(packing.gptq, group=None), {"quant_method": "gptq", "bits": 4}, "Q4_0", 0,
    ),
    "gptq 2 bits": (partial(packing.gptq, bits=2), {"quant_method": "gptq", "bits": 2}, "Q4_0", 0),
    "gptq 3 bits": (partial(packing.gptq, bits=3), {"quant_method": "gptq", "bits": 3}, "Q4_0", 0),
    "gptq 8 bits": (partial(packing.gptq, bits=8), {"quant_method": "gptq", "bits": 8}, "Q8_0", 0),
    "awq": (packing.awq, {"quant_method": "awq", "bits": 4, "version": "gemm"}, "Q4_1", 1),
    "awq even": (partial(packing.awq, symmetric=True), {"quant_method": "awq"}, "Q4_0", 0),
    "fp8": (packing.fp8, {"quant_method": "fp8"}, "BF16", 8),
    "fp8 blocks": (
        partial(packing.fp8, kind="block"),
        {"quant_method": "fp8", "weight_block_size": [16, 16]}, "BF16", 8,
    ),
    "nf4": (packing.nf4, {"quant_method": "bitsandbytes", "load_in_4bit": True}, "F16", 1),
    "nf4 nested": (partial(packing.nf4, nested=True), {"load_in_4bit": True}, "F16", 1),
    "bitnet": (packing.bitnet, {"quant_method": "bitnet"}, "F16", 1),
    "bitnet multiplied": (
        partial(packing.bitnet, divides=False),
        {"quant_method": "bitnet", "linear_class": "autobitlinear"}, "F16", 1,
    ),
    "bitnet online": (
        packing.bitnet_online,
        {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"},
        "F16", 1,
    ),
    "int8": (packing.int8, {"quant_method": "bitsandbytes", "load_in_8bit": True}, "F16", 1),
    "packed": (packing.compressed, COMPRESSED, "Q4_0", 0),
    "packed zeros": (partial(packing.compressed, symmetric=False), COMPRESSED, "Q4_1", 1),
    "packed 8 bits": (partial(packing.compressed, bits=8), COMPRESSED, "Q8_0", 0),
    "compressed int8": (
        packing.compressed_int8, {**COMPRESSED, "format": "int-quantized"}, "BF16", 8,
    ),
    "compressed fp8": (
        partial(packing.fp8, kind="row"), {**COMPRESSED, "format": "float-quantized"}, "BF16", 8,
    ),
    "fbgemm": (partial(packing.fp8, kind="row"), {"quant_method": "fbgemm_fp8"}, "BF16", 8),
    "mxfp4": (packing.mxfp4, {**COMPRESSED, "format": "mxfp4-pack-quantized"}, "MXFP4", 0),
    "modelopt": (
        packing.modelopt, {"quant_method": "modelopt", "quant_algo": "NVFP4"}, "NVFP4", 0,
    ),
    "modelopt fp8": (
        packing.fp8, {"quant_method": "modelopt", "quant_algo": "FP8"}, "BF16", 8,
    ),
    "nvfp4": (packing.nvfp4, {**COMPRESSED, "format": "nvfp4-pack-quantized"}, "NVFP4", 0),
}  # fmt: skip


def shapes(config: dict[str, Any]) -> dict[str, tuple[int, int]]:
    q, kv = 4 * config["head_dim"], 2 * config["head_dim"]
    hidden, ff = config["hidden_size"], config["intermediate_size"]
    matrices = {
        **{"self_attn.q_proj": (q, hidden), "self_attn.k_proj": (kv, hidden)},
        **{"self_attn.v_proj": (kv, hidden), "self_attn.o_proj": (hidden, q)},
        **{"mlp.gate_proj": (ff, hidden), "mlp.up_proj": (ff, hidden)},
        **{"mlp.down_proj": (hidden, ff)},
    }
    return {f"model.layers.{i}.{name}": s for i in range(2) for name, s in matrices.items()}


def packed_checkpoint(
    folder: Path, pack: Pack, quantization: dict[str, Any], kind: str = "Qwen3ForCausalLM"
) -> dict[str, np.ndarray]:
    """Writes a model whose matrices in layers are packed, and gives those by name."""
    config = {**CONFIGS[kind], **SIZE, "tie_word_embeddings": True}
    rng = np.random.default_rng(3)
    plain = weights_for(config)
    tensors: dict[str, Any] = {
        n: v for n, v in plain.items() if kind.startswith("Qwen3") or not n.endswith(_QK_NORMS)
    }
    values = {}
    for name, (rows, columns) in shapes(config).items():
        made = pack(rows, columns, rng)
        tensors |= {f"{name}.{part}": tensor for part, tensor in made.tensors.items()}
        values[f"{name}.weight"] = made.values
    write_checkpoint(folder, kind, {**config, "quantization_config": quantization}, {})
    save_safetensors(folder / "model.safetensors", tensors)
    return values


def weights_for(config: dict[str, Any]) -> dict[str, np.ndarray]:
    vectors = {
        f"model.layers.{i}.{name}.weight": (size,)
        for i in range(2)
        for name, size in (
            ("input_layernorm", config["hidden_size"]),
            ("post_attention_layernorm", config["hidden_size"]),
            ("self_attn.q_norm", config["head_dim"]),
            ("self_attn.k_norm", config["head_dim"]),
        )
    }
    tables = {"model.embed_tokens.weight": (272, 64), "model.norm.weight": (64,)}
    return weights_of({**vectors, **tables})


PLACES = {
    **{"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj"},
    **{"attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj"},
    **{"ffn_down": "mlp.down_proj"},
}


def matrices(path: Path) -> tuple[dict[str, np.ndarray], set[str]]:
    """What a file's matrices stand for, by the checkpoint's names; and their types."""
    found, types = {}, set()
    with open_gguf(path) as file:
        for layer in range(2):
            for short, long in PLACES.items():
                name = f"blk.{layer}.{short}"
                info = file.tensors[f"{name}.weight"]
                rows = file.data(info.name).reshape(info.rows, -1)
                values = dequantize_rows(by_name(info.type_name), rows)
                if f"{name}.scale" in file.tensors:
                    values = values * file.data(f"{name}.scale").view(np.float32)
                found[f"model.layers.{layer}.{long}.weight"] = values
                types.add(info.type_name)
    return found, types


@pytest.mark.parametrize("name", KINDS)
def test_matrices_are_what_was_packed(tmp_path: Path, name: str) -> None:
    pack, quantization, type_name, ulps = KINDS[name]
    want = packed_checkpoint(tmp_path / "model", pack, quantization)
    path = tmp_path / "out.gguf"
    write_converted(open_checkpoint(tmp_path / "model"), path)
    got, types = matrices(path)
    assert types == {type_name}
    for matrix, values in want.items():
        error = np.abs(got[matrix] - values).max()
        assert error <= ulps * 2**-11 * np.abs(values).max() + 1e-7, matrix


def test_models_saved_in_eight_bits_without_scales(tmp_path: Path) -> None:
    """`torch_dtype` float8: all tensors, norms too, are codes and nothing else."""
    weights = write_checkpoint(tmp_path / "model", "Qwen3ForCausalLM")
    rng = np.random.default_rng(3)
    codes = {name: rng.integers(0, 0x78, w.shape, np.uint8) for name, w in weights.items()}
    raw = {name: Raw("F8_E4M3", values) for name, values in codes.items()}
    save_safetensors(tmp_path / "model" / "model.safetensors", raw)
    path = tmp_path / "out.gguf"
    write_converted(open_checkpoint(tmp_path / "model"), path)
    got, types = matrices(path)
    assert types == {"BF16"}
    for name, values in got.items():
        assert np.array_equal(values, E4M3[codes[name]]), name


def test_rows_of_blocks_are_moved_whole(tmp_path: Path) -> None:
    """Queries and keys of Llama are put in pairs."""
    values = packed_checkpoint(
        tmp_path / "model", packing.gptq, KINDS["gptq"][1], "LlamaForCausalLM"
    )
    path = tmp_path / "out.gguf"
    write_converted(open_checkpoint(tmp_path / "model"), path)
    got, types = matrices(path)
    assert types == {"Q4_0"}
    query = "model.layers.1.self_attn.q_proj.weight"
    assert np.array_equal(got[query], values[query][rotated_pairs(64, 4)])


def test_mxfp4_experts_keep_their_bits(tmp_path: Path) -> None:
    """gpt-oss: blocks of experts, gates and ups by turns."""
    model = golden("gpt-oss")
    rng = np.random.default_rng(5)
    tensors: dict[str, Any] = dict(weights_of(model.shapes))
    plain = dict(tensors)
    for layer in range(2):
        for name, rows, columns in (("gate_up_proj", 128, HIDDEN), ("down_proj", HIDDEN, 64)):
            key = f"model.layers.{layer}.mlp.experts.{name}"
            codes = rng.integers(0, 16, (4, rows, columns)).astype(np.uint8)
            exponents = rng.integers(120, 126, (4, rows, columns // 32)).astype(np.uint8)
            pairs = (codes[..., ::2] | codes[..., 1::2] << 4).reshape(4, rows, -1, 16)
            signs = np.where(codes & 8, -1, 1) * packing.E2M1[codes & 7]
            values = signs * np.exp2(exponents.astype(np.float32) - 127).repeat(32, -1)
            del tensors[key]
            tensors |= {f"{key}_blocks": pairs, f"{key}_scales": exponents}
            plain[key] = np.ascontiguousarray(values.swapaxes(1, 2).astype(np.float32))
        wide = np.zeros((4, 128), np.float32)
        tensors[f"model.layers.{layer}.mlp.experts.gate_up_proj_bias"] = wide
        plain[f"model.layers.{layer}.mlp.experts.gate_up_proj_bias"] = wide
    logits = []
    for weights, quantization in ((tensors, {"quant_method": "mxfp4"}), (plain, None)):
        folder = tmp_path / str(len(logits))
        config = {**model.config, "intermediate_size": 64, "vocab_size": 64}
        folder.mkdir()
        (folder / "tokenizer.json").write_text(json.dumps(small_tokenizer()))
        content = {**config, "quantization_config": quantization}
        (folder / "config.json").write_text(json.dumps(content))
        save_safetensors(folder / "model.safetensors", weights)
        path = tmp_path / f"{len(logits)}.gguf"
        write_converted(open_checkpoint(folder), path)
        logits.append(logits_of(path, model.ids))
        if quantization:
            with open_gguf(path) as file:
                assert file.tensors["blk.0.ffn_up_exps.weight"].type_name == "MXFP4"
    assert ((logits[0] - logits[1]) ** 2).sum() < 1e-9 * (logits[1] ** 2).sum()


def test_tables_of_eight_bit_floats() -> None:
    assert E4M3[[0x00, 0x01, 0x38, 0x7E, 0xB8]].tolist() == [0, 2**-9, 1, 448, -1]
    assert E5M2[[0x00, 0x01, 0x3C, 0x7B, 0xBC]].tolist() == [0, 2**-16, 1, 57344, -1]
    assert np.isnan(E4M3[0x7F]) and not np.isfinite(E5M2[0x7C])


BROKEN: dict[str, tuple[dict[str, Any], str | None, Any, str]] = {
    "method": ({"quant_method": "hqq"}, None, None, "quantised by 'hqq', which is not known"),
    "bits": ({"quant_method": "gptq", "bits": 5}, None, None, "bits '5', expected 2, 3, 4 or 8"),
    "bits text": ({"quant_method": "gptq", "bits": "4"}, None, None, "expected a whole number"),
    "format": (
        {"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}, None, None, "'marlin'",
    ),
    "class": (
        {"quant_method": "bitnet", "linear_class": "other"}, None, None, "'other', expected bitl",
    ),
    "mode": (
        {"quant_method": "bitnet", "quantization_mode": 3}, None, None, "'3', expected offline or",
    ),
    "norms": ({"quant_method": "bitnet", "use_rms_norm": True}, None, None, "no norm before each"),
    "scales": (KINDS["gptq"][1], "scales", None, "q_proj.scales' is missing"),
    "zeros": (KINDS["gptq"][1], "qzeros", np.zeros((2, 3), np.int32), r"\(2, 3\), expected \(2, 8"),
    "groups": (KINDS["gptq"][1], "g_idx", np.full(64, 7, np.int32), "groups up to 7"),
    "dtype": (KINDS["gptq"][1], "qweight", np.zeros((8, 64), np.int8), "expected I32 codes"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_wrong_is_named(tmp_path: Path, name: str) -> None:
    quantization, part, tensor, message = BROKEN[name]
    packed_checkpoint(tmp_path / "model", packing.gptq, quantization)
    if part is not None:
        made = packing.gptq(64, 64, np.random.default_rng(0)).tensors
        broken = {k: v for k, v in made.items() if k != part}
        if tensor is not None:
            broken[part] = tensor
        tensors = {f"model.layers.0.self_attn.q_proj.{k}": v for k, v in broken.items()}
        save_safetensors(tmp_path / "model" / "model.safetensors", tensors)
    with pytest.raises(EdgeLLMError, match=message):
        write_converted(open_checkpoint(tmp_path / "model"), tmp_path / "out.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]

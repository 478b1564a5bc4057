#!/usr/bin/env python3
"""Write a mixture of experts of random Q8_0 weights, of any size: what it says has no meaning.

    synth_moe.py OUT.gguf --gigabytes 30

The shape is that of Qwen3-30B-A3B (128 experts, 8 of them used), with as many layers as the size
asks for. All layers have the same weights, so that writing is as fast as the disk.
"""

import argparse
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from gguf import GGUFWriter
from synth_model import ROPE_BASE, VOCABULARY, Blocks, Matrix, Type, add_vocabulary, contents

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, CONTEXT, NORM_EPS = 2048, 32, 4, 128, 8192, 1e-6
EXPERTS, EXPERTS_USED, FEED_FORWARD = 128, 8, 768


def layer() -> Iterator[tuple[str, Type, int | None, int, int | None]]:
    """Name, type, rows, columns and experts of each tensor of a layer."""
    yield "attn_norm", Type.F32, None, HIDDEN, None
    yield "attn_q", Type.Q8_0, HEADS * HEAD_DIM, HIDDEN, None
    yield "attn_k", Type.Q8_0, KV_HEADS * HEAD_DIM, HIDDEN, None
    yield "attn_v", Type.Q8_0, KV_HEADS * HEAD_DIM, HIDDEN, None
    yield "attn_output", Type.Q8_0, HIDDEN, HEADS * HEAD_DIM, None
    yield "attn_q_norm", Type.F32, None, HEAD_DIM, None
    yield "attn_k_norm", Type.F32, None, HEAD_DIM, None
    yield "ffn_norm", Type.F32, None, HIDDEN, None
    yield "ffn_gate_inp", Type.F16, EXPERTS, HIDDEN, None
    yield "ffn_gate_exps", Type.Q8_0, FEED_FORWARD, HIDDEN, EXPERTS
    yield "ffn_up_exps", Type.Q8_0, FEED_FORWARD, HIDDEN, EXPERTS
    yield "ffn_down_exps", Type.Q8_0, HIDDEN, FEED_FORWARD, EXPERTS


def tensor(
    name: str, kind: Type, rows: int | None, columns: int, experts: int | None
) -> tuple[Matrix, Blocks]:
    """Its description and its bytes in the order of numpy."""
    matrix = Matrix(name, kind, rows and rows * (experts or 1), columns)
    data = contents(matrix, np.random.default_rng(len(name)))
    return matrix, data if experts is None else data.reshape(experts, rows or 1, -1)


def write(path: Path, gigabytes: float) -> None:
    """Writes the model; the file appears when it is whole."""
    own = [tensor(*part) for part in layer()]
    layers = max(1, round(gigabytes * 1e9 / sum(data.nbytes for _, data in own)))
    partial = path.with_name(path.name + ".part")
    writer = GGUFWriter(partial, "qwen3moe")
    writer.add_name(f"random experts, {gigabytes:g} GB")
    writer.add_quantization_version(2)
    writer.add_block_count(layers)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED_FORWARD * EXPERTS_USED)
    writer.add_expert_feed_forward_length(FEED_FORWARD)
    writer.add_expert_count(EXPERTS)
    writer.add_expert_used_count(EXPERTS_USED)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_key_length(HEAD_DIM)
    writer.add_value_length(HEAD_DIM)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(NORM_EPS)
    add_vocabulary(writer)
    top = [
        tensor("token_embd", Type.Q8_0, VOCABULARY, HIDDEN, None),
        tensor("output_norm", Type.F32, None, HIDDEN, None),
    ]
    named = [(f"{matrix.name}.weight", matrix, data) for matrix, data in top] + [
        (f"blk.{number}.{matrix.name}.weight", matrix, data)
        for number in range(layers)
        for matrix, data in own
    ]
    for name, matrix, data in named:
        writer.add_tensor_info(name, data.shape, np.dtype(np.uint8), data.nbytes, matrix.type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for _, _, data in named:
        writer.write_tensor_data(data)
    writer.close()
    os.replace(partial, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT.gguf")
    parser.add_argument("--gigabytes", type=float, default=30.0)
    args = parser.parse_args()
    write(args.out, args.gigabytes)
    print(f"{args.out}: {args.out.stat().st_size / 1e9:.1f} GB")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Write a llama of 1.1 billion random weights, for timing alone: what it says has no meaning.

    synth_model.py OUT.gguf --type Q4_K_M

The format and its types are llama.cpp's (ik_llama.cpp has no TQ2_0). Weights are random blocks
whose scales give a matrix the spread of a trained one, so that activations stay in a usual range.
The mixes "M" have llama.cpp's types: the value and down projections of half of the layers are Q6_K.
The others have one type for all layers. The embedding, which is the output matrix too, is Q6_K
under every type below 8 bits. Takes twice the memory of the largest tensor, and some seconds.
"""

import argparse
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType, GGUFWriter, LlamaFileType, TokenType
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

Blocks = npt.NDArray[np.uint8]
Type = GGMLQuantizationType

HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 2048, 16, 32, 8, 64
FEED_FORWARD, VOCABULARY, CONTEXT = 8192, 49152, 8192
ROPE_BASE, NORM_EPS = 10000.0, 1e-5


@dataclass(frozen=True)
class Scales:
    """Where a block keeps its float16 scales: byte offset and size relative to the first.

    The scale of the minima of K types is chosen so that the mean weight is near 0.
    """

    places: tuple[tuple[int, float], ...]


SCALES: dict[Type, Scales] = {
    Type.Q4_0: Scales(((0, 1.0),)),
    Type.Q8_0: Scales(((0, 1.0),)),
    Type.Q2_K: Scales(((80, 1.0), (82, 1.5))),
    Type.Q4_K: Scales(((0, 1.0), (2, 7.5))),
    Type.Q5_K: Scales(((0, 1.0), (2, 15.5))),
    Type.Q6_K: Scales(((208, 1.0),)),
    Type.IQ4_XS: Scales(((0, 1.0),)),
    Type.IQ3_S: Scales(((0, 1.0),)),
    Type.TQ2_0: Scales(((64, 1.0),)),
}


@dataclass(frozen=True)
class Mix:
    """Types of a file's matrices: most of them, the embedding, and those that are given more."""

    file_type: LlamaFileType
    most: Type
    embedding: Type = Type.Q6_K
    more: Type | None = None


MIXES = {
    "Q4_K_M": Mix(LlamaFileType.MOSTLY_Q4_K_M, Type.Q4_K, more=Type.Q6_K),
    "Q5_K_M": Mix(LlamaFileType.MOSTLY_Q5_K_M, Type.Q5_K, more=Type.Q6_K),
    "Q4_0": Mix(LlamaFileType.MOSTLY_Q4_0, Type.Q4_0),
    "Q8_0": Mix(LlamaFileType.MOSTLY_Q8_0, Type.Q8_0, embedding=Type.Q8_0),
    "Q6_K": Mix(LlamaFileType.MOSTLY_Q6_K, Type.Q6_K),
    "IQ4_XS": Mix(LlamaFileType.MOSTLY_IQ4_XS, Type.IQ4_XS),
    "IQ3_S": Mix(LlamaFileType.MOSTLY_IQ3_S, Type.IQ3_S),
    "Q2_K": Mix(LlamaFileType.MOSTLY_Q2_K, Type.Q2_K),
    "TQ2_0": Mix(LlamaFileType.MOSTLY_TQ2_0, Type.TQ2_0),
    "MXFP4": Mix(LlamaFileType.MOSTLY_MXFP4_MOE, Type.MXFP4),
    "F16": Mix(LlamaFileType.MOSTLY_F16, Type.F16, embedding=Type.F16),
}


@dataclass(frozen=True)
class Matrix:
    """A tensor of `rows` outputs and `columns` inputs; a vector has no rows."""

    name: str
    type: Type
    rows: int | None
    columns: int

    @property
    def shape(self) -> tuple[int, ...]:
        """Bytes in the order of numpy, as the writer wants them."""
        block_size, type_size = GGML_QUANT_SIZES[self.type]
        row_bytes = self.columns // block_size * type_size
        return (row_bytes,) if self.rows is None else (self.rows, row_bytes)


def matrices(mix: Mix) -> Iterator[Matrix]:
    """All tensors of the model in file order."""
    yield Matrix("token_embd.weight", mix.embedding, VOCABULARY, HIDDEN)
    yield Matrix("output_norm.weight", Type.F32, None, HIDDEN)
    for layer in range(LAYERS):
        more = mix.more if mix.more and gets_more(layer) else mix.most
        for part, kind, rows, columns in (
            ("attn_norm", Type.F32, None, HIDDEN),
            ("attn_q", mix.most, HEADS * HEAD_DIM, HIDDEN),
            ("attn_k", mix.most, KV_HEADS * HEAD_DIM, HIDDEN),
            ("attn_v", more, KV_HEADS * HEAD_DIM, HIDDEN),
            ("attn_output", mix.most, HIDDEN, HEADS * HEAD_DIM),
            ("ffn_norm", Type.F32, None, HIDDEN),
            ("ffn_gate", mix.most, FEED_FORWARD, HIDDEN),
            ("ffn_up", mix.most, FEED_FORWARD, HIDDEN),
            ("ffn_down", more, HIDDEN, FEED_FORWARD),
        ):
            yield Matrix(f"blk.{layer}.{part}.weight", kind, rows, columns)


def gets_more(layer: int) -> bool:
    """llama.cpp's rule: the first and last eighth of the layers and every third between."""
    eighth = LAYERS // 8
    return layer < eighth or layer >= 7 * LAYERS // 8 or (layer - eighth) % 3 == 2


def contents(matrix: Matrix, rng: np.random.Generator) -> Blocks:
    """Random bytes of a tensor, uint8 of matrix.shape."""
    if matrix.rows is None:
        return np.ones(matrix.columns, np.float32).view(np.uint8)
    spread = matrix.columns**-0.5
    if matrix.type == Type.F16:
        pool = (rng.standard_normal(1 << 20, np.float32) * np.float32(spread)).astype(np.float16)
        # Every 1024 values begin anywhere in the pool: drawing each would take minutes.
        starts = rng.integers(0, len(pool) - 1024, matrix.rows * matrix.columns // 1024)
        windows = np.lib.stride_tricks.sliding_window_view(pool, 1024)
        return windows[starts].view(np.uint8).reshape(matrix.shape)
    _, type_size = GGML_QUANT_SIZES[matrix.type]
    blocks = random_blocks(matrix.type, int(np.prod(matrix.shape)) // type_size, rng)
    factor = spread / np.std(dequantize(blocks[:1024].copy(), matrix.type))
    rescale(blocks, matrix.type, float(factor))
    return blocks.reshape(matrix.shape)


def random_blocks(kind: Type, count: int, rng: np.random.Generator) -> Blocks:
    """(count, bytes per block) with a scale of 1."""
    _, type_size = GGML_QUANT_SIZES[kind]
    blocks = np.frombuffer(bytearray(rng.bytes(count * type_size)), np.uint8)
    if kind == Type.TQ2_0:
        # Two bits that are never 3: of 11 the lower bit goes.
        blocks &= ~(blocks >> 1 & 0x55)
    blocks = blocks.reshape(count, type_size)
    rescale(blocks, kind, 1.0)
    return blocks


def rescale(blocks: Blocks, kind: Type, scale: float) -> None:
    """Writes the scale of every block."""
    if kind == Type.MXFP4:
        blocks[:, 0] = 127 + round(np.log2(scale))  # one byte: an exponent of two
        return
    for offset, factor in SCALES[kind].places:
        stored = np.array([scale * factor], "<f2").view(np.uint8)
        blocks[:, offset : offset + 2] = stored


def add_vocabulary(writer: GGUFWriter) -> None:
    """That of a byte-level BPE tokenizer, just enough to be loaded."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in plain]
    tokens = [chr(byte) for byte in plain] + [chr(256 + n) for n in range(len(others))]
    pairs = ["th", "in", "er", "an"]
    control = ["<|endoftext|>"]
    filler = [f"filler{n}" for n in range(VOCABULARY - len(tokens) - len(pairs) - len(control))]
    kinds = [TokenType.NORMAL] * (VOCABULARY - len(control)) + [TokenType.CONTROL] * len(control)
    writer.add_vocab_size(VOCABULARY)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([*tokens, *pairs, *filler, *control])
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(pair) for pair in pairs])
    writer.add_bos_token_id(VOCABULARY - 1)
    writer.add_eos_token_id(VOCABULARY - 1)


def write(path: Path, name: str) -> None:
    """Writes the model of mix `name`; the file appears when it is whole."""
    mix, rng = MIXES[name], np.random.default_rng(0)
    partial = path.with_name(path.name + ".part")
    writer = GGUFWriter(partial, "llama")
    writer.add_name(f"random 1.1B {name}")
    writer.add_file_type(mix.file_type)
    writer.add_quantization_version(2)
    writer.add_block_count(LAYERS)
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(FEED_FORWARD)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KV_HEADS)
    writer.add_rope_dimension_count(HEAD_DIM)
    writer.add_rope_freq_base(ROPE_BASE)
    writer.add_layer_norm_rms_eps(NORM_EPS)
    add_vocabulary(writer)
    every = list(matrices(mix))
    for matrix in every:
        size = int(np.prod(matrix.shape))
        writer.add_tensor_info(matrix.name, matrix.shape, np.dtype(np.uint8), size, matrix.type)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for matrix in every:
        writer.write_tensor_data(contents(matrix, rng))
    writer.close()
    os.replace(partial, path)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path, metavar="OUT.gguf")
    parser.add_argument("--type", choices=MIXES, default="Q4_K_M")
    args = parser.parse_args()
    write(args.out, args.type)
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()

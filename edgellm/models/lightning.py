"""Linear attention whose heads forget at fixed rates. Source: MiniMax 2025 (MiniMax-01)."""

import numpy as np

from edgellm.kernels.program import Value
from edgellm.models.recorder import Recorder, vector


def lightning_attention(r: Recorder, layer: int, x: Value) -> Value:
    """x (T, hidden_size), normed, and so the result. A head's q, k and v lie together."""
    b, prefix, config = r.builder, f"blk.{layer}", r.config
    heads, head_dim = config.num_heads[layer], config.head_dim
    width = heads * head_dim
    parts = b.activate(r.linear(x, f"{prefix}.attn_qkv", 3 * width), "silu")
    q, k, v = (b.columns(parts, i * head_dim, head_dim, heads) for i in range(3))
    y = b.linear_attention(q, _decays(r, layer, q), k, v, heads=heads)
    y = r.norm(y, f"{prefix}.attn_norm_2")
    gate = r.linear(x, f"{prefix}.attn_gate", width)
    return r.linear(b.gated(gate, y, "sigmoid"), f"{prefix}.attn_output", config.hidden_size)


def _decays(r: Recorder, layer: int, like: Value) -> Value:
    """The same in every row. The last layer hardly forgets."""
    b, heads = r.builder, r.config.num_heads[layer]
    share = 1 - layer / (r.config.num_layers - 1 + 1e-5) + 1e-5
    slopes = 2.0 ** (-8 * np.arange(1, heads + 1) / heads)
    decays = np.exp(-share * slopes)
    columns = np.repeat(decays.astype(np.float32), like.width // heads)
    return b.add_columns(b.multiply(like, 0.0), vector("decays", columns))

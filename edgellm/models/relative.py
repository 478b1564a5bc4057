"""Attention without positions, whose scores have learned biases by distance (T5).

Source: Raffel et al. 2020.
"""

import numpy as np
import numpy.typing as npt

from edgellm.kernels.program import Value
from edgellm.models.recorder import Recorder
from edgellm.models.weights import float_matrix

FIRST = "blk.0.attn_rel_b.weight"  # serves layers that have none of their own


def relative_attention(r: Recorder, layer: int, x: Value) -> Value:
    """Every token sees all others; scores are not scaled. x (T, hidden_size), normed, and so the
    result.
    """
    config, prefix = r.config, f"blk.{layer}"
    heads, kv_heads = config.num_heads[layer], config.num_kv_heads[layer]
    widths = heads * config.head_dim, kv_heads * config.head_dim, kv_heads * config.value_dim
    q, k, v = (
        r.linear(x, f"{prefix}.attn_{part}", width)
        for part, width in zip("qkv", widths, strict=True)
    )
    own, buckets = f"{prefix}.attn_rel_b.weight", config.relative_buckets
    name = own if layer and r.weights.offers(own) else FIRST
    stored = r.weights.matrix_float32(name, buckets, heads).data.view(np.float32)
    spread = bucket_of_distance(buckets, r.architecture.relative_reach)
    biases = float_matrix(f"{name} by distance", stored[spread].T)
    mixed = r.builder.relative_attention(q, k, v, biases, num_kv_heads=kv_heads, scale=1.0)
    return r.linear(mixed, f"{prefix}.attn_o", config.hidden_size)


def bucket_of_distance(buckets: int, reach: int) -> npt.NDArray[np.int64]:
    """Of each distance from -reach to reach, key less query.

    Half of the buckets are for keys behind the query. Of a half, the first half are for a distance
    each, the others for ranges that grow with it; the last has all from `reach` on.
    """
    half = buckets // 2
    exact = half // 2
    distance = np.arange(-reach, reach + 1)
    size = np.abs(distance)
    # As the model's own code, in float32: it decides where a range begins.
    growth = np.log(np.maximum(size, 1).astype(np.float32) / np.float32(exact))
    ranged = exact + (growth / np.float32(np.log(reach / exact)) * (half - exact)).astype(np.int64)
    bucket = np.where(size < exact, size, np.minimum(ranged, half - 1))
    return np.where(distance > 0, half + bucket, bucket)

"""Ops that know positions and the past: rotary embedding and attention over the cache."""

from typing import Literal

import numpy as np
import numpy.typing as npt

from edgellm.kernels.ops.base import Recording
from edgellm.kernels.program import KVLayer, Value, Weight

RopeLayout = Literal["interleaved", "split"]  # pairs (2i, 2i+1), or (i, i + rotary_dim / 2)


def alibi_slopes(num_heads: int, max_bias: float) -> npt.NDArray[np.float32]:
    """By how much each head lowers the score of a key per position of distance.

    Powers of 2 ** (-max_bias / n) for the n heads of the largest power of two, and for the others
    every second power of its square root. Source: Press et al. 2021.
    """
    n = 1 << (num_heads.bit_length() - 1)
    exponents = [i / n if i <= n else (2 * (i - n) - 1) / (2 * n) for i in range(1, num_heads + 1)]
    return np.float32(2.0) ** np.array([-max_bias * e for e in exponents], np.float32)


class AttentionOps(Recording):
    """Each method returns the Value that its op writes."""

    def rope_table(self, inverse_frequencies: Weight, magnitude: float = 1.0) -> Value:
        """cos and sin of position * inverse frequency, each times `magnitude`.

        inverse_frequencies: float32 vector of rotary_dim / 2. Row layout: all cos, then all sin.
        """
        return self.value(
            "rope_table",
            weights=(inverse_frequencies,),
            width=2 * inverse_frequencies.columns,
            magnitude=magnitude,
        )

    def rope(self, x: Value, table: Value, heads: int, layout: RopeLayout) -> Value:
        """Rotates the first table.width dimensions of each head. Source: Su et al. 2021."""
        return self.value("rope", (x, table), width=x.width, heads=heads, layout=layout)

    def position_scale(self, x: Value, length: int, factor: float, offset: int = 0) -> Value:
        """x * (1 + factor * log(1 + floor((position + offset) / length))).

        Sharpens the attention of far positions. Source: Llama 4 (Meta 2025), after Nakanishi 2025.
        """
        return self.value(
            "position_scale", (x,), width=x.width, length=length, factor=factor, offset=offset
        )

    def attention(
        self,
        q: Value,
        k: Value | None,
        v: Value | None,
        *,
        num_heads: int,
        num_kv_heads: int,
        scale: float,
        value_dim: int | None = None,
        window: int | None = None,
        chunked: bool = False,
        softcap: float | None = None,
        alibi: float | None = None,
        sinks: Weight | None = None,
        shared: int | None = None,
        causal: bool = True,
    ) -> Value:
        """Appends k and v to the layer's cache, then softmax(scale * q k^T) v over the past.

        q (num_heads * head_dim), k (num_kv_heads * head_dim), v (num_kv_heads * value_dim) ->
        (num_heads * value_dim). Without v the values are the first value_dim numbers of the keys,
        and only keys are stored (DeepSeek-AI 2024, multi-head latent attention). With a window a
        query at position p sees keys p - window + 1 to p, or, where windows are chunked, those from
        the last multiple of it on. If not causal it also sees those after it, with a window to
        p + window - 1; a sequence must then come whole. Scores become
        softcap * tanh(s / softcap) first where that is given. alibi: what alibi_slopes takes; each
        position of distance then lowers a score by its head's slope. sinks: float vector of
        num_heads, for each head the score of one more key whose value is zero; it is merged after
        the last tile. Keys and values are always read back from the cache, the current rows
        included; partial results are per ATTENTION_TILE keys, merged in order. Without k the keys
        and values are those of an earlier attention: `shared` indexes kv_layers.
        """
        layer = self._store_kv(k, v, num_kv_heads, window) if k is not None else shared
        if layer is None:
            raise ValueError("attention needs keys, or a layer to share those of")
        kv = self.kv_layers[layer]
        value_dim = kv.value_dim or value_dim or kv.head_dim
        attributes: dict[str, int | float | str] = {
            "layer": layer,
            "group": kv.group,
            "num_heads": num_heads,
            "num_kv_heads": num_kv_heads,
            "value_dim": value_dim,
            "scale": scale,
        }
        if window is not None:
            attributes["window"] = window
            attributes["chunked"] = int(chunked)
        if softcap is not None:
            attributes["softcap"] = softcap
        if alibi is not None:
            attributes["alibi"] = alibi
        if not causal:
            attributes["causal"] = 0
        output = self.new_value(num_heads * value_dim, "tokens")
        self.record("attention", (q,), (sinks,), output, attributes)
        return output

    def relative_attention(
        self, q: Value, k: Value, v: Value, biases: Weight, *, num_kv_heads: int, scale: float
    ) -> Value:
        """softmax(scale * q k^T + bias) v over all rows of a sequence, which must come whole.

        q (num_heads * head_dim), k (num_kv_heads * head_dim), v (num_kv_heads * value_dim) ->
        (num_heads * value_dim). biases: float matrix of num_heads rows, whose column reach + d is
        for a key d rows behind its query, with d brought into -reach..reach. Nothing is cached.
        Source: Raffel et al. 2020 (T5).
        """
        num_heads = biases.rows
        return self.value(
            "relative_attention",
            (q, k, v),
            (biases,),
            width=num_heads * (v.width // num_kv_heads),
            num_heads=num_heads,
            num_kv_heads=num_kv_heads,
            scale=scale,
            causal=0,
        )

    def _store_kv(self, k: Value, v: Value | None, num_kv_heads: int, window: int | None) -> int:
        """A cache of its own for the layer; returns its index."""
        if window not in self.windows:
            self.windows.append(window)
        group = self.windows.index(window)
        layer = len(self.kv_layers)
        value_dim = v.width // num_kv_heads if v is not None else 0
        self.kv_layers.append(KVLayer(group, num_kv_heads, k.width // num_kv_heads, value_dim))
        stored = (k,) if v is None else (k, v)
        self.record("store_kv", stored, (), None, {"layer": layer, "group": group})
        return layer

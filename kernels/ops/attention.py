"""Ops that know positions and the past: rotary embedding and attention over the cache."""

from typing import Literal

from edgellm.kernels.ops.base import Recording
from edgellm.kernels.program import KVLayer, Value, Weight

RopeLayout = Literal["interleaved", "split"]  # pairs (2i, 2i+1), or (i, i + rotary_dim / 2)


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

    def attention(
        self,
        q: Value,
        k: Value,
        v: Value,
        *,
        num_heads: int,
        num_kv_heads: int,
        scale: float,
        window: int | None = None,
        softcap: float | None = None,
        sinks: Weight | None = None,
    ) -> Value:
        """Appends k and v to the layer's cache, then softmax(scale * q k^T) v over the past.

        q (num_heads * head_dim), k and v (num_kv_heads * head_dim). Causal; with a window a query
        at position p sees keys p - window + 1 to p. Scores become softcap * tanh(s / softcap)
        first where that is given. sinks: float vector of num_heads, for each head the score of
        one more key whose value is zero; it is merged after the last tile. Keys and values are
        always read back from the cache, the current rows included; partial results are per
        ATTENTION_TILE keys, merged in order.
        """
        if window not in self.windows:
            self.windows.append(window)
        group = self.windows.index(window)
        layer = len(self.kv_layers)
        self.kv_layers.append(KVLayer(group, num_kv_heads, k.width // num_kv_heads))
        self.record("store_kv", (k, v), (), None, {"layer": layer, "group": group})
        attributes: dict[str, int | float | str] = {
            "layer": layer,
            "group": group,
            "num_heads": num_heads,
            "num_kv_heads": num_kv_heads,
            "scale": scale,
        }
        if window is not None:
            attributes["window"] = window
        if softcap is not None:
            attributes["softcap"] = softcap
        output = self.new_value(q.width, "tokens")
        self.record("attention", (q,), (sinks,), output, attributes)
        return output

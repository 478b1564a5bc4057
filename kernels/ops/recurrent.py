"""Ops that carry a state from token to token: convolutions and recurrences over a sequence.

They run in token order, and a state is float32 at every token, so that a result depends neither on
how a prompt is cut into chunks nor on who shares the batch. A sequence at position 0 starts from
zero.
"""

from typing import Literal

from edgellm.kernels.ops.base import Recording
from edgellm.kernels.program import Value, Weight

KeyHeads = Literal[
    "grouped", "tiled"
]  # head h has key head h // (heads / key_heads), or h % key_heads


class RecurrentOps(Recording):
    """Each method returns the Value that its op writes."""

    def short_convolution(
        self, x: Value, weight: Weight, bias: Weight | None = None, *, silu: bool = False
    ) -> Value:
        """y[t, c] = sum_j weight[c, j] x[t - kernel + 1 + j, c] + bias[c], then SiLU if wanted.

        x (T, channels); weight float32 (channels, kernel); bias float vector of channels. What lies
        before position 0 is zero. State: the last kernel - 1 rows of x.
        """
        if x.width != weight.rows:
            raise ValueError(f"{weight.name}: {weight.rows} channels for rows of {x.width}")
        return self.value(
            "short_convolution",
            (x,),
            (weight, bias),
            width=x.width,
            state=self.new_state(weight.columns - 1, x.width),
            silu=int(silu),
        )

    def selective_scan(
        self, x: Value, dt: Value, b: Value, c: Value, a: Weight, d: Weight, *, groups: int = 1
    ) -> Value:
        """State space model with an input-dependent step, one state vector h for each channel.

        h = exp(dt a) h + dt x b; y = h . c + d x. x (T, heads * head_dim); dt (T, heads), positive;
        b and c (T, groups * state_size), each group for heads / groups neighbouring heads. a: float
        (heads, state_size), or (heads, 1) where it is the same for a whole head; d: float vector
        of heads. State: (heads * head_dim, state_size).
        Sources: Gu and Dao 2023 (Mamba, heads of one channel); Dao and Gu 2024 (Mamba-2).
        """
        heads, state_size = a.rows, b.width // groups
        if dt.width != heads or x.width % heads or heads % groups or c.width != b.width:
            raise ValueError(f"{a.name}: {heads} heads in {groups} groups for rows of {x.width}")
        return self.value(
            "selective_scan",
            (x, dt, b, c),
            (a, d),
            width=x.width,
            state=self.new_state(x.width, state_size),
            groups=groups,
        )

    def delta_rule(
        self,
        q: Value,
        k: Value,
        v: Value,
        dt: Value,
        beta: Value,
        a: Weight,
        *,
        key_heads: int,
        order: KeyHeads = "grouped",
    ) -> Value:
        """Linear attention whose state S, one matrix for each head, forgets and corrects itself.

        S = exp(a dt) S; S = S + k (sigmoid(beta) (v - S^T k))^T; y = S^T q. q and k
        (T, key_heads * key_dim), of unit length where the model wants that, and q scaled; v
        (T, heads * value_dim); dt, positive, one number for each head or for each of its
        key dimensions; beta (T, heads); a: float vector of heads. State: (heads * key_dim,
        value_dim).
        Sources: Yang et al. 2024 (gated delta networks); Kimi Team 2025 (decay by channel).
        """
        heads, key_dim = beta.width, k.width // key_heads
        if a.rows * a.columns != heads or heads % key_heads or v.width % heads:
            raise ValueError(f"{a.name}: {heads} heads, {key_heads} of keys, rows of {v.width}")
        if dt.width not in (heads, heads * key_dim):
            raise ValueError(f"{a.name}: {dt.width} decays for {heads} heads of {key_dim}")
        return self.value(
            "delta_rule",
            (q, k, v, dt, beta),
            (a,),
            width=v.width,
            state=self.new_state(heads * key_dim, v.width // heads),
            key_heads=key_heads,
            order=order,
        )

    def linear_attention(
        self, r: Value, decay: Value, k: Value, v: Value, bonus: Weight | None = None, *, heads: int
    ) -> Value:
        """Linear attention with a matrix S for each head, which forgets by row.

        S = decay S + k v^T; y = S^T r. With a bonus (heads * head_dim elements) y is of before, and
        takes the token itself by it: y = (S + (bonus k) v^T)^T r. All values (T, heads * head_dim).
        State: (heads * head_dim, head_dim).
        Sources: Peng et al. 2024 (RWKV-6); Yang et al. 2023 (gated linear attention).
        """
        return self.value(
            "linear_attention",
            (r, decay, k, v),
            (bonus,),
            width=v.width,
            state=self.new_state(v.width, v.width // heads),
            heads=heads,
        )

    def wkv7(
        self, r: Value, w: Value, k: Value, v: Value, a: Value, b: Value, *, heads: int
    ) -> Value:
        """The recurrence of RWKV-7, with a matrix S for each head, (head_dim, head_dim).

        S = exp(-e^(-1/2) sigmoid(w)) S + b (S^T a)^T + k v^T, where decay and b, k are by row of S
        and S^T a is of before; y = S^T r. All of them (T, heads * head_dim). State: (heads *
        head_dim, head_dim). Source: Peng et al. 2025.
        """
        return self.value(
            "wkv7",
            (r, w, k, v, a, b),
            width=v.width,
            state=self.new_state(v.width, v.width // heads),
            heads=heads,
        )

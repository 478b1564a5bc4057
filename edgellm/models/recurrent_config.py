"""Sizes of the blocks that keep a state, read from a file's metadata. Knows no tensors."""

from collections.abc import Mapping
from dataclasses import dataclass

from edgellm.errors import GGUFError
from edgellm.models.keys import Keys

# The largest value of each key; absent from a file, or 0, where no block needs it.
_KEYS: Mapping[str, int] = {
    "ssm.inner_size": 1 << 20,  # channels of all heads
    "ssm.conv_kernel": 1 << 10,
    "ssm.state_size": 1 << 20,  # of one channel; of a key head, for delta nets
    "ssm.time_step_rank": 1 << 20,  # heads, but for Mamba-1
    "ssm.group_count": 1 << 20,  # of heads that share b and c, or a key head
    "shortconv.l_cache": 1 << 10,  # kernel of short convolutions that stand alone
    "kda.head_dim": 1 << 20,
    "wkv.head_size": 1 << 20,
    "time_mix_extra_dim": 1 << 20,
    "time_decay_extra_dim": 1 << 20,
    "rescale_every_n_layers": 1 << 20,
    "attention.decay_lora_rank": 1 << 20,
    "attention.iclr_lora_rank": 1 << 20,
    "attention.value_residual_mix_lora_rank": 1 << 20,
    "attention.gate_lora_rank": 1 << 20,
}


@dataclass(frozen=True)
class RecurrentConfig:
    """sizes: by key, those that the file gives. norms_steps: Mamba-1 normalises dt, b and c.
    least_log_decay: of Kimi delta attention, None where decays have no bound.
    """

    prefix: str
    sizes: Mapping[str, int]
    norms_steps: bool
    least_log_decay: float | None

    def require(self, *keys: str) -> tuple[int, ...]:
        """The sizes of these keys; GGUFError names one that the file does not give."""
        for key in keys:
            if key not in self.sizes:
                raise GGUFError(f"{self.prefix}.{key} is missing, and the model's tensors need it")
        return tuple(self.sizes[key] for key in keys)

    def divided(self, key: str, by: str) -> int:
        """How many of one size make another; GGUFError when they do not fit."""
        whole, part = self.require(key, by)
        if whole % part:
            raise GGUFError(f"{self.prefix}.{key} is {whole}, expected a multiple of {part} ({by})")
        return whole // part


def read_recurrent(keys: Keys) -> RecurrentConfig:
    """GGUFError names a key that is missing or outside its range."""
    sizes = {key: keys.integer(key, 0, high, default=0) for key, high in _KEYS.items()}
    given = {key: size for key, size in sizes.items() if size}
    bound = None
    if keys.boolean("kda.safe_gate"):
        bound = keys.number("kda.gate_lower_bound", -1e6, 0)
    return RecurrentConfig(keys.prefix, given, keys.boolean("ssm.dt_b_c_rms") is True, bound)

"""How often two stacks of layers take turns, from a file's metadata. Knows no tensors."""

from dataclasses import dataclass

from edgellm.models.keys import Keys

MAX_CYCLES = 1 << 10


@dataclass(frozen=True)
class CyclesConfig:
    """stack: layers of either stack. high, low: runs of the upper one, and of the lower one before
    each of them.
    """

    stack: int
    high: int
    low: int


def read_cycles(keys: Keys, num_layers: int) -> CyclesConfig:
    """GGUFError where they do not make the layers that the file says it has, each run counted."""
    sizes = [
        keys.integer(f"hrm.{key}", 1, MAX_CYCLES)
        for key in ("layers_per_stack", "h_cycles", "l_cycles")
    ]
    config = CyclesConfig(*sizes)
    total = config.stack * config.high * (config.low + 1)
    if total != num_layers:
        raise keys.refuse("block_count", num_layers, f"{total}, all runs of a stack counted")
    return config

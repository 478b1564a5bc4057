"""The op vocabulary. A model definition calls a Builder's methods as if they computed at once.

Each call appends an `OpCall`; a backend later runs the recorded `Program` on any number of batches.
A family of ops is a file here, and one of the same name in every backend.
"""

from edgellm.kernels.ops.adapters import AdapterOps
from edgellm.kernels.ops.attention import AttentionOps, RopeLayout
from edgellm.kernels.ops.elementwise import Activation, RowOps, UnaryActivation
from edgellm.kernels.ops.heads import HeadOps
from edgellm.kernels.ops.moe import ExpertGroups, ExpertOps, Gating
from edgellm.kernels.ops.recurrent import KeyHeads, RecurrentOps
from edgellm.kernels.program import KVGroup, Program, Value

__all__ = [
    "Activation",
    "Builder",
    "ExpertGroups",
    "Gating",
    "KeyHeads",
    "RopeLayout",
    "UnaryActivation",
]


class Builder(RowOps, AttentionOps, HeadOps, ExpertOps, RecurrentOps, AdapterOps):
    """Records ops of all families."""

    def finish(self, vocab_size: int | None = None, **outputs: Value) -> Program:
        """The program. vocab_size: as many as there are logits, unless told."""
        groups = tuple(
            KVGroup(window, tuple(i for i, kv in enumerate(self.kv_layers) if kv.group == g))
            for g, window in enumerate(self.windows)
        )
        return Program(
            tuple(self.calls),
            outputs,
            groups,
            tuple(self.kv_layers),
            outputs["logits"].width if vocab_size is None else vocab_size,
            tuple(self.state_layers),
            self.num_adapters,
        )

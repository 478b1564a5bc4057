"""The head behind a model's own layers that predicts one token more (multi-token prediction).

At position p it reads the token there and the row that the model made of what is before it, and
gives the logits of the token at p + 1, as the model does at p. It gives a row too, which stands for
the model's when the head goes on by itself. Files name it `nextn` and have it as further layers, of
which the first is used. Source: DeepSeek-AI 2024 (DeepSeek-V3), section 2.2.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.kernels.program import Program, Value, Weight
from edgellm.models.architecture import MTPReads
from edgellm.models.recorder import Recorder
from edgellm.models.weights import float_matrix

MOST_ROWS = 256  # of one run of the program

LayerOf = Callable[[Recorder, int, Value], Value]
LogitsOf = Callable[[Recorder, Value, Weight, str], Value]


@dataclass(frozen=True, eq=False)
class MTPHead:
    """program: token t of a batch takes the row of `given` that its input_ids[t] says: an
    embedding, then a hidden row, (MOST_ROWS, 2 * hidden_size). Its cache is a layer of the model's.
    Its outputs are "hidden" (tokens, hidden_size) and "logits" (outputs, vocab_size).

    embedding: what tokens are looked up in. reads: the output of the model that hidden rows are of.
    """

    program: Program
    given: npt.NDArray[np.float32]
    embedding: Weight
    reads: MTPReads


@dataclass(frozen=True, eq=False)
class RecordedHead:
    """What `record_head` leaves in the recorder's builder; MTPHead without the program."""

    outputs: dict[str, Value]
    given: npt.NDArray[np.float32]
    embedding: Weight


def head_tensor(layer: int) -> str:
    """The tensor that tells that a file holds the head of this layer."""
    return f"blk.{layer}.nextn.eh_proj.weight"


def record_head(
    r: Recorder, layer: int, table: Weight, layer_of: LayerOf, logits_of: LogitsOf
) -> RecordedHead:
    """Records the head that is layer `layer` of r.config. table: the model's own embedding.

    GGUFError for a tensor that is missing, of the wrong shape, or has no place in it.
    """
    width, prefix, b = r.config.hidden_size, f"blk.{layer}.nextn", r.builder
    given = np.zeros((MOST_ROWS, 2 * width), np.float32)
    both = b.embed(float_matrix("mtp.given", given))
    embedded = r.norm(b.columns(both, 0, width), f"{prefix}.enorm")
    hidden = r.norm(b.columns(both, width, width), f"{prefix}.hnorm")
    x = r.linear(b.concat_heads(embedded, hidden, 1), f"{prefix}.eh_proj", width)
    x = layer_of(r, layer, x)
    norm = _first_there(r, f"{prefix}.shared_head_norm", f"blk.{layer}.layer_output_norm")
    norm = norm or r.architecture.output_norm
    if norm is None:
        raise GGUFError(f"tensor {prefix}.shared_head_norm.weight is missing")
    if r.architecture.mtp_reads == "hidden":
        x = r.norm(x, norm)
        last = b.select_outputs(x)
    else:
        last = r.norm(b.select_outputs(x), norm)
    own = f"{prefix}.embed_tokens"
    if r.has(own):
        embedding = r.weights.matrix(f"{own}.weight", table.rows, width)
    else:
        embedding = table
    head = f"{prefix}.shared_head_head"
    logits = logits_of(r, last, table, head if r.has(head) else "output")
    r.weights.check(f"blk.{layer}.")
    return RecordedHead({"hidden": x, "logits": logits}, given, embedding)


def _first_there(r: Recorder, *names: str) -> str | None:
    return next((name for name in names if r.has(name)), None)

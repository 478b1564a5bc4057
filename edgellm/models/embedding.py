"""What a decoder's first layer reads: a row for each token, and what is added to it."""

import numpy as np

from edgellm.errors import GGUFError
from edgellm.kernels.program import Value, Weight
from edgellm.models.pooled_head import tells_types
from edgellm.models.recorder import Recorder, vector
from edgellm.models.weights import rows_of


def embedding(r: Recorder, table: Weight) -> Value:
    """Rows of the table, with learned positions and a norm where the file has them.

    Where a file tells types of tokens apart, all are of the first, but for those of a second text.
    """
    b = r.builder
    x = b.embed(table, r.architecture.embedding_factor(r.config))
    if r.has("token_types"):
        rows = r.weights.shape("token_types.weight")[1:] or (1,)
        types = r.weights.matrix_float32("token_types.weight", rows[0], r.config.hidden_size)
        x = b.add_columns(x, rows_of(types, 0, 1))
        if tells_types(r.weights, r.config):
            first, second = types.data.view(np.float32)[:2]
            x = b.add_direction(x, vector("token_types (second)", second - first), len(r.adapters))
    if r.has("position_embd"):
        trained = r.config.context_length
        if r.context_length > trained:
            raise GGUFError(
                f"the model has learned {trained} positions, a context of {r.context_length} is "
                f"asked for: give a context of at most {trained}"
            )
        positions = r.weights.matrix("position_embd.weight", trained, r.config.hidden_size)
        x = b.add(x, b.embed_positions(positions))
    if r.architecture.plain_embedding_norm:
        x = b.rms_norm(x, None, r.config.norm_eps)
    norm = "token_embd_norm"
    return x if r.architecture.output_norm == norm else r.optional_norm(x, norm)

"""The kinds of models that are converted: a row for each name in `architectures` of config.json."""

from collections.abc import Mapping

from edgellm.convert.families import (
    delta,
    dense,
    encoders,
    experts,
    falcon_h1,
    gemma,
    latent,
    layered,
    older,
    published,
    published_dense,
    published_experts,
    recurrent,
    rwkv,
    varied,
)
from edgellm.convert.families.family import Family

FAMILIES: Mapping[str, Family] = {
    **dense.ROWS,
    **gemma.ROWS,
    **older.ROWS,
    **experts.ROWS,
    **latent.ROWS,
    **layered.ROWS,
    **recurrent.ROWS,
    **falcon_h1.ROWS,
    **delta.ROWS,
    **encoders.ROWS,
    **varied.ROWS,
    **published.ROWS,
    **published_dense.ROWS,
    **published_experts.ROWS,
    **rwkv.ROWS,
}

__all__ = ["FAMILIES", "Family"]

"""The kinds of models that are converted: a row for each name in `architectures` of config.json."""

from collections.abc import Mapping

from edgellm.convert.families import dense, encoders, experts, older, recurrent
from edgellm.convert.families.family import Family

FAMILIES: Mapping[str, Family] = {
    **dense.ROWS,
    **older.ROWS,
    **experts.ROWS,
    **recurrent.ROWS,
    **encoders.ROWS,
}

__all__ = ["FAMILIES", "Family"]

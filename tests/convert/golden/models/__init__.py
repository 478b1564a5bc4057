"""The models of the folder above: their class in `transformers`, and what makes them tiny.

A file for each kind, as in `edgellm/convert/families/`. Holds no tests.
"""

from tests.convert.golden.models.dense import DENSE
from tests.convert.golden.models.encoders import ENCODERS
from tests.convert.golden.models.experts import EXPERTS
from tests.convert.golden.models.latent import LATENT
from tests.convert.golden.models.older import OLDER
from tests.convert.golden.models.recurrent import RECURRENT
from tests.convert.golden.models.varied import VARIED

MODELS = {**DENSE, **ENCODERS, **EXPERTS, **LATENT, **OLDER, **RECURRENT, **VARIED}

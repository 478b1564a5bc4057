"""Tiny models of families whose code is published beside their weights: settings, and the shapes of
tensors by their published names. Holds no tests."""

from collections.abc import Mapping

from tests.convert.written import dense, encoders, experts, recurrent
from tests.convert.written.parts import Model

MODELS: Mapping[str, Model] = {
    **dense.ROWS,
    **experts.ROWS,
    **recurrent.ROWS,
    **encoders.ROWS,
}

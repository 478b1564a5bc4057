"""What a file has behind the pooled row of a text: projections, or a classifier that scores it.

Small products on one row, in float64, so that they need no backend. Knows nothing of how rows
are pooled.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile
from edgellm.models.config import ModelConfig
from edgellm.models.registry import architecture
from edgellm.models.weights import Weights
from edgellm.types import Pooling

Float64 = npt.NDArray[np.float64]
Layer = Callable[[Float64], Float64]

DENSE = ("dense_2", "dense_3")  # the modules behind pooling in EmbeddingGemma's own code


@dataclass(frozen=True, eq=False)
class PooledHead:
    """projections: of embeddings, in order. classifier: what "rank" pooling makes of a row, the one
    that rank_pooling makes; empty where the file has none. pooling: what the file asks for, else
    "last" where the last token sees all others, and "mean" where all do. tells_types: the program
    has one adapter more, which makes tokens those of a second text.
    """

    projections: tuple[Layer, ...] = ()
    classifier: tuple[Layer, ...] = ()
    rank_pooling: Pooling = "cls"
    pooling: Pooling = "last"
    tells_types: bool = False

    @property
    def can_rank(self) -> bool:
        """Whether the file has a classifier."""
        return bool(self.classifier)

    def project(self, row: Float64) -> Float64:
        """The embedding that a pooled row (hidden_size,) becomes."""
        return _through(self.projections, row)

    def classify(self, row: Float64) -> Float64:
        """A score for each of the classifier's labels."""
        return _through(self.classifier, row)


def read_pooled_head(file: GGUFFile, config: ModelConfig) -> PooledHead:
    """GGUFError names a tensor that is of the wrong shape or type."""
    weights, width = Weights(file), config.hidden_size
    projections = []
    for name in DENSE:
        if weights.has(f"{name}.weight"):
            projections.append(_linear(weights, name, width))
            width = weights.shape(f"{name}.weight")[1]
    return PooledHead(
        tuple(projections),
        tuple(_classifier(weights, config)),
        architecture(config.architecture).rank_pooling,
        config.pooling or ("last" if config.causal else "mean"),
        tells_types(weights, config),
    )


def tells_types(weights: Weights, config: ModelConfig) -> bool:
    """Whether tokens of a second text differ from those of a first. Source: Devlin et al. 2018.

    Not where tokens see only what is before them: the cache holds a text's beginning by its ids.
    """
    name = "token_types.weight"
    return not config.causal and weights.has(name) and len(weights.shape(name)) > 1


def _classifier(weights: Weights, config: ModelConfig) -> list[Layer]:
    """A hidden layer, where there is one, then the labels. Both may be missing."""
    row = architecture(config.architecture)
    layers: list[Layer] = []
    if weights.has("cls.weight"):
        layers.append(_linear(weights, "cls", config.hidden_size))
        layers.append(_gelu if row.classifier_activation == "gelu" else np.tanh)
    if weights.has("cls.norm.weight"):
        layers.append(_layer_norm(weights, "cls.norm", config))
    if weights.has("cls.output.weight"):
        layers.append(_linear(weights, "cls.output", config.hidden_size))
    if layers and row.classifier_softmax:
        layers.append(_softmax)
    return layers


def _linear(weights: Weights, name: str, width: int) -> Layer:
    shape = weights.shape(f"{name}.weight")
    if len(shape) > 2 or shape[0] != width:
        raise GGUFError(f"tensor {name}.weight has shape {shape}, expected {width} columns")
    rows = shape[1] if len(shape) > 1 else 1
    stored = weights.matrix_float32(f"{name}.weight", rows, width, shape=shape)
    matrix = stored.data.view(np.float32).reshape(rows, width).astype(np.float64)
    bias = _vector(weights, f"{name}.bias", rows)

    def product(x: Float64) -> Float64:
        result: Float64 = np.einsum("nk,k->n", matrix, x) + bias
        return result

    return product


def _layer_norm(weights: Weights, name: str, config: ModelConfig) -> Layer:
    weight = _vector(weights, f"{name}.weight", config.hidden_size)
    bias = _vector(weights, f"{name}.bias", config.hidden_size)

    def norm(x: Float64) -> Float64:
        centred = x - x.mean()
        result: Float64 = centred / np.sqrt(np.mean(centred**2) + config.norm_eps) * weight + bias
        return result

    return norm


def _vector(weights: Weights, name: str, size: int) -> Float64:
    """The vector, or zeros where the file has none."""
    if not weights.has(name):
        return np.zeros(size)
    stored: Float64 = weights.vector(name, size).data.view(np.float32)[0].astype(np.float64)
    return stored


def _gelu(x: Float64) -> Float64:
    result: Float64 = 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2)))
    return result


def _softmax(x: Float64) -> Float64:
    weights = np.exp(x - x.max())
    result: Float64 = weights / weights.sum()
    return result


def _through(layers: tuple[Layer, ...], row: Float64) -> Float64:
    for layer in layers:
        row = layer(row)
    return row

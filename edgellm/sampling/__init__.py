"""From one row of logits to one token. Knows nothing of models, batches or text.

The samplers run in llama.cpp's default order or the user's; a new one is a function and a row.
"""

from edgellm.sampling.biases import token_biases
from edgellm.sampling.find import Find, compiled_find, find_best, greedy
from edgellm.sampling.logprobs import logprobs
from edgellm.sampling.loops import LoopDetector
from edgellm.sampling.sampler import Sampler
from edgellm.sampling.step import Vocabulary

__all__ = [
    "Find",
    "LoopDetector",
    "Sampler",
    "Vocabulary",
    "compiled_find",
    "find_best",
    "greedy",
    "logprobs",
    "token_biases",
]

"""Where the best logits of a row are. Knows nothing of how one of them is chosen."""

import math
from collections.abc import Callable
from pathlib import Path

from edgellm.errors import EdgeLLMError
from edgellm.kernels.best import BestLogits
from edgellm.sampling.candidates import Candidates, Float32, best

# The `count` largest of a row, at most MOST_FEW, or all of a shorter one, and their token ids: best
# first, of equals those of lower ids. EdgeLLMError when the best one is no number.
Find = Callable[[Float32, int], tuple[list[float], list[int]]]


def find_best(logits: Float32, count: int) -> tuple[list[float], list[int]]:
    """A Find in numpy."""
    first = greedy(logits)
    if count == 1:
        return [logits.item(first)], [first]
    found = best(Candidates(logits), count)
    assert found.token_ids is not None
    return found.logits.tolist(), found.token_ids.tolist()


def compiled_find(cache_root: Path | None) -> Find:
    """A Find for one thread, compiled when it is first asked for on a machine.

    cache_root: where kernels are kept.
    """
    compiled = BestLogits(cache_root)

    def find(logits: Float32, count: int) -> tuple[list[float], list[int]]:
        found = compiled(logits, count)
        return find_best(logits, count) if found is None else found

    return find


def greedy(logits: Float32) -> int:
    """The most likely token id; the lowest of equals."""
    best = int(logits.argmax())  # a NaN, if there is one, comes out here
    if not math.isfinite(largest := logits.item(best)):
        raise EdgeLLMError(f"the largest logit is {largest}: the model file may be damaged")
    return best

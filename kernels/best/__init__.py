"""The largest logits of a row, found by compiled code: what a draw begins with.

Right after a step all memory is cold, and each of the dozen calls that numpy needs waits for it.
Knows nothing of samplers, models or steps.
"""

from edgellm.kernels.best.finder import BestLogits

__all__ = ["BestLogits"]

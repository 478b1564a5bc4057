"""What one sequence could take from another that is still being computed. Plain Python.

Knows nothing of pools and queues.
"""

from edgellm.limits import Limits
from edgellm.prefix_nodes import same_scales
from edgellm.sequence import Sequence


def promised(leader: Sequence, sequence: Sequence, limits: Limits, has_states: bool) -> int:
    """How many first tokens of `sequence` the cache will have because `leader` computes them.

    0 when it has them already, as far as they come from there, or never will. has_states: prefixes
    are found where a recurrent state is kept, not at the end of every block.
    """
    if leader.is_decode or not same_scales(leader.adapter_scales, sequence.adapter_scales):
        return 0
    most = min(len(leader.token_ids), sequence.reusable)
    if has_states:
        ends = [end for end in leader.checkpoints if end <= most]
        end = max(ends, default=0)
        shared = end if leader.token_ids[:end] == sequence.token_ids[:end] else 0
    else:
        shared = _common_blocks(leader.token_ids, sequence.token_ids, most, limits.block_size)
    return shared if shared > leader.num_computed_tokens else 0


def _common_blocks(a: list[int], b: list[int], most: int, size: int) -> int:
    """The tokens of the first whole blocks that are equal, at most `most`."""
    end = 0
    while end + size <= most and a[end : end + size] == b[end : end + size]:
        end += size
    return end

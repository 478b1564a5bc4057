"""Several steps of decoding in one call: who may, how many, and how tokens are drawn meanwhile.

Between two steps the interpreter takes as long as a small model's whole feed-forward network. Where
tokens are drawn by the backend it is not needed for a while: not for so long that anybody who
reads, ends an answer or asks for another one would see a difference. Knows nothing of programs.
"""

from edgellm.consumers import Consumers
from edgellm.guessing import Guessing
from edgellm.kernels.draw import Draws
from edgellm.scheduler import Scheduler
from edgellm.sequence import Chunk

LONGEST = 0.03  # seconds of a call
MOST = 8  # steps: what is computed behind an answer's end is lost
EXPECTING = 2  # of them, where guesses may be had after each


def plan_draws(
    chunks: list[Chunk], consumers: Consumers, guessing: Guessing, scheduler: Scheduler
) -> Draws | None:
    """How the next tokens of these are drawn, with blocks for them; None where some consumer must
    see logits, or more than a token of a sequence is computed."""
    each, steps = [], float(MOST)
    for chunk in chunks:
        sequence = chunk.sequence
        if chunk.count != 1 or chunk.logits != "last" or not chunk.is_decode:
            return None
        if sequence.wants_hidden or consumers.has_followers(sequence):
            return None
        found = consumers[sequence].draw()
        if found is None:
            return None
        each.append(found[0])
        if guessing.expects(sequence):
            steps = min(steps, EXPECTING)
        steps = min(steps, found[1], scheduler.limits.context_length - len(sequence.token_ids))
    return Draws(tuple(each), _affordable(max(1, int(steps)), chunks, scheduler))


def _affordable(steps: int, chunks: list[Chunk], scheduler: Scheduler) -> int:
    seconds = scheduler.decode_seconds(len(chunks))
    if not seconds:
        return 1
    steps = max(1, min(steps, int(LONGEST / seconds)))
    return steps if steps > 1 and scheduler.make_room(chunks, steps) else 1

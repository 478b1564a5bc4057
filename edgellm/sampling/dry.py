"""DRY: a penalty on tokens that would go on with a phrase the text already has.

Source: p-e-w's description, github.com/oobabooga/text-generation-webui/pull/5677, with llama.cpp's
limits. Knows nothing of the other samplers.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from edgellm.sampling.candidates import Candidates, Ids
from edgellm.sampling.penalties import with_logits
from edgellm.sampling.step import Step, last

_LARGEST = 1e38  # a penalty that float32 holds


def dry(candidates: Candidates, step: Step) -> Candidates:
    """Takes multiplier * base^(length - allowed_length) off each token that once followed the
    longest phrase, of at least `allowed_length` tokens, with which the history ends."""
    params = step.params
    window = last(step.history, params.dry_penalty_last_n)
    most = math.log(_LARGEST) / math.log(params.dry_base) if params.dry_base > 1.0 else 0.0
    lengths = _repeats(np.asarray(window, np.intp), params.dry_allowed_length + int(most))
    if not lengths:
        return candidates
    breakers = tuple(text.encode() for text in params.dry_sequence_breakers)
    longest = max(lengths.values())
    limit = _tokens_since(breakers, window, step.vocabulary.token_bytes, longest)
    costs = {
        token: min(
            params.dry_multiplier
            * params.dry_base ** (min(length, limit) - params.dry_allowed_length),
            _LARGEST,
        )
        for token, length in lengths.items()
        if min(length, limit) >= max(1, params.dry_allowed_length)
    }
    if not costs:
        return candidates
    ids = np.array(sorted(costs))
    ordered, places, found = candidates.find(ids)
    taken_off = np.array([costs[token] for token in ids[found].tolist()], np.float32)
    return with_logits(ordered, places, ordered.logits[places] - taken_off)


def _repeats(window: Ids, limit: int) -> dict[int, int]:
    """Per token that follows an earlier occurrence of the window's end: the longest such end.

    Ends longer than `limit` count as that long.
    """
    lengths: dict[int, int] = {}
    if limit < 1 or len(window) < 2:
        return lengths
    ends = np.flatnonzero(window[:-1] == window[-1])  # where the last `length` tokens also end
    for length in range(1, limit + 1):
        for token in np.unique(window[ends + 1]).tolist():
            lengths[token] = length
        ends = ends[ends >= length]
        ends = ends[window[ends - length] == window[-1 - length]] if len(ends) else ends
        if not len(ends):
            break
    return lengths


def _tokens_since(
    breakers: tuple[bytes, ...],
    window: Sequence[int],
    token_bytes: Callable[[int], bytes],
    most: int,
) -> int:
    """How many tokens at the end of the window lie wholly behind the last breaker in its text.

    Those before the last `most` are looked at only as far as a breaker may reach out of them.
    """
    reach = max(map(len, breakers), default=1) - 1
    after, sizes = b"", list[int]()  # the text behind, and its tokens' lengths, nearest last
    for token in reversed(window):
        if len(sizes) >= most and sum(sizes[most:]) >= reach:
            break
        piece = token_bytes(token)
        text = piece + after[:reach]
        ends = [at + len(b) for b in breakers if (at := text.rfind(b)) >= 0]
        if ends:
            count, over = len(sizes), max(ends) - len(piece)
            while over > 0:
                count -= 1
                over -= sizes[count]
            return count
        after = piece + after[:reach]
        sizes.append(len(piece))
    return len(sizes)

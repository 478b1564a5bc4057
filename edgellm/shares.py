"""How the tokens of a step are shared out among the sequences that run.

Decodes have all of theirs. Prefill has what the token budget and the measured cost of steps leave:
the oldest is sure of half of it, the shortest come first in the rest. Knows nothing of blocks or
queues. Plain Python.
"""

from collections.abc import Iterable

from edgellm.limits import Limits
from edgellm.sequence import Chunk, Sequence
from edgellm.step_cost import StepCost, Work

Share = tuple[Sequence, int]  # and how many of its tokens may be computed


def parted(running: Iterable[Sequence]) -> tuple[list[Sequence], list[Sequence]]:
    """Those that decode, and those with more to compute."""
    decodes, prefills = [], []
    for sequence in running:
        if sequence.is_decode:
            decodes.append(sequence)
        elif sequence.num_remaining_tokens:
            prefills.append(sequence)
    return decodes, prefills


def shares(
    running: list[Sequence], limits: Limits, cost: StepCost | None, is_alone: bool
) -> list[Share]:
    """Who may compute how many tokens in this step, those that go first ahead.

    cost: chooses how much prefill there is; None always fills the token budget. is_alone: no decode
    can run, so that prefill has no reason to wait.
    """
    if not limits.is_causal:
        return _whole(limits.token_budget, running)
    decodes, prefills = parted(running)
    given = [(s, s.num_remaining_tokens) for s in decodes]
    if not prefills:
        return given
    rows = sum(share for _, share in given)
    budget = max(1, limits.token_budget - rows)
    if cost is not None:
        budget = min(budget, prefill_tokens(cost, 0 if is_alone else rows, prefills))
    return given + _share_out(budget, prefills)


def prefill_tokens(cost: StepCost, rows: int, prefills: list[Sequence]) -> int:
    """How many tokens of these are worth computing beside so many rows of decodes."""
    wanted = sum(s.num_remaining_tokens for s in prefills)
    return cost.prefill_tokens(rows, wanted, max(s.num_computed_tokens for s in prefills))


def work_of(chunks: Iterable[Chunk]) -> Work:
    """What a step with these chunks computes. To be asked before they are computed."""
    rows = tokens = before = 0
    for chunk in chunks:
        if chunk.is_decode:
            rows += chunk.count
        else:
            tokens += chunk.count
            before += chunk.count * chunk.sequence.num_computed_tokens
    return Work(rows, tokens, before / tokens if tokens else 0.0)


def _whole(budget: int, running: list[Sequence]) -> list[Share]:
    """As many as fit with all of their tokens, none before those that go first."""
    shares = []
    for sequence in running:
        budget -= sequence.num_remaining_tokens
        if budget < 0:
            break
        shares.append((sequence, sequence.num_remaining_tokens))
    return shares


def _share_out(budget: int, prefills: list[Sequence]) -> list[Share]:
    """Half of the budget for the oldest, the rest for the shortest first."""
    oldest, *others = prefills
    left = budget - min(oldest.num_remaining_tokens, (budget + 1) // 2)
    shares = []
    for sequence in sorted(others, key=lambda s: s.num_remaining_tokens):
        share = min(left, sequence.num_remaining_tokens)
        left -= share
        shares.append((sequence, share))
    return [(oldest, budget - sum(share for _, share in shares)), *shares]

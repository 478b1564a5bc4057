"""How many tokens are guessed for each sequence of the next step, and by whom.

As many as promise the most tokens per second, by how often guesses were right and by what steps of
so many rows have taken; none where that would lose. Knows no logits and has no say in any text.
"""

from collections.abc import Iterator, Sequence as Seq
from itertools import accumulate
from operator import mul

from edgellm.drafters.drafter import Drafter, Hidden
from edgellm.drafters.row_cost import RowCost
from edgellm.limits import Limits
from edgellm.sequence import Sequence

_MOST = 16  # guesses for one sequence
_WORTH = 1.1  # times as many tokens per second must be promised
# Rows that kernels compute together: of more rows multiples cost least, of fewer powers of two.
_SIZE = 8


class Speculation:
    """drafters: of those that promise the same, the first is asked.

    replays: what was computed before a wrong guess is computed again, as in recurrent models.
    reads: the output of the model that drafters follow.
    """

    def __init__(
        self,
        drafters: tuple[Drafter, ...],
        limits: Limits,
        replays: bool = False,
        reads: str | None = None,
    ) -> None:
        self.most = _MOST
        self.reads = reads
        self.cost = RowCost()
        self._drafters = drafters
        self._limits = limits
        self._replays = replays

    def draft(self, sequences: Seq[Sequence]) -> dict[Sequence, list[int]]:
        """Guesses for what these go on with. The next step will do nothing but decode them."""
        counts: dict[Drafter, dict[Sequence, int]] = {drafter: {} for drafter in self._drafters}
        rows = len(sequences)
        tokens = float(rows)
        for sequence in sequences:
            if not _may_guess(sequence):
                continue
            most = max(0, min(self._room(sequence), self._limits.max_logits_rows - rows))
            rate = _WORTH * tokens / self.cost.seconds(rows)
            best = None
            for drafter, count, gain, seconds in self._ways(sequence, rows, most):
                if (tokens + gain) / seconds > rate:
                    rate, best = (tokens + gain) / seconds, (drafter, count, gain)
            if best is not None:
                drafter, count, gain = best
                counts[drafter][sequence] = count
                rows, tokens = rows + count, tokens + gain
        return {
            s: d for drafter in self._drafters for s, d in drafter.draft(counts[drafter]).items()
        }

    def follow(self, sequence: Sequence, first: int, hidden: Hidden) -> None:
        """The model's rows of a sequence's tokens from position `first` on."""
        if _may_guess(sequence):
            for drafter in self._drafters:
                drafter.follow(sequence, first, hidden)

    def observe(self, rows: int, seconds: float) -> None:
        """A step that only decoded so many rows took `seconds`, drafting apart."""
        self.cost.observe(rows, seconds)

    def forget(self, sequence: Sequence) -> None:
        """The sequence has ended."""
        for drafter in self._drafters:
            drafter.forget(sequence)

    def close(self) -> None:
        """Gives back what drafters hold."""
        for drafter in self._drafters:
            drafter.close()

    def _ways(
        self, sequence: Sequence, rows: int, most: int
    ) -> Iterator[tuple[Drafter, int, float, float]]:
        """Who might guess how many, how many of those should be right, and the step's seconds."""
        plain = self.cost.seconds(rows)
        for drafter in self._drafters:
            if sequence.params.speculation not in ("auto", drafter.name):
                continue
            gain = 0.0
            for count, chance in enumerate(accumulate(drafter.chances(sequence, most), mul), 1):
                gain += chance
                if not _is_whole(rows + count):
                    continue
                seconds = self.cost.seconds(rows + count)
                if self._replays:
                    seconds += (1.0 - chance) * (seconds - plain)
                yield drafter, count, gain, seconds + drafter.seconds(count)

    def _room(self, sequence: Sequence) -> int:
        """Guesses that could be of use: not beyond the context, nor the end of the answer."""
        length, wanted = len(sequence.token_ids), sequence.params.max_tokens
        room = min(self.most, self._limits.context_length - length)
        if wanted is not None:
            room = min(room, wanted - (length - sequence.num_prompt_tokens) - 1)
        return room


def _is_whole(rows: int) -> bool:
    """Whether so many rows leave no part of a kernel's tile empty.

    Fewer numbers to choose from are also measured sooner, and better.
    """
    return rows % _SIZE == 0 or (rows < _SIZE and rows.bit_count() == 1)


def _may_guess(sequence: Sequence) -> bool:
    """A beam takes one row, what is scored or embedded goes on with nothing, and not all requests
    want it."""
    params, is_answer = sequence.params, sequence.score_from is None and not sequence.wants_hidden
    return is_answer and params.beam_width == 1 and params.speculation != "off"

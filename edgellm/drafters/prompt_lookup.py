"""Guesses that a text goes on as it did where it last read the same. Costs next to nothing.

How often that was right is counted per length of what read the same, at every token, whether it was
guessed or not: so nothing is computed to find out.
"""

from collections.abc import Mapping

from edgellm.drafters.drafter import Hidden
from edgellm.drafters.learning import HitRate
from edgellm.drafters.suffix_automaton import SuffixAutomaton
from edgellm.sequence import Sequence

# How often the next token is the same, before anything is counted: for 1, 2 to 3, 4 to 7, ...
# tokens that read the same.
_PRIORS = (0.1, 0.25, 0.5, 0.7, 0.8, 0.9)


class PromptLookup:
    """A Drafter: prompt and answer of each sequence, as an automaton."""

    name = "lookup"

    def __init__(self) -> None:
        self._texts: dict[Sequence, _Text] = {}

    def follow(self, sequence: Sequence, first: int, hidden: Hidden) -> None:
        """Tokens say all."""

    def chances(self, sequence: Sequence, most: int) -> list[float]:
        text = self._texts.get(sequence)
        if text is None:
            text = self._texts[sequence] = _Text(sequence.token_ids)
        else:
            text.follow(sequence.token_ids)
        return text.chances(most)

    def seconds(self, count: int) -> float:
        return 0.0

    def draft(self, counts: Mapping[Sequence, int]) -> dict[Sequence, list[int]]:
        return {s: self._texts[s].automaton.continuation(count) for s, count in counts.items()}

    def forget(self, sequence: Sequence) -> None:
        self._texts.pop(sequence, None)

    def close(self) -> None:
        self._texts.clear()


class _Text:
    """One sequence's tokens, and how often they went on as before."""

    def __init__(self, tokens: list[int]) -> None:
        self.automaton = SuffixAutomaton()
        self._hits = [HitRate(prior) for prior in _PRIORS]
        for token in tokens:
            self.automaton.push(token)

    def follow(self, tokens: list[int]) -> None:
        """Takes the tokens that are new, and counts."""
        automaton = self.automaton
        for token in tokens[len(automaton.tokens) :]:
            if automaton.match_length:
                is_right = automaton.tokens[automaton.match_end] == token
                self._hits[_kind(automaton.match_length)].count(is_right)
            automaton.push(token)

    def chances(self, most: int) -> list[float]:
        length = self.automaton.match_length
        if not length:
            return []
        return [self._hits[_kind(length + i)].chance for i in range(most)]


def _kind(length: int) -> int:
    return min(length.bit_length(), len(_PRIORS)) - 1

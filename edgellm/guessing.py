"""Guesses in a step: put behind sequences before it, shown its results, taken back where wrong.

An answer does not need them: when whoever guesses fails, it is left from then on. Knows nothing of
how guesses are made, nor of what becomes of logits.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence as Seq
from typing import Protocol

from edgellm.consumer import Rows
from edgellm.consumers import Consumers
from edgellm.scheduler import Scheduler
from edgellm.sequence import Sequence

_LATELY = 64  # tokens

_log = logging.getLogger("edgellm")


class Speculator(Protocol):
    """Who guesses tokens ahead. most: guesses for one sequence. reads: the output that it is shown
    of all steps, if any."""

    @property
    def most(self) -> int: ...

    @property
    def reads(self) -> str | None: ...

    def draft(self, sequences: Seq[Sequence]) -> Mapping[Sequence, list[int]]: ...

    def follow(self, sequence: Sequence, first: int, hidden: Rows) -> None: ...

    def observe(self, rows: int, seconds: float) -> None: ...

    def forget(self, sequence: Sequence) -> None: ...

    def close(self) -> None: ...


class Guessing:
    """One engine's guesses. speculator: None makes none."""

    def __init__(self, speculator: Speculator | None) -> None:
        self._speculator = speculator
        self._guessed_at: dict[Sequence, int] = {}  # the length that it was last guessed for at

    @property
    def reads(self) -> str | None:
        """The output that whoever guesses is to be shown of every step."""
        return None if self._speculator is None else self._speculator.reads

    def draft(self, scheduler: Scheduler, consumers: Consumers) -> set[Sequence]:
        """Puts guesses at the end of sequences, for one step; who has some."""
        speculator = self._speculator
        if speculator is None:
            return set()
        decodes = scheduler.draftable(speculator.most)
        if not decodes:
            return set()
        # Forks begin where their prompt ends, with no guess computed.
        alone = [s for s in decodes if not consumers.has_followers(s)]
        try:
            drafts = speculator.draft(alone)
        except Exception:
            self._stop(speculator)
            return set()
        for sequence, tokens in drafts.items():
            sequence.token_ids += tokens
            sequence.num_draft_tokens = len(tokens)
            self._guessed_at[sequence] = len(sequence.token_ids)
        return set(drafts)

    def expects(self, sequence: Sequence) -> bool:
        """Whether there were guesses lately, so that others may be made any moment."""
        last = self._guessed_at.get(sequence)
        return last is not None and len(sequence.token_ids) < last + _LATELY

    def withdraw(self, scheduler: Scheduler, sequences: Iterable[Sequence]) -> None:
        """Takes the guesses of those that the step has no room for back."""
        for sequence in sequences:
            scheduler.rollback(sequence, sequence.num_draft_tokens)

    def follow(self, sequence: Sequence, first: int, hidden: Rows) -> None:
        """Shows whoever guesses the rows of what was computed from position `first` on."""
        speculator, sure = self._speculator, sequence.num_computed_tokens - first
        if speculator is None or sure <= 0:
            return
        try:
            speculator.follow(sequence, first, hidden[:sure])
        except Exception:
            self._stop(speculator)

    def observe(self, rows: int, seconds: float) -> None:
        """A step that only decoded so many rows took `seconds`."""
        if self._speculator is not None:
            self._speculator.observe(rows, seconds)

    def forget(self, sequence: Sequence) -> None:
        """The sequence has ended."""
        self._guessed_at.pop(sequence, None)
        if self._speculator is not None:
            self._speculator.forget(sequence)

    def close(self) -> None:
        """Gives back what whoever guesses holds."""
        if self._speculator is not None:
            self._speculator.close()

    def _stop(self, speculator: Speculator) -> None:
        _log.exception("guessing failed, and is left from now on")
        self._speculator = None
        speculator.close()

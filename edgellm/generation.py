"""What becomes of a sequence's logits: an answer token by token, or rows handed on as they are.

Runs in the engine's thread. Knows nothing of scheduling, batches or how logits are computed.
"""

from collections import deque
from collections.abc import Callable, Sequence as Seq
from dataclasses import dataclass, field

from edgellm.constraints import Constraint
from edgellm.consumer import OnlyTakes, Rows, checked
from edgellm.detokenize import Detokenizer
from edgellm.errors import EdgeLLMError
from edgellm.kernels.draw import Draw
from edgellm.sampling import LoopDetector, Sampler, Vocabulary, logprobs
from edgellm.sequence import Sequence
from edgellm.stopwatch import Stopwatch
from edgellm.types import FinishReason, Progress, TokenEvent, TokenLogprob, Usage

Emit = Callable[[TokenEvent | Exception], None]  # the outbox of one request
TakeRows = Callable[[int, Rows], None]  # position of the first row, rows


@dataclass(eq=False)
class Generation:
    """One answer: samples, watches for its end, and emits text.

    max_tokens: the most that this answer may have, the context's end included. constraint: the
    form it must have. loops: watches for repetition without end. tells_progress: while the prompt
    is computed, whoever gets the text hears how far that is.
    """

    request_id: str
    sequence: Sequence
    tokenizer: Vocabulary
    detokenizer: Detokenizer
    emit: Emit
    sampler: Sampler
    max_tokens: int
    constraint: Constraint | None = None
    loops: LoopDetector | None = None
    tells_progress: bool = False
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    _drafts: deque[int] = field(default_factory=deque)  # that may still prove right, in this step
    _drafted: int = 0
    _accepted: int = 0

    def begin(self) -> None:
        self.stopwatch.begin()
        self._tell_progress()

    def take(self, rows: Rows, drafts: Seq[int] = ()) -> bool:
        self._tell_progress()
        if self.max_tokens == 0:  # the prompt alone was wanted in the cache
            self._finish("length")
            return True
        self._drafts.clear()
        self._drafts.extend(drafts)
        self._drafted += len(drafts)
        begun, accepted, place = len(self.sequence.token_ids), self._accepted, 0
        while place < len(rows) and place == self._accepted - accepted:
            if self._advance(rows[place]):
                return True
            place = len(self.sequence.token_ids) - begun
        return False

    def _advance(self, row: Rows) -> bool:
        """Draws a token; with those that must follow it, if any. True when the answer ends."""
        forced = self._forced() if self._num_generated == 0 else []
        if not forced:
            token = self._sample(row)
            if self._append(token, self._logprobs(row, token)):
                return True
            if self.constraint is not None:
                self.constraint.accept(token)
                forced = self._forced()
        if any(self._append(token, self._certain(token)) for token in forced):
            return True
        if self.constraint is not None and self.constraint.is_complete:
            self._finish("stop")
            return True
        return False

    def draw(self) -> tuple[Draw, float] | None:
        generated = self._num_generated
        left = self.max_tokens - generated
        if self.constraint is not None or self.sequence.params.logprobs is not None or not left:
            return None
        return self.sampler.draw(generated, left)

    def take_drawn(self, tokens: Seq[int]) -> bool:
        return any(self._append(token, None) for token in checked(tokens))

    def abort(self) -> None:
        self._finish("abort")

    def fail(self, error: Exception) -> None:
        self.emit(error)

    def _tell_progress(self) -> None:
        if not self.tells_progress or self._num_generated:
            return
        sequence = self.sequence
        progress = Progress(
            tokens=sequence.num_prompt_tokens,
            computed=sequence.num_computed_tokens,
            cached=sequence.num_cached_prompt_tokens,
            seconds=self.stopwatch.running,
        )
        self.emit(TokenEvent(sequence.sample_index, "", (), progress=progress))

    @property
    def _num_generated(self) -> int:
        return len(self.sequence.token_ids) - self.sequence.num_prompt_tokens

    def _sample(self, row: Rows) -> int:
        allowed, generated = None, self._num_generated
        if self.constraint is not None:
            left, banned = self.max_tokens - generated, self.sampler.banned(generated)
            allowed = self.constraint.allowed(len(row), left, banned)
        return self.sampler.sample(row, self.sequence.token_ids, generated, allowed)

    def _forced(self) -> list[int]:
        """Tokens that the constraint leaves no choice about: computed with the next one drawn."""
        return [] if self.constraint is None else self.constraint.forced()

    def _append(self, token: int, logprob: tuple[TokenLogprob, ...] | None) -> bool:
        """Adds a token and emits its text; True when the answer ends with it."""
        sequence = self.sequence
        sequence.token_ids.append(token)
        if self._drafts and self._drafts.popleft() == token:
            self._accepted += 1
        else:
            self._drafts.clear()
        self.stopwatch.take_token()
        is_end = token in self.tokenizer.eog_ids
        text = "" if is_end else self.detokenizer.push(token)
        loop = None if self.loops is None else self.loops.push(token)
        note = None if loop is None else f"the text repeats {loop} tokens again and again"
        if is_end or self.detokenizer.stopped:
            self._finish("stop", (token,), logprob, text)
        elif note is not None and sequence.params.loop_detection == "stop":
            self._finish("stop", (token,), logprob, text, note)
        elif self._num_generated >= self.max_tokens:
            self._finish("length", (token,), logprob, text, note)
        else:
            if note is not None:
                self.loops = None  # said once
            self.emit(TokenEvent(sequence.sample_index, text, (token,), logprob, note=note))
            return False
        return True

    def _finish(
        self,
        reason: FinishReason,
        token_ids: tuple[int, ...] = (),
        logprob: tuple[TokenLogprob, ...] | None = None,
        text: str = "",
        note: str | None = None,
    ) -> None:
        sequence = self.sequence
        usage = Usage(
            sequence.num_prompt_tokens,
            self._num_generated,
            sequence.num_cached_prompt_tokens,
            drafted_tokens=self._drafted,
            accepted_tokens=self._accepted,
        )
        text += self.detokenizer.flush()
        if logprob is None and sequence.params.logprobs is not None:
            logprob = ()
        if reason == "stop" and self.constraint is not None and self.constraint.is_ending:
            note = f"completed early, to fit in {self.max_tokens} tokens"
        index, stop = sequence.sample_index, self.detokenizer.stopped_by
        timings = self.stopwatch.timings()
        self.emit(TokenEvent(index, text, token_ids, logprob, reason, usage, timings, stop, note))

    def _logprobs(self, row: Rows, token: int) -> tuple[TokenLogprob, ...] | None:
        count = self.sequence.params.logprobs
        if count is None:
            return None
        return (token_logprob(self.tokenizer, row, token, count),)

    def _certain(self, token: int) -> tuple[TokenLogprob, ...] | None:
        """For a token that was not drawn."""
        if self.sequence.params.logprobs is None:
            return None
        piece = self.tokenizer.token_bytes(token)
        return (TokenLogprob(token, piece.decode("utf-8", "replace"), 0.0, (), piece),)


def token_logprob(tokenizer: Vocabulary, row: Rows, token: int, count: int) -> TokenLogprob:
    """A token's log-probability and the `count` best ones, of logits (vocab_size,)."""
    logprob, top = logprobs(row, token, count)
    piece = tokenizer.token_bytes(token)
    tops = tuple(tokenizer.token_bytes(other) for other, _ in top)
    return TokenLogprob(token, piece.decode("utf-8", "replace"), logprob, tuple(top), piece, tops)


@dataclass(eq=False)
class Scoring(OnlyTakes):
    """Hands the logits from `sequence.score_from` on to `take_rows`, in order, then calls done.

    done: gets None at the end, or what went wrong. Both run in the engine's thread.
    """

    request_id: str
    sequence: Sequence
    take_rows: TakeRows
    done: Callable[[Exception | None], None]

    def begin(self) -> None:
        pass

    def take(self, rows: Rows, drafts: Seq[int] = ()) -> bool:
        computed = self.sequence.num_computed_tokens
        self.take_rows(computed - len(rows), rows)
        finished = computed == len(self.sequence.token_ids)
        if finished:
            self.done(None)
        return finished

    def abort(self) -> None:
        self.done(EdgeLLMError("the scoring was aborted: the model was unloaded"))

    def fail(self, error: Exception) -> None:
        self.done(error)

"""Beam search: several texts followed side by side, of which the likeliest are the answers.

Each text is a sequence of its own that runs for one step: it reports its likeliest continuations
and ends, and when all have reported, the best continuations are added as new sequences, whose
beginnings the cache still holds. So beams wait for nobody, however few sequences may run at once.
Runs in the engine's thread. Knows nothing of scheduling, batches or how logits are computed.

A text's score is the mean log-probability of its tokens, under what biases, bans, penalties and the
constraint make of the model's. Samplers that draw or drop have no say, and are refused.
Source: Lowerre 1976; the mean and the end of the search as in Wu et al. 2016 and its successors.
"""

import math
from collections.abc import Callable, Iterator, Sequence as Seq
from dataclasses import dataclass, field, replace

from edgellm.constraints import Constraint
from edgellm.consumer import Consumer, OnlyTakes, Rows
from edgellm.detokenize import Detokenizer
from edgellm.generation import Emit, token_logprob
from edgellm.sampling import Sampler, Vocabulary, logprobs
from edgellm.sampling.candidates import Candidates, best
from edgellm.sequence import Sequence
from edgellm.stopwatch import Stopwatch
from edgellm.types import FinishReason, TokenEvent, TokenLogprob, Usage


@dataclass(frozen=True, eq=False)
class Beam:
    """One text so far. logprob: of all its tokens together, under what was allowed. rank: its
    place among those followed, best first. finish_reason: None while it can go on."""

    detokenizer: Detokenizer
    constraint: Constraint | None
    rank: int = 0
    token_ids: tuple[int, ...] = ()
    logprob: float = 0.0
    entries: tuple[TokenLogprob, ...] = ()
    text: str = ""
    finish_reason: FinishReason | None = None

    @property
    def score(self) -> float:
        return self.logprob / max(1, len(self.token_ids))


@dataclass(frozen=True, eq=False)
class Continuation:
    """A beam and a token that may follow it. logprob: of the whole."""

    beam: Beam
    token_id: int
    logprob: float
    entry: TokenLogprob | None

    @property
    def order(self) -> tuple[float, int, int]:
        return -self.logprob, self.beam.rank, self.token_id


@dataclass(eq=False)
class BeamSearch:
    """The beams of one request, whose parameters are those of `prompt`.

    root: the beam without a token. add: gives the engine another sequence with its consumer.
    max_tokens: the most that an answer may have, the context's end included.
    """

    request_id: str
    prompt: Sequence
    root: Beam
    tokenizer: Vocabulary
    sampler: Sampler
    emit: Emit
    add: Callable[[Consumer], None]
    max_tokens: int
    stopwatch: Stopwatch = field(default_factory=Stopwatch)
    is_over: bool = False
    _running: int = 0
    _continuations: list[Continuation] = field(default_factory=list)
    _finished: list[Beam] = field(default_factory=list)

    def start(self) -> "BeamStep":
        """The first step, for the caller to add."""
        self._running = 1
        return BeamStep(self.request_id, self.prompt, self, self.root)

    def report(self, beam: Beam, row: Rows) -> None:
        """Takes the logits (vocab_size,) that follow a beam; after the last one all go on."""
        self.stopwatch.take_token()
        self._running -= 1
        if self.max_tokens == 0:  # the prompt alone was wanted in the cache
            self._finished.append(replace(beam, finish_reason="length"))
        else:
            self._continuations += self._ways_on(beam, row)
        if self._running == 0:
            self._advance()

    def end(self, error: Exception | None = None) -> None:
        """Ends the request before its time: aborted, or with an error."""
        if self.is_over:
            return
        self.is_over = True
        if error is not None:
            self.emit(error)
        else:
            self._emit_all([replace(self.root, finish_reason="abort")])

    def _ways_on(self, beam: Beam, row: Rows) -> Iterator[Continuation]:
        """The likeliest continuations: enough of them even when half end the text."""
        count, allowed = len(beam.token_ids), None
        if beam.constraint is not None:
            left, banned = self.max_tokens - count, self.sampler.banned(count)
            allowed = beam.constraint.allowed(len(row), left, banned)
        history = [*self.prompt.token_ids, *beam.token_ids]
        logits = self.sampler.penalised(row, history, count, allowed)
        top = best(Candidates(logits), 2 * self.prompt.params.beam_width)
        first = top.token(0)
        norm = float(logits[first]) - logprobs(logits, first, 0)[0]
        for place, logit in enumerate(top.logits.tolist()):
            if logit > -math.inf:
                token = top.token(place)
                entry = self._entry(row, token)
                yield Continuation(beam, token, beam.logprob + logit - norm, entry)

    def _entry(self, row: Rows, token: int) -> TokenLogprob | None:
        count = self.prompt.params.logprobs
        return None if count is None else token_logprob(self.tokenizer, row, token, count)

    def _advance(self) -> None:
        width = self.prompt.params.beam_width
        ranked = sorted(self._continuations, key=lambda way: way.order)
        self._continuations = []
        going: list[Beam] = []
        for place, way in enumerate(ranked):
            beam = self._extended(way, len(going))
            if beam.finish_reason is None:
                going.append(beam)
            elif place < width:
                self._finished.append(beam)
            if len(going) == width:
                break
        self._finished = sorted(self._finished, key=lambda beam: -beam.score)[:width]
        if not going or self._is_settled(going[0]):
            self.is_over = True
            self._emit_all(self._finished)
            return
        self._running = len(going)
        for beam in going:
            sequence = self.prompt.sibling([*self.prompt.token_ids, *beam.token_ids])
            self.add(BeamStep(self.request_id, sequence, self, beam))

    def _is_settled(self, leader: Beam) -> bool:
        """Whether no beam is better now than the worst of enough finished texts."""
        enough = len(self._finished) >= self.prompt.params.beam_width
        return enough and leader.score <= self._finished[-1].score

    def _extended(self, way: Continuation, rank: int) -> Beam:
        beam, token = way.beam, way.token_id
        detokenizer = beam.detokenizer.fork()
        constraint = None if beam.constraint is None else beam.constraint.fork()
        is_end, text = token in self.tokenizer.eog_ids, ""
        if not is_end:
            text = detokenizer.push(token)
            if constraint is not None:
                constraint.accept(token)
                is_end = constraint.is_complete
        reason: FinishReason | None = None
        if is_end or detokenizer.stopped:
            reason = "stop"
        elif len(beam.token_ids) + 1 >= self.max_tokens:
            reason = "length"
        entries = beam.entries if way.entry is None else (*beam.entries, way.entry)
        ids = (*beam.token_ids, token)
        return Beam(
            detokenizer, constraint, rank, ids, way.logprob, entries, beam.text + text, reason
        )

    def _emit_all(self, beams: list[Beam]) -> None:
        """The n answers, best first; where there are fewer texts, some of them again."""
        timings, prompt = self.stopwatch.timings(), self.prompt
        for index in range(prompt.params.n):
            beam = beams[index % len(beams)]
            usage = Usage(
                prompt.num_prompt_tokens, len(beam.token_ids), prompt.num_cached_prompt_tokens
            )
            self.emit(
                TokenEvent(
                    index=index,
                    text=beam.text + beam.detokenizer.fork().flush(),
                    token_ids=beam.token_ids,
                    logprobs=None if prompt.params.logprobs is None else beam.entries,
                    finish_reason=beam.finish_reason,
                    usage=usage,
                    timings=timings,
                    stop=beam.detokenizer.stopped_by,
                )
            )


@dataclass(eq=False)
class BeamStep(OnlyTakes):
    """The consumer of one beam's sequence, for one step."""

    request_id: str
    sequence: Sequence
    search: BeamSearch
    beam: Beam

    def begin(self) -> None:
        self.search.stopwatch.begin()

    def take(self, rows: Rows, drafts: Seq[int] = ()) -> bool:
        if not self.search.is_over:
            self.search.report(self.beam, rows[-1])
        return True

    def abort(self) -> None:
        self.search.end()

    def fail(self, error: Exception) -> None:
        self.search.end(error)

"""One generation in flight, and the share of it that one step computes. Data only."""

from dataclasses import dataclass, field
from typing import Literal

from edgellm.types import SamplingParams

LogitsRows = Literal["none", "last", "all"]


@dataclass(eq=False)
class Sequence:
    """Tokens so far and where their keys and values lie.

    token_ids: prompt, then answer. num_computed_tokens: how many of them are in the cache.
    block_tables: per KV group, the blocks in position order, of which the first left_behind[group]
    are not held (any more): a sliding window never reads them again. state_slot: where states of
    recurrences are kept while the sequence runs; None: it does not run. adapter_scales: how much it
    takes of the model's adapters, in their order; those that are missing count as 0.
    adapter_starts: from which position on it takes them, likewise. score_from: every position from
    here on has its logits reported, and nothing is generated; None: the last position's, to go on
    from. wants_hidden: instead of logits, the last layer's rows are reported.
    num_best: so many of a row's largest logits matter, of equals those of lower ids; None: all may.
    seed: of its draws, with sample_index.
    num_draft_tokens: so many tokens at the end of token_ids are guesses; they are computed in one
    chunk with the token before them, all logits reported, and may be rolled back.
    parting: how many first tokens others had too, where no recurrent state is kept yet: it will be.
    num_cached_tokens: tokens found in the cache when the sequence was first let in; None before.
    keeps_prompt: when it ends the cache keeps its prompt, unused or not, as long as newer ones let
    it. is_background: others go first. turn: the place in the order in which sequences are served;
    of equals the lower seq_id, which the engine gives, goes first.
    """

    token_ids: list[int]
    num_prompt_tokens: int
    params: SamplingParams
    sample_index: int = 0
    seed: int = 0
    score_from: int | None = None
    wants_hidden: bool = False
    num_best: int | None = None
    num_draft_tokens: int = 0
    keeps_prompt: bool = False
    is_background: bool = False
    turn: int = 0
    seq_id: int = 0
    num_computed_tokens: int = 0
    num_cached_tokens: int | None = None
    block_tables: list[list[int]] = field(default_factory=list)
    left_behind: list[int] = field(default_factory=list)
    state_slot: int | None = None
    parting: int | None = None
    adapter_scales: tuple[float, ...] = ()
    adapter_starts: tuple[int, ...] = ()

    def sibling(self, token_ids: list[int], sample_index: int = 0) -> "Sequence":
        """A new sequence of the same request, which runs nowhere yet."""
        return Sequence(
            token_ids=token_ids,
            num_prompt_tokens=self.num_prompt_tokens,
            params=self.params,
            sample_index=sample_index,
            seed=self.seed,
            keeps_prompt=self.keeps_prompt,
            is_background=self.is_background,
            adapter_scales=self.adapter_scales,
            adapter_starts=self.adapter_starts,
        )

    def withdraw_drafts(self) -> list[int]:
        """Takes the guesses off the end of token_ids; num_draft_tokens still counts them."""
        end = len(self.token_ids) - self.num_draft_tokens
        drafts = self.token_ids[end:]
        del self.token_ids[end:]
        return drafts

    @property
    def num_remaining_tokens(self) -> int:
        """Tokens that are not computed yet."""
        return len(self.token_ids) - self.num_computed_tokens

    @property
    def num_cached_prompt_tokens(self) -> int:
        """Tokens of the prompt that were found in the cache."""
        return min(self.num_cached_tokens or 0, self.num_prompt_tokens)

    @property
    def reusable(self) -> int:
        """Tokens that need not be computed when the cache has them: others report logits."""
        limit = len(self.token_ids) - 1 - self.num_draft_tokens
        return limit if self.score_from is None else min(limit, self.score_from)

    @property
    def checkpoints(self) -> list[int]:
        """After how many tokens a recurrent state is kept, for prompts that begin like this one.

        Before the last token of the prompt, as the prompt may come again.
        """
        ends = [self.num_prompt_tokens - 1]
        return ends if self.parting is None else [self.parting, *ends]

    @property
    def is_decode(self) -> bool:
        """Whether the next step computes one token, and the guesses after it."""
        return self.num_remaining_tokens == 1 + self.num_draft_tokens


@dataclass(frozen=True)
class Chunk:
    """Rows that a step computes: `count` tokens of `sequence` from its num_computed_tokens on.

    is_decode: they are all that the sequence has left.
    """

    sequence: Sequence
    count: int
    logits: LogitsRows
    is_decode: bool = False

    @property
    def num_rows(self) -> int:
        """Rows of logits, those of the last tokens."""
        if self.logits == "last":
            return 1
        return self.count if self.logits == "all" else 0


@dataclass(frozen=True)
class BlockCopy:
    """What block `source` of a KV group stores is wanted in `target` before the next step.

    group: None for slots of recurrent states.
    """

    group: int | None
    source: int
    target: int

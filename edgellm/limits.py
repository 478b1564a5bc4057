"""What one step and one sequence may use. Data, and the arithmetic of blocks and windows."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Bounds of a loaded model's steps.

    context_length: tokens of a sequence. max_num_seqs: sequences in flight. block_size: tokens
    per block. token_budget: rows per step. max_logits_rows: rows of logits that scoring may ask
    of one step. windows: per KV group the keys a query sees, itself included; None is all.
    is_causal: False where tokens see those after them, so that a sequence is computed in one step
    and stores nothing that another could begin with.
    """

    context_length: int
    max_num_seqs: int
    block_size: int
    token_budget: int
    max_logits_rows: int
    windows: tuple[int | None, ...]
    is_causal: bool = True

    def __post_init__(self) -> None:
        if self.token_budget <= self.max_num_seqs:
            raise ValueError("a step's token budget must leave room beside one token per sequence")
        if not self.is_causal and self.token_budget < self.context_length:
            raise ValueError("a step's token budget must hold a whole sequence")

    def blocks_of(self, num_tokens: int) -> int:
        """Blocks that so many tokens from a sequence's start on fill or begin."""
        return -(-num_tokens // self.block_size)

    def blocks(self, group: int, num_tokens: int) -> int:
        """The most blocks that a sequence of `num_tokens` holds at once in this group."""
        window = self.windows[group]
        # A window and a chunk need not begin at a block's start: hence one block more for each.
        whole = self.blocks_of(num_tokens)
        if window is None:
            return whole
        return min(whole, self.blocks_of(window + self.token_budget) + 1)

    def left_behind(self, group: int, num_computed_tokens: int) -> int:
        """How many leading blocks no query from this position on can see."""
        window = self.windows[group]
        if window is None:
            return 0
        return max(0, num_computed_tokens - window + 1) // self.block_size

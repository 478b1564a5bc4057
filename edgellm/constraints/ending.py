"""The way to the end of a JSON value that has no room to grow any more. Knows nothing of budgets.

What closes comes first: the end, then brackets, then an empty value, a quote, a comma; inside a
text the quote, then what parts a date, a time or an address. Where none of these may come, anything
may. It need not be the shortest way, and it is not always one: a number closes after its first
digit, a text as soon as it is long enough, an array when it has enough, but a pattern may go on for
ever.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from edgellm.constraints.words import Allowed, Ids, Words

if TYPE_CHECKING:
    from llguidance import LLMatcher


@dataclass(frozen=True)
class Place:
    """Where in JSON a text stands. is_escaped: behind a backslash."""

    in_text: bool = False
    is_escaped: bool = False

    def after(self, pieces: Iterable[bytes]) -> "Place":
        """The place behind more of the text."""
        in_text, is_escaped = self.in_text, self.is_escaped
        for byte in b"".join(pieces):
            if is_escaped:
                is_escaped = False
            elif byte == ord("\\"):
                is_escaped = in_text
            elif byte == ord('"'):
                in_text = not in_text
        return Place(in_text, is_escaped)


def closing(allowed: Allowed, words: Words, place: Place) -> Ids:
    """Of the tokens that may come next (vocab_size,), those that lead to the end."""
    for tier in words.inside_text if place.in_text else words.outside_text:
        chosen = tier[allowed[tier]]
        if len(chosen):
            return chosen
    return np.flatnonzero(allowed)


def tokens_to_end(matcher: "LLMatcher", words: Words, place: Place, most: int) -> int | None:
    """How many tokens that way has from here; None when they are more than `most`."""
    ahead, count = matcher.deep_copy(), 0
    while not ahead.is_stopped():
        tokens = ahead.compute_ff_tokens()
        if not tokens:
            tokens = closing(words.unpacked(ahead.compute_bitmask()), words, place)[:1].tolist()
        if not tokens or tokens[0] in words.eog_ids or not ahead.consume_tokens(tokens):
            break
        place = place.after(map(words.piece, tokens))
        count += len(tokens)
        if count >= most:
            return None
    return count + 1

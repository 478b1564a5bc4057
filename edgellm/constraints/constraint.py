"""What one answer may go on with. Knows nothing of logits' origin or of sampling."""

import re
from collections.abc import Sequence as Seq
from copy import copy
from typing import TYPE_CHECKING

import numpy as np

from edgellm.constraints.ending import Place, closing, tokens_to_end
from edgellm.constraints.words import Allowed, Words
from edgellm.errors import RequestError

if TYPE_CHECKING:
    from llguidance import LLMatcher

_MAX_MESSAGE = 400
_HORIZON = 256  # with more tokens left than this no end is looked for
_UNKNOWN = 48  # tokens kept for an end that was not found
_CHECK_EVERY = 8  # tokens after which the way to the end is measured again
_MARGIN = 8
_FORCED = re.compile("doesn't satisfy the grammar; forced bytes: got (.+?); applying")


class Constraint:
    """Follows one answer, token by token.

    is_ending: the answer is led to its end, because its room is running out.
    """

    def __init__(self, matcher: "LLMatcher", words: Words, field: str) -> None:
        self._matcher = matcher
        self._words = words
        self._field = field
        self._unchecked = _CHECK_EVERY  # tokens since the way to the end was measured
        self._to_end = 0
        self._place = Place()  # of JSON
        self.is_ending = False

    @property
    def is_complete(self) -> bool:
        """Nothing more may come: the answer is over."""
        return self._matcher.is_stopped()

    def fork(self) -> "Constraint":
        """The same, at the same point, for another answer."""
        other = copy(self)
        other._matcher = self._matcher.deep_copy()
        return other

    def allowed(self, size: int, left: int | None = None, banned: Seq[int] = ()) -> Allowed:
        """Which of `size` tokens may come next. RequestError when none may.

        left: how many the answer may still have. JSON that would just fit is led to its end, so
        that it is valid, by other tokens than those banned.
        """
        known = self._words.unpacked(self._matcher.compute_bitmask())
        self._check()
        if not known.any():
            raise RequestError(f"{self._field} allows nothing to come next", self._field)
        if left is not None and self._field == "json_schema" and self._must_end(left):
            known[[token for token in banned if token < len(known)]] = False
            ending = closing(known, self._words, self._place)
            known = np.zeros_like(known)
            known[ending] = True
        allowed = np.zeros(size, np.bool_)
        allowed[: len(known)] = known[:size]
        return allowed

    def _must_end(self, left: int) -> bool:
        self._unchecked += 1
        is_near = left <= self._to_end + _MARGIN + _CHECK_EVERY
        if not self.is_ending and left <= _HORIZON and (is_near or self._unchecked > _CHECK_EVERY):
            self._unchecked = 0
            found = tokens_to_end(self._matcher, self._words, self._place, _HORIZON)
            self._to_end = _UNKNOWN if found is None else found
            self.is_ending = left <= self._to_end + _MARGIN
        return self.is_ending

    def accept(self, token_id: int) -> None:
        """Goes on by a token that was allowed."""
        self._matcher.consume_token(token_id)
        self._check()
        self._place = self._place.after([self._words.piece(token_id)])

    def forced(self) -> list[int]:
        """Tokens that must come next, whatever the model would say; accepted already."""
        if self.is_complete:
            return []
        tokens = self._matcher.compute_ff_tokens()
        for token_id in tokens:
            self.accept(token_id)
        return tokens

    def _check(self) -> None:
        if self._matcher.is_error():
            raise refused(self._field, self._matcher.get_error())


def refused(field: str, why: str) -> RequestError:
    """llguidance's message quotes the whole grammar: its ends are enough."""
    why = " ".join(re.split("<state>|<backtrace>", why)[0].split())
    if why.startswith("NoExtension"):
        return RequestError(f"{field} matches no text that this model has tokens for", field)
    if found := _FORCED.search(why):
        return RequestError(
            f"{field} must go on with {found[1]}, which this model has no token for", field
        )
    if len(why) > _MAX_MESSAGE:
        why = f"{why[: _MAX_MESSAGE // 2]} ... {why[-_MAX_MESSAGE // 2 :]}"
    return RequestError(f"{field} cannot be used: {why}", field)

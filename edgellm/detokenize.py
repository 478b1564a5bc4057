"""Token ids to text as they come: no half characters, no stop strings. Knows no vocabulary."""

from codecs import getincrementaldecoder
from copy import copy
from typing import Protocol

from edgellm.errors import RequestError

_Utf8 = getincrementaldecoder("utf-8")


class Tokens(Protocol):
    """What is asked of a tokenizer.

    space_prefix: the space that a text's first token may begin with is not the text's own.
    """

    @property
    def space_prefix(self) -> bool: ...
    def token_bytes(self, token_id: int, /) -> bytes: ...
    def is_control(self, token_id: int, /) -> bool: ...


class Detokenizer:
    """The text of one sequence of ids, piece by piece.

    All that `push` and `flush` return, joined, is the tokenizer's `decode` of the ids, cut before
    the stop string that is complete first (of two that end together, the longer). Text that may be
    the beginning of a stop string is held back until it is known; so is the start of a character.
    `stopped` is True once a stop string was met, `stopped_by`: nothing after it is ever returned.
    """

    def __init__(
        self,
        tokenizer: Tokens,
        stop: tuple[str, ...] = (),
        skip_special: bool = True,
        continues: bool = False,
        shown: tuple[int, ...] = (),
    ) -> None:
        """skip_special: leave out control tokens, except those `shown`. continues: the ids go on
        from earlier ones, so the first one's space is text (vocabularies with `space_prefix` drop
        it otherwise). RequestError when a stop string is empty."""
        if "" in stop:
            raise RequestError("a stop string is empty: give at least one character", field="stop")
        self._tokenizer = tokenizer
        self._stop = stop
        self._skip_special = skip_special
        self._shown = frozenset(shown)
        self._drop_space = not continues and tokenizer.space_prefix
        self._decoder = _Utf8("replace")
        self._held = ""
        self.stopped_by: str | None = None

    @property
    def stopped(self) -> bool:
        return self.stopped_by is not None

    def fork(self) -> "Detokenizer":
        """Another one at the same point."""
        other = copy(self)
        other._decoder = _Utf8("replace")
        other._decoder.setstate(self._decoder.getstate())
        return other

    def push(self, token_id: int) -> str:
        """The text that this id makes certain, often all of its own. "" after a stop string."""
        if self.stopped:
            return ""
        piece = self._tokenizer.token_bytes(token_id)
        if self._skip_special and self._is_left_out(token_id):
            piece = b""
        if self._drop_space:
            piece = piece.removeprefix(b" ")
            self._drop_space = False
        return self._take(self._decoder.decode(piece))

    def flush(self) -> str:
        """What was held back, when no id follows; an unfinished character becomes U+FFFD."""
        if self.stopped:
            return ""
        text = self._take(self._decoder.decode(b"", final=True)) + self._held
        self._held = ""
        return text

    def _is_left_out(self, token_id: int) -> bool:
        return self._tokenizer.is_control(token_id) and token_id not in self._shown

    def _take(self, new: str) -> str:
        """Add text; what of all that is held can be given out."""
        text = self._held + new
        met = _first_stop(text, self._stop)
        if met is not None:
            at, self.stopped_by = met
            self._held = ""
            return text[:at]
        end = _possible_stop(text, self._stop)
        self._held = text[end:]
        return text[:end]


def _first_stop(text: str, stop: tuple[str, ...]) -> tuple[int, str] | None:
    """The stop string that is complete first and where it begins, None when there is none."""
    found = [(at + len(s), at, s) for s in stop if (at := text.find(s)) >= 0]
    return min(found)[1:] if found else None


def _possible_stop(text: str, stop: tuple[str, ...]) -> int:
    """Where the longest end of the text begins that begins a stop string; else its length."""
    longest = 0
    for s in stop:
        start = max(0, len(text) - len(s) + 1)
        while (at := text.find(s[0], start)) >= 0:
            if s.startswith(text[at:]):
                longest = max(longest, len(text) - at)
                break
            start = at + 1
    return len(text) - longest

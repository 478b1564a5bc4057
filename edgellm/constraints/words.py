"""A model's vocabulary as llguidance wants it, made once per model."""

import re
from functools import cached_property

import numpy as np
import numpy.typing as npt

from edgellm.errors import RequestError
from edgellm.linux import give_back_freed_memory
from edgellm.tokenizer import Tokenizer

Allowed = npt.NDArray[np.bool_]  # (vocab_size,)
Ids = npt.NDArray[np.intp]  # of tokens

# Brackets that close, an empty value, a quote, what parts values, the shortest way into one.
_OUTSIDE_TEXT = (rb"[}\]]+", rb"\[\]|\{\}", rb'"', rb"[,:] ?", rb"[\[{]")
# The quote, then what addresses, times, dates, versions and durations need.
_INSIDE_TEXT = (rb'"[}\]]*', b"@", b"[Zz]", rb"[.:/-]", rb"[!#-&(-,;-?\[\]-`{-~]", b"[A-Za-z]")


class Words:
    """Takes as long as going through all tokens, during much of which llguidance lets no other
    thread run. vocab_size: that of the tokenizer. piece: the bytes of a token. RequestError for a
    vocabulary without an end of generation.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        from llguidance import LLTokenizer

        if not tokenizer.eog_ids:
            raise RequestError(
                "this model has no token that ends an answer: no form can be asked for"
            )
        self.vocab_size = tokenizer.vocab_size
        self.eog_ids = tokenizer.eog_ids
        wrapper = _Wrapper(tokenizer)
        self.piece = tokenizer.token_bytes
        self.inner: LLTokenizer = LLTokenizer(
            wrapper,  # type: ignore[arg-type]
            n_vocab=tokenizer.vocab_size,
            eos_token=sorted(tokenizer.eog_ids),
        )
        wrapper.tokens.clear()  # llguidance has its own, and keeps the wrapper
        give_back_freed_memory()

    @cached_property
    def outside_text(self) -> tuple[Ids, ...]:
        """Tokens that close JSON between its texts, those first that close most."""
        return (np.array(sorted(self.eog_ids), np.intp), *self._kinds(_OUTSIDE_TEXT))

    @cached_property
    def inside_text(self) -> tuple[Ids, ...]:
        """Tokens that close a text, then those that bring a form such as a date on."""
        return self._kinds(_INSIDE_TEXT)

    def _kinds(self, patterns: tuple[bytes, ...]) -> tuple[Ids, ...]:
        """Per pattern the tokens, ascending, that are wholly of this form, and of none before it.

        Ids, as these are few of very many.
        """
        match = re.compile(b"|".join(b"(%s)" % pattern for pattern in patterns)).fullmatch
        pieces = map(self.piece, range(self.vocab_size))
        found = ((form.lastindex if (form := match(p)) else None) or 0 for p in pieces)
        kinds = np.fromiter(found, np.int8, self.vocab_size)
        kinds[list(self.eog_ids)] = 0
        return tuple(np.flatnonzero(kinds == number) for number in range(1, len(patterns) + 1))

    def unpacked(self, bits: bytes) -> Allowed:
        """A mask of llguidance as one entry per token."""
        flags = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little")
        return flags[: self.vocab_size].view(np.bool_)


class _Wrapper:
    """The attributes that llguidance reads."""

    is_tokenizer_wrapper = True

    def __init__(self, tokenizer: Tokenizer) -> None:
        ids = range(tokenizer.vocab_size)
        self._tokenizer = tokenizer
        self.eos_token_id = min(tokenizer.eog_ids)
        self.bos_token_id = tokenizer.bos_id
        self.special_token_ids = [i for i in ids if tokenizer.is_control(i)]
        self.tokens = [tokenizer.token_bytes(i) for i in ids]

    def __call__(self, text: str | bytes) -> list[int]:
        plain = text.decode() if isinstance(text, bytes) else text
        return self._tokenizer.encode(plain, add_special=False, parse_special=False, continues=True)

"""A model's vocabulary as llguidance wants it, made once per model."""

from typing import TYPE_CHECKING

from edgellm.tokenizer import Tokenizer

if TYPE_CHECKING:
    pass


class Words:
    """Takes as long as going through all tokens. vocab_size: that of the tokenizer.

    can_force: whether text in the middle of an answer is tokenised as it would be alone, so that
    tokens can be said for certain.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        from llguidance import LLTokenizer

        self.vocab_size = tokenizer.vocab_size
        self.eog_ids = tokenizer.eog_ids
        self.can_force = not tokenizer.space_prefix
        self.inner: LLTokenizer = LLTokenizer(
            _Wrapper(tokenizer),  # type: ignore[arg-type]
            n_vocab=tokenizer.vocab_size,
            eos_token=sorted(tokenizer.eog_ids),
        )


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
        return self._tokenizer.encode(plain, add_special=False, parse_special=False)

"""Models without a vocabulary: they take and give ids. Knows only how many there are."""

from typing import NoReturn

from edgellm.errors import RequestError
from edgellm.gguf_loader import GGUFFile, StringArray
from edgellm.tokenizer.model import TextModel
from edgellm.tokenizer.special import Defaults
from edgellm.tokenizer.string_index import StringIndex
from edgellm.tokenizer.vocab import TOKENS, TokenType, Vocab


def build_none(file: GGUFFile) -> tuple[Vocab, TextModel]:
    """As many nameless tokens as `{architecture}.vocab_size` says, else as the file lists."""
    size = file.integer(f"{file.string('general.architecture')}.vocab_size")
    if size is None:
        size = len(file.strings(TOKENS) or ())
    nameless, names = StringArray.of([b""] * size), StringArray.of(())
    vocab = Vocab(nameless, StringIndex(names), bytes([TokenType.UNUSED]) * size)
    return vocab, TextModel(_refuse, lambda token: b"", Defaults())


def _refuse(text: str, after_special: bool) -> NoReturn:
    raise RequestError(
        "this model has no vocabulary, so text cannot be tokenised: send token ids", field="prompt"
    )

"""WordPiece: words of normalised text, each as the longest tokens it begins with, over and over.

Sources: llama.cpp b11434 (`tokenizer.ggml.model` bert); Devlin et al. 2018 and its tokenizer for
normalisation, the length of a word, and what is punctuation.
"""

import unicodedata
from collections.abc import Mapping

from edgellm.gguf_loader import GGUFFile
from edgellm.tokenizer.model import TextModel
from edgellm.tokenizer.special import Defaults
from edgellm.tokenizer.vocab import SPACE, TokenType, Vocab, flag, plain_bytes, read_vocab
from edgellm.tokenizer.words import WordEncoder

_LONGEST_WORD = 100  # characters; a longer one is unknown
_CLS, _SEP, _UNKNOWN = 101, 102, 100  # of the first vocabularies
_INSIDE = "##"  # what tokens inside a word begin with in files of before SPACE stood at its start

# Ideographs are words by themselves. Hangul and Kana are not.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


def build_wpm(file: GGUFFile) -> tuple[Vocab, TextModel]:
    """GGUFError when the vocabulary is missing or damaged."""
    vocab = read_vocab(file)
    first, inside = _pieces(vocab)
    longest = max(map(len, (*first, *inside)), default=0)
    unknown = file.integer("tokenizer.ggml.unknown_token_id")
    unknown = _UNKNOWN if unknown is None else unknown
    lowercase = flag(file, "normalizer.lowercase", True)
    characters = _Characters(lowercase, flag(file, "normalizer.strip_accents", lowercase))

    def encode_word(word: str) -> list[int]:
        found: list[int] = []
        start = 0
        while start < len(word) <= _LONGEST_WORD:
            pieces = inside if start else first
            for end in range(min(len(word), start + longest), start, -1):
                token = pieces.get(word[start:end])
                if token is not None:
                    break
            else:
                return [unknown]
            found.append(token)
            start = end
        return found or [unknown]

    words = WordEncoder(str.split, encode_word)

    def encode(text: str, after_special: bool) -> list[int]:
        return words.encode(text.translate(characters))

    cls = file.integer("tokenizer.ggml.cls_token_id")
    defaults = Defaults(bos=_CLS if cls is None else cls, unk=_UNKNOWN, sep=_SEP)
    return vocab, TextModel(
        encode,
        plain_bytes,
        defaults,
        space_prefix=True,
        add_bos=True,
        add_sep=True,
        sep_ends=True,
        tells_second=True,
    )


class _Characters(dict[int, str]):
    """What becomes of each character, for str.translate; reckoned when it is first met."""

    def __init__(self, lowercase: bool, strip_accents: bool) -> None:
        self._lowercase, self._strip_accents = lowercase, strip_accents

    def __missing__(self, code: int) -> str:
        self[code] = result = self._normalised(chr(code))
        return result

    def _normalised(self, character: str) -> str:
        category = unicodedata.category(character)
        if character in "\t\n\r" or category[0] == "Z":
            return " "
        if category[0] == "C" or character == "\ufffd":
            return ""
        if self._strip_accents:
            decomposed = unicodedata.normalize("NFD", character)
            character = "".join(c for c in decomposed if unicodedata.category(c) != "Mn")
        if self._lowercase:
            character = character.lower()
        return "".join(f" {c} " if _stands_alone(c) else c for c in character)


def _stands_alone(character: str) -> bool:
    code = ord(character)
    if 0x20 < code < 0x7F:
        return not character.isalnum()
    if unicodedata.category(character)[0] == "P":
        return True
    return any(low <= code <= high for low, high in _IDEOGRAPHS)


def _pieces(vocab: Vocab) -> tuple[Mapping[str, int], Mapping[str, int]]:
    """The tokens that words begin with, and those inside words, without their marks."""
    first: dict[str, int] = {}
    inside: dict[str, int] = {}
    marks_first = any(text.startswith(SPACE) for text in vocab.tokens)
    for token, (text, kind) in enumerate(zip(vocab.tokens, vocab.types, strict=True)):
        if kind == TokenType.CONTROL:
            continue
        if marks_first and text.startswith(SPACE):
            first[text.removeprefix(SPACE)] = token
        elif not marks_first and not text.startswith(_INSIDE):
            first[text] = token
        else:
            inside[text if marks_first else text.removeprefix(_INSIDE)] = token
    return first, inside

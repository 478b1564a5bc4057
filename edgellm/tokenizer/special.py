"""Which tokens mean something: BOS, end of generation, fill-in-the-middle. Knows no algorithm.

Ids come from the file's keys, else from the tokens' texts, as in llama.cpp b11434. The lists of
texts are in order of preference (llama.cpp takes any one of them).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edgellm.gguf_loader import GGUFFile
from edgellm.tokenizer.vocab import TokenType, Vocab

_EOT = (
    "<|eot_id|>",
    "<|im_end|>",
    "<|end|>",
    "<end_of_turn>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "<｜end▁of▁sentence｜>",
    "<end_of_utterance>",
)
_EOM = ("<|eom_id|>",)
_FIM_PREFIX = (
    "<|fim_prefix|>",
    "<fim-prefix>",
    "<fim_prefix>",
    "<｜fim▁begin｜>",
    "<PRE>",
    "▁<PRE>",
    "<|code_prefix|>",
    "<|prefix|>",
)
_FIM_SUFFIX = (
    "<|fim_suffix|>",
    "<fim-suffix>",
    "<fim_suffix>",
    "<｜fim▁hole｜>",
    "<SUF>",
    "▁<SUF>",
    "<|code_suffix|>",
    "<|suffix|>",
)
_FIM_MIDDLE = (
    "<|fim_middle|>",
    "<fim-middle>",
    "<fim_middle>",
    "<｜fim▁end｜>",
    "<MID>",
    "▁<MID>",
    "<|code_middle|>",
    "<|middle|>",
)
_FIM_PAD = ("<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]")
_FIM_REPOSITORY = ("<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>")
_FIM_FILE_SEPARATOR = ("<|file_sep|>",)

_EOG = (
    *_EOT,
    *_EOM,
    "<|return|>",
    "<|call|>",
    "<|flush|>",
    "<|calls|>",
    "</s>",
    "[EOS]",
    "<eos>",
    "<turn|>",
    "<|tool_response>",
    "[e~[",
)

# Harmony's markup: dialects read it, so it is text like any other.
_ALWAYS_TEXT = ("<|channel|>", "<|message|>", "<|start|>", "<|constrain|>")


@dataclass(frozen=True)
class FimTokens:
    """Fill-in-the-middle: what comes before, after and in between, padding, repository context."""

    prefix: int | None = None
    suffix: int | None = None
    middle: int | None = None
    pad: int | None = None
    repository: int | None = None
    file_separator: int | None = None


@dataclass(frozen=True)
class SpecialTokens:
    """Ids, None where the model has no such token. eog: all that end a generation.

    types: the vocabulary's types, corrected. notes: what was odd about the file.
    """

    bos: int | None
    eos: int | None
    eot: int | None
    unk: int | None
    sep: int | None
    pad: int | None
    fim: FimTokens
    eog: frozenset[int]
    types: bytes
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Defaults:
    """Ids that hold where the file names none, if the vocabulary is that large."""

    bos: int | None = None
    eos: int | None = None
    unk: int | None = None
    sep: int | None = None


def find_special(file: GGUFFile, vocab: Vocab, defaults: Defaults) -> SpecialTokens:
    """The special tokens of a file. GGUFError when a key holds something else than an integer."""
    finder = _Finder(file, vocab)
    bos = finder.by_key(("bos_token_id",), defaults.bos)
    eos = finder.by_key(("eos_token_id",), defaults.eos)
    unk = finder.by_key(("unknown_token_id",), defaults.unk)
    sep = finder.by_key(("seperator_token_id",), defaults.sep)  # spelled so in GGUF
    pad = finder.by_key(("padding_token_id",))
    eot = finder.by_key_or_text(("eot_token_id",), _EOT)
    eom = finder.by_key_or_text(("eom_token_id",), _EOM)
    fim = FimTokens(
        finder.by_key_or_text(("fim_pre_token_id", "prefix_token_id"), _FIM_PREFIX),
        finder.by_key_or_text(("fim_suf_token_id", "suffix_token_id"), _FIM_SUFFIX),
        finder.by_key_or_text(("fim_mid_token_id", "middle_token_id"), _FIM_MIDDLE),
        finder.by_key_or_text(("fim_pad_token_id",), _FIM_PAD),
        finder.by_key_or_text(("fim_rep_token_id",), _FIM_REPOSITORY),
        finder.by_key_or_text(("fim_sep_token_id",), _FIM_FILE_SEPARATOR),
    )
    ends = (fim.pad, fim.repository, fim.file_separator, eos, eot, eom)
    eog = finder.end_of_generation([i for i in ends if i is not None])
    return SpecialTokens(
        bos, eos, eot, unk, sep, pad, fim, eog, bytes(finder.types), tuple(finder.notes)
    )


class _Finder:
    def __init__(self, file: GGUFFile, vocab: Vocab) -> None:
        self.file = file
        self.find = vocab.index.find
        self.types = bytearray(vocab.types)
        self.notes: list[str] = []

    def by_key(self, names: Sequence[str], default: int | None = None) -> int | None:
        """The id at the last of the keys that holds one; an id that is no token does not count."""
        size = len(self.types)
        found = default if default is not None and default < size else None
        for name in names:
            key = f"tokenizer.ggml.{name}"
            value = self.file.integer(key)
            if value is None:
                continue
            if 0 <= value < size:
                found = value
            else:
                self.notes.append(
                    f"{key} is {value} and the vocabulary has {size} tokens: it is ignored"
                )
        return found

    def by_key_or_text(self, names: Sequence[str], texts: Sequence[str]) -> int | None:
        found = self.by_key(names)
        if found is None:
            found = next((i for text in texts if (i := self.find(text)) is not None), None)
            if found is not None:
                self.types[found] = TokenType.CONTROL
        return found

    def end_of_generation(self, named: Sequence[int]) -> frozenset[int]:
        by_text = {text: i for text in _EOG if (i := self.find(text)) is not None}
        for i in by_text.values():
            self.types[i] = TokenType.CONTROL
        for text in _ALWAYS_TEXT:
            if (i := self.find(text)) is not None:
                self.types[i] = TokenType.USER_DEFINED
        eog = {*by_text.values(), *named}
        # In the Harmony and Solar formats <|end|> closes one message of several.
        ends_calls, ends_turns = {"<|call|>", "<|calls|>"}, {"<|return|>", "<|flush|>"}
        if "<|end|>" in by_text and by_text.keys() & ends_calls and by_text.keys() & ends_turns:
            eog.remove(by_text["<|end|>"])
            self.types[by_text["<|end|>"]] = TokenType.USER_DEFINED
        # Gemma 4 and PLaMo have an ordinary token of this text.
        ordinary = "<|tool_response>" in by_text or self.find("<|plamo:eos|>") in eog
        if "</s>" in by_text and ordinary:
            eog.remove(by_text["</s>"])
            self.types[by_text["</s>"]] = TokenType.NORMAL
        return frozenset(eog)

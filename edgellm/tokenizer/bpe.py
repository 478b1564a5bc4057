"""Byte-pair encoding: merges by rank inside words. Knows no rule by name.

Source: GPT-2's encoder, and llama.cpp b11434 for what GGUF adds (`tokenizer.ggml.model` gpt2 and
gemma4). A character that is no token and has no byte token is left out of the ids, as there.
"""

from collections.abc import Callable, Iterable
from itertools import chain

import numpy as np

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile, StringArray
from edgellm.tokenizer.byte_level import decode_bytes, encode_bytes
from edgellm.tokenizer.cut import Cutter
from edgellm.tokenizer.merge import NEVER, merge
from edgellm.tokenizer.model import TextModel
from edgellm.tokenizer.pretokenize import Rule
from edgellm.tokenizer.rules import DEFAULT, rule_for
from edgellm.tokenizer.special import Defaults
from edgellm.tokenizer.string_index import StringIndex
from edgellm.tokenizer.vocab import (
    SPACE,
    Vocab,
    byte_token,
    check_utf8,
    joined,
    plain_bytes,
    read_vocab,
)
from edgellm.tokenizer.words import WordEncoder

PRE = "tokenizer.ggml.pre"
MERGES = "tokenizer.ggml.merges"

_GPT2_ID = 11  # llama.cpp's BOS and EOS of a gpt2 vocabulary that names none
_NO_MERGES = ("kimi-k2",)  # may have none: converted from a vocabulary of ranks


def build_gpt2(file: GGUFFile) -> tuple[Vocab, TextModel]:
    """BPE with the rule that the file names, or the default rule with a note."""
    pre = file.string(PRE)
    if pre:
        return _build(file, pre, Defaults(bos=_GPT2_ID, eos=_GPT2_ID))
    note = (
        f"the file has no {PRE}: words are split by the default rule, which may not be the "
        "model's own; convert the model again to be sure"
    )
    return _build(file, DEFAULT, Defaults(bos=_GPT2_ID, eos=_GPT2_ID), (note,))


def build_gemma4(file: GGUFFile) -> tuple[Vocab, TextModel]:
    """BPE over whole lines of plain text; every special id comes from the file."""
    return _build(file, "gemma4", Defaults())


def _build(
    file: GGUFFile, pre: str, defaults: Defaults, notes: tuple[str, ...] = ()
) -> tuple[Vocab, TextModel]:
    rule = rule_for(pre)
    vocab = read_vocab(file)
    merges = StringIndex(_read_merges(file, vocab, pre))
    find = vocab.index.find

    def rank(key: str) -> int:
        found = merges.find(key)  # where it is among them; of one written twice the first
        return NEVER if found is None else found

    def encode_word(word: str) -> list[int]:
        if rule.byte_level:
            word = encode_bytes(word)
        if rule.ignore_merges or (rule.newlines_whole and not word.strip("\n")):
            whole = find(word)
            if whole is not None:
                return [whole]
        found: list[int] = []
        for symbol in merge(list(word), rank, " "):
            token = find(symbol)
            if token is not None:
                found.append(token)
            elif not rule.byte_level:
                bytes_of = (find(byte_token(byte)) for byte in symbol.encode())
                found += (i for i in bytes_of if i is not None)
        return found

    words = WordEncoder(rule.split if rule.byte_level else _cut_lines(rule, vocab), encode_word)

    def encode(text: str, after_special: bool) -> list[int]:
        return words.encode(text.replace(" ", SPACE) if rule.escape_spaces else text)

    if not rule.default_bos:
        defaults = Defaults(eos=defaults.eos)
    return vocab, TextModel(
        encode,
        decode_bytes if rule.byte_level else plain_bytes,
        defaults,
        pre,
        add_bos=rule.add_bos,
        force_bos=rule.force_bos,
        add_sep=rule.add_sep,
        notes=notes,
    )


def _cut_lines(rule: Rule, vocab: Vocab) -> Callable[[str], Iterable[str]]:
    """Plain text has no words: the rule's long pieces are cut where no merge can cross."""
    cut = Cutter(joined(vocab.tokens)).cut
    return lambda text: chain.from_iterable(map(cut, rule.split(text)))


def _read_merges(file: GGUFFile, vocab: Vocab, pre: str) -> StringArray:
    """By rank, as the file writes them: the left token, a space, the right token."""
    merges = file.strings(MERGES)
    if merges is None:
        if pre in _NO_MERGES:
            return StringArray.of(())
        raise GGUFError(f"{file.path}: no key {MERGES}, expected the merges of a BPE vocabulary")
    check_utf8(file, MERGES, merges)
    if not _may_be_sound(vocab, merges):
        _check_one_by_one(file, vocab, merges)
    return merges.copy()


def _may_be_sound(vocab: Vocab, merges: StringArray) -> bool:
    """Whether each merge has one space and is two tokens that make a third, by their hashes.

    In bulk, because there are 150,000 of them.
    """
    buffer, offsets, lengths = merges.buffer, merges.offsets, merges.lengths
    is_space = buffer == ord(" ")
    is_space[(offsets - 8)[:, None] + np.arange(8)] = False  # the numbers before the texts
    spaces = np.flatnonzero(is_space)
    if len(spaces) != len(merges) or (offsets > spaces).any():
        return False
    left, right = spaces - offsets, offsets + lengths - spaces - 1
    if (right < 0).any():
        return False
    gone = np.arange(len(merges))  # spaces before each merge
    parts = ((buffer, offsets, left), (buffer, spaces + 1, right))
    whole = (buffer[~is_space], offsets - gone, lengths - 1)
    return all(vocab.index.may_hold(*part) for part in (*parts, whole))


def _check_one_by_one(file: GGUFFile, vocab: Vocab, merges: StringArray) -> None:
    """GGUFError for the first merge that is not two tokens and makes no third."""
    for i, text in enumerate(merges):
        cut = text.find(" ", 1)
        left, right = text[:cut], text[cut + 1 :]
        if cut < 0 or not right:
            raise GGUFError(
                f"{file.path}: merge {i} is {text[:80]!r}, expected two tokens with a space between"
            )
        for token in (left, right, left + right):
            if vocab.index.find(token) is None:
                raise GGUFError(
                    f"{file.path}: merge {i} is {text[:80]!r}, and {token[:80]!r} is not in the "
                    "vocabulary: the file is damaged or was converted wrongly"
                )

"""Unigram: of all ways to cut a text into tokens, the one with the highest sum of scores.

Sources: Kudo 2018; llama.cpp b11434 (`tokenizer.ggml.model` t5). What is in no token is unknown,
at a cost that makes it the last choice, and a run of it is one unknown token.
"""

import re
from itertools import groupby

import numpy as np

from edgellm.gguf_loader import GGUFFile
from edgellm.tokenizer.charsmap import Charsmap
from edgellm.tokenizer.cut import Cutter
from edgellm.tokenizer.model import TextModel
from edgellm.tokenizer.special import Defaults
from edgellm.tokenizer.vocab import (
    MARK,
    SPACE,
    TokenType,
    Vocab,
    flag,
    plain_bytes,
    read_scores,
    read_vocab,
)
from edgellm.tokenizer.words import WordEncoder

_DEFAULTS = Defaults(eos=1, unk=2)
_UNKNOWN_COST = 10.0  # below the least score of any token
_LONGEST = 256  # characters of a token that are looked for


def build_ugm(file: GGUFFile) -> tuple[Vocab, TextModel]:
    """GGUFError when scores, tokens or the map of characters are missing or damaged."""
    vocab = read_vocab(file)
    scores = _scores(file, vocab)
    worst = min((score for score, _ in scores.values()), default=0.0) - _UNKNOWN_COST
    starts = {text[:length] for text in scores for length in range(1, len(text))}
    unknown = file.integer("tokenizer.ggml.unknown_token_id")
    unknown = 2 if unknown is None else unknown
    charsmap = _charsmap(file)
    adds_space = flag(file, "add_space_prefix", True)
    merges_spaces = flag(file, "remove_extra_whitespaces", False)

    def encode_piece(piece: str) -> list[int]:
        """The best path: best[i] is the highest sum up to character i, and its last token."""
        best = [(-np.inf, unknown, 0)] * (len(piece) + 1)
        best[0] = (0.0, unknown, 0)
        for start in range(len(piece)):
            total = best[start][0]
            for end in range(start + 1, len(piece) + 1):
                text = piece[start:end]
                found = scores.get(text)
                if found is not None and total + found[0] > best[end][0]:
                    best[end] = (total + found[0], found[1], start)
                elif found is None and end == start + 1 and total + worst > best[end][0]:
                    best[end] = (total + worst, unknown, start)
                if text not in starts:
                    break
        ids, end = [], len(piece)
        while end:
            _, token, end = best[end]
            ids.append(token)
        return ids[::-1]

    words = WordEncoder(Cutter([MARK.join(scores)]).cut, encode_piece)

    def encode(text: str, after_special: bool) -> list[int]:
        text = charsmap.normalize(text)
        if after_special and merges_spaces:
            text = re.sub(" +", " ", text.strip(" "))
        if after_special and text and (adds_space or merges_spaces):
            text = " " + text
        ids = words.encode(text.replace(" ", SPACE))
        runs = groupby(ids, key=lambda token: token == unknown)
        return [i for is_unknown, run in runs for i in ([unknown] if is_unknown else run)]

    return vocab, TextModel(
        encode, plain_bytes, _DEFAULTS, space_prefix=adds_space or merges_spaces, add_eos=True
    )


def _scores(file: GGUFFile, vocab: Vocab) -> dict[str, tuple[float, int]]:
    """Score and id of each token that text may become; users' own are never worse than others."""
    values = read_scores(file, len(vocab.tokens)).astype(np.float64).tolist()
    kinds = (TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNUSED)
    return {
        text: (0.0 if kind == TokenType.USER_DEFINED else score, token)
        for token, (text, kind, score) in enumerate(
            zip(vocab.tokens, vocab.types, values, strict=True)
        )
        if kind in kinds and len(text) <= _LONGEST
    }


def _charsmap(file: GGUFFile) -> Charsmap:
    """Files hold its bytes as numbers, with a sign or without."""
    stored = file.integers("tokenizer.ggml.precompiled_charsmap")
    return Charsmap(b"" if stored is None else stored.astype(np.uint8).tobytes())

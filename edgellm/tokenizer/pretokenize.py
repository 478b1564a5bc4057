"""Splits a text into the words that BPE merges inside. Knows the machinery; `rules` has the rules.

A rule is a cascade of stages. Each stage splits every piece the one before it left: what its
pattern matches becomes a piece, and so does what lies between two matches. Lookaheads see the end
of a piece as the end of the text.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from itertools import chain, pairwise

import regex

Stage = str | Callable[[str], Iterable[str]]


@dataclass(frozen=True)
class Rule:
    """What `tokenizer.ggml.pre` says of a BPE vocabulary.

    stages: patterns of the `regex` module, without capturing groups, or functions.
    byte_level: words are spelled in the byte alphabet; if not, in plain text with <0xNN> tokens.
    escape_spaces: a space is written "▁". ignore_merges: a word that is a token is that token.
    newlines_whole: a run of newlines that is a token is that token.
    add_bos: the default of `add_bos_token`; force_bos: whatever the file says, there is one.
    default_bos: the file need not name a BOS token to have one. add_sep: the default.
    """

    stages: tuple[Stage, ...]
    byte_level: bool = True
    escape_spaces: bool = False
    ignore_merges: bool = False
    newlines_whole: bool = False
    add_bos: bool = False
    force_bos: bool = False
    default_bos: bool = True
    add_sep: bool = False

    def split(self, text: str) -> Iterable[str]:
        """The words of a text, in order; joined they are the text."""
        pieces: Iterable[str] = (text,)
        for stage in self.stages:
            pieces = chain.from_iterable(map(_splitter(stage), pieces))
        return pieces


@cache
def _splitter(stage: Stage) -> Callable[[str], Iterable[str]]:
    if callable(stage):
        return stage
    split = regex.compile(f"({stage})").split
    return lambda text: filter(None, split(text))


def after_threes(digits: str) -> Callable[[str], Iterable[str]]:
    """A stage: cuts behind each three digits, counted from the end of their run: ab1|234|567|cd.

    As a pattern this and the next one would look ahead over the rest of the run at each step,
    which is quadratic. digits: a character class.
    """
    runs = regex.compile(f"{digits}+").finditer
    return lambda text: _cut(
        text,
        (at for run in runs(text) for at in range(run.end(), run.start(), -3)),
    )


def before_threes(digits: str) -> Callable[[str], Iterable[str]]:
    """A stage: cuts before each three digits, counted from the end of their run: ab1|234|567cd."""
    runs = regex.compile(f"{digits}+").finditer
    return lambda text: _cut(
        text,
        (at for run in runs(text) for at in range(run.end() - 3, run.start() - 1, -3)),
    )


def _cut(text: str, places: Iterable[int]) -> Iterable[str]:
    bounds = [0, *sorted(places), len(text)]
    return filter(None, (text[start:end] for start, end in pairwise(bounds)))


def at_spaces(space: str) -> Callable[[str], Iterable[str]]:
    """A stage: each word begins with `space`, which is put before a piece that lacks it.

    Runs of newlines stay as they are.
    """

    def stage(text: str) -> Iterable[str]:
        if not text.strip("\n"):
            yield text
            return
        if not text.startswith(space):
            text = space + text
        start = 0
        while start < len(text):
            end = text.find(space, start + 1)
            if end < 0:
                end = len(text)
            yield text[start:end]
            start = end

    return stage

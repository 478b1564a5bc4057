"""Fill in the middle: the text around a hole as the prompt that a model was trained on.

The layout is llama.cpp's: files of the repository first, where the model has tokens for them, then
prefix, suffix and the beginning of what goes between. What is too long for the context is cut, far
from the hole; prefix and files in whole steps, so that the next keystroke finds the same prompt in
the cache. Knows nothing of requests and answers.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from edgellm.errors import BackendError
from edgellm.holes import FimPrompt, Hole, SourceFile
from edgellm.tokenizer.special import FimTokens

_REPOSITORY = "myproject\n"
_FILE = "filename\n"
_STEP = 256  # tokens by which a prefix is cut
_SUFFIX_SHARE = 4  # the suffix may take one part in so many of the room
_RESERVED = 256  # tokens for the answer where it has no limit


class Vocabulary(Protocol):
    """What is asked of a tokenizer."""

    bos_id: int | None
    add_bos: bool
    fim: FimTokens

    def encode(self, text: str, add_special: bool = True, parse_special: bool = True) -> list[int]:
        """Token ids of a text."""


def fill(
    vocabulary: Vocabulary,
    context_length: int,
    hole: Hole,
    max_tokens: int | None = None,
    suffix_limit: int | None = None,
) -> FimPrompt:
    """The prompt for a hole. max_tokens: of the answer. suffix_limit: tokens, None is no limit.

    BackendError when the model has no tokens for it.
    """
    fim = vocabulary.fim
    if fim.prefix is None or fim.suffix is None or fim.middle is None:
        raise BackendError(
            "the model cannot fill in the middle: it has no tokens for prefix, suffix and middle; "
            "a model trained for code completion is needed"
        )

    def ids(text: str) -> list[int]:
        return vocabulary.encode(text, False, False) if text else []

    prefix, suffix = ids(hole.prefix), ids(hole.suffix)
    middle = [fim.middle, *ids(hole.prompt)]
    begin = [vocabulary.bos_id] if vocabulary.add_bos and vocabulary.bos_id is not None else []
    head, files, separator = _repository(fim, hole.files, ids)
    reserved = _RESERVED if max_tokens is None else max_tokens
    fixed = len(begin) + len(head) + len(separator) + len(middle) + 2
    room = max(0, context_length - reserved - fixed - 1)
    most = max(room // _SUFFIX_SHARE, room - len(prefix))
    most = most if suffix_limit is None else min(most, suffix_limit)
    kept_suffix = suffix[:most]
    kept_prefix = _tail(prefix, room - len(kept_suffix))
    kept_files = _last_files(files, room - len(kept_suffix) - len(kept_prefix))
    if not kept_files:
        head, separator = [], []
    token_ids = [*begin, *head]
    for own in kept_files:
        token_ids += own
    token_ids += [*separator, fim.prefix, *kept_prefix, fim.suffix, *kept_suffix, *middle]
    return FimPrompt(
        tuple(token_ids),
        len(prefix) - len(kept_prefix),
        len(suffix) - len(kept_suffix),
        sum(map(len, files)) - sum(map(len, kept_files)),
    )


def _repository(
    fim: FimTokens, files: Sequence[SourceFile], ids: Callable[[str], list[int]]
) -> tuple[list[int], list[list[int]], list[int]]:
    """What goes before all files, each file, and what goes before the one with the hole."""
    if not files or fim.repository is None or fim.file_separator is None:
        return [], [ids(file.text) for file in files], []
    mark = fim.file_separator
    marked = [[mark, *ids(f"{file.name}\n{file.text}")] for file in files]
    return [fim.repository, *ids(_REPOSITORY)], marked, [mark, *ids(_FILE)]


def _tail(ids: list[int], room: int) -> list[int]:
    """The end of the ids that fits, cut by whole steps where that leaves anything."""
    excess = len(ids) - max(0, room)
    if excess <= 0:
        return ids
    cut = -(-excess // _STEP) * _STEP
    return ids[cut if cut < len(ids) else excess :]


def _last_files(files: Sequence[list[int]], room: int) -> list[list[int]]:
    """The last files that fit, whole."""
    kept: list[list[int]] = []
    for own in reversed(files):
        room -= len(own)
        if room < 0:
            break
        kept.insert(0, own)
    return kept

"""Fill in the middle: the text around a hole as the prompt that a model was trained on.

The layout is llama.cpp's: files of the repository first, where the model has tokens for them, then
prefix, suffix and the beginning of what goes between. What is too long for the context is cut, far
from the hole; prefix and files in whole steps, so that the next keystroke finds the same prompt in
the cache.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from edgellm.client import Client
from edgellm.errors import BackendError
from edgellm.types import ModelInfo

_REPOSITORY = "myproject\n"
_FILE = "filename\n"
_STEP = 256  # tokens by which a prefix is cut
_SUFFIX_SHARE = 4  # the suffix may take one part in so many of the room
_RESERVED = 256  # tokens for the answer where it has no limit


@dataclass(frozen=True)
class File:
    """Another file of the repository."""

    name: str
    text: str


@dataclass(frozen=True)
class Hole:
    """What lies around the cursor. prompt: the beginning of the answer. files: oldest first."""

    prefix: str
    suffix: str
    prompt: str = ""
    files: tuple[File, ...] = ()


@dataclass(frozen=True)
class Filled:
    """A prompt, and how many tokens of the prefix, the suffix and the files were left out."""

    token_ids: tuple[int, ...]
    prefix_cut: int = 0
    suffix_cut: int = 0
    files_cut: int = 0


async def fill(
    client: Client,
    info: ModelInfo,
    hole: Hole,
    max_tokens: int | None,
    suffix_limit: int | None = None,
) -> Filled:
    """The prompt for a hole. max_tokens: of the answer. suffix_limit: tokens, None is no limit.

    BackendError when the model has no tokens for it.
    """
    details = await client.details(info.name)
    fim = details.fim
    missing = [role for role in ("prefix", "suffix", "middle") if role not in fim]
    if missing:
        raise BackendError(
            f"{info.name} cannot fill in the middle: it has no {missing[0]} token; "
            "a model trained for code completion is needed"
        )

    async def ids(text: str) -> list[int]:
        return await client.tokenize(text, False, False, info.name) if text else []

    prefix, suffix = await ids(hole.prefix), await ids(hole.suffix)
    middle = [fim["middle"], *await ids(hole.prompt)]
    begin = [details.bos_id] if details.add_bos and details.bos_id is not None else []
    has_layout = "repository" in fim and "file_separator" in fim
    head = [fim["repository"], *await ids(_REPOSITORY)] if has_layout else []
    separator = [fim["file_separator"], *await ids(_FILE)] if has_layout else []
    files = []
    for file in hole.files:
        if has_layout:
            files.append([fim["file_separator"], *await ids(f"{file.name}\n{file.text}")])
        else:
            files.append(await ids(file.text))
    if not files:
        head, separator = [], []

    reserved = _RESERVED if max_tokens is None else max_tokens
    fixed = len(begin) + len(head) + len(separator) + len(middle) + 2
    room = max(0, info.context_length - reserved - fixed - 1)
    most = max(room // _SUFFIX_SHARE, room - len(prefix))
    most = most if suffix_limit is None else min(most, suffix_limit)
    kept_suffix = suffix[:most]
    kept_prefix = _tail(prefix, room - len(kept_suffix))
    kept_files = _last_files(files, room - len(kept_suffix) - len(kept_prefix))
    if files and not kept_files:
        head, separator = [], []
    token_ids = [*begin, *head]
    for own in kept_files:
        token_ids += own
    token_ids += [*separator, fim["prefix"], *kept_prefix, fim["suffix"], *kept_suffix, *middle]
    return Filled(
        tuple(token_ids),
        len(prefix) - len(kept_prefix),
        len(suffix) - len(kept_suffix),
        sum(map(len, files)) - sum(map(len, kept_files)),
    )


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

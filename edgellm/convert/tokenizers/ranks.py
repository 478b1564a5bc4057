"""Folders whose byte pairs lie in a file of ranks: the content of tokenizer.json, made of it.

    tiktoken.model, NAME.tiktoken, tokenizer.model   lines of a token's bytes in base64 and its rank
    tekken.json                                      the same as JSON, behind the special tokens

What is merged follows from ranks: a token is made of the two that its bytes become when all that
ranks lower is merged. How text is split stands in code beside the file, known here by its class.
Sources: github.com/openai/tiktoken, github.com/mistralai/mistral-common.
"""

import hashlib
import re
from base64 import b64decode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgellm.convert.checkpoint import read_json
from edgellm.errors import GGUFError
from edgellm.tokenizer.byte_level import ALPHABET

Ranks = Mapping[bytes, int]

_LINE = re.compile(rb"([A-Za-z0-9+/]+=*) (\d{1,9})")
_MOST = 1 << 28  # bytes of a file
_LONGEST = 1024  # bytes of a token
_MOST_SPECIAL = 1 << 16


@dataclass(frozen=True)
class Known:
    """What code beside a file of ranks says. rule: how text is split, as GGUF names it. special:
    tokens behind the ranks, unless tokenizer_config.json has them. roles: of some of them."""

    rule: str
    special: tuple[str, ...] = ()
    roles: Mapping[str, Any] | None = None


_QWEN = ("<|endoftext|>", "<|im_start|>", "<|im_end|>", *(f"<|extra_{i}|>" for i in range(205)))
# By `tokenizer_class` of tokenizer_config.json.
_CLASSES: Mapping[str, Known] = {
    "ChatGLM4Tokenizer": Known("chatglm-bpe"),
    "HYTokenizer": Known("hunyuan"),
    "QWenTokenizer": Known(
        "qwen2", _QWEN, {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>"}
    ),
    "TikTokenTokenizer": Known("kimi-k2"),
}
_TEKKEN = Known(
    "tekken",
    (
        *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]"),
        *("[TOOL_RESULTS]", "[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]"),
        *("[IMG_END]", "[PREFIX]", "[MIDDLE]", "[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]"),
        "[TOOL_CONTENT]",
    ),
    {
        **{"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"},
        "add_bos_token": True,
    },
)


@dataclass(frozen=True, eq=False)
class Ranked:
    """content: as of tokenizer.json. rule: how text is split, None where it is not known. roles:
    settings that tokenizer_config.json may have otherwise. fingerprint: of the ranks."""

    path: Path
    content: Mapping[str, Any]
    rule: str | None
    roles: dict[str, Any]
    fingerprint: str


def ranked(folder: Path, settings: Mapping[str, Any]) -> Ranked | None:
    """None where the folder has no file of ranks. GGUFError when it is damaged."""
    if (folder / "tekken.json").is_file():
        return _tekken(folder / "tekken.json")
    for path in sorted([*folder.glob("*.tiktoken"), *folder.glob("*.model")]):
        if is_ranks(path):
            return _tiktoken(path, settings)
    return None


def is_ranks(path: Path) -> bool:
    """Whether a file has lines of ranks."""
    try:
        with open(path, "rb") as stream:
            return _LINE.fullmatch(stream.readline(2 * _LONGEST).rstrip()) is not None
    except OSError:
        return False


def _tiktoken(path: Path, settings: Mapping[str, Any]) -> Ranked:
    if path.stat().st_size > _MOST:
        raise GGUFError(f"{path}: is larger than {_MOST >> 20} MiB")
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        found = _LINE.fullmatch(line)
        if found is None and line:
            raise GGUFError(f"{path}: line {number} is no token and rank: the file is damaged")
        if found:
            _add(path, ranks, found[1], int(found[2]))
    known = _CLASSES.get(str(settings.get("tokenizer_class")).removesuffix("Fast"))
    first = max(ranks.values()) + 1
    special = {first + i: text for i, text in enumerate(known.special if known else ())}
    return _made(path, ranks, special, known, 0)


def _tekken(path: Path) -> Ranked:
    """The vocabulary is cut to the size that the file says."""
    content = read_json(path)
    try:
        config, listed = content["config"], content.get("special_tokens")
        count, size = config["default_num_special_tokens"], config["default_vocab_size"]
        names = {token["rank"]: str(token["token_str"]) for token in listed or ()}
        names = names or dict(enumerate(_TEKKEN.special))
        ranks: dict[bytes, int] = {}
        for token in content["vocab"][: size - count]:
            _add(path, ranks, token["token_bytes"], token["rank"])
    except (TypeError, KeyError, AttributeError):
        raise GGUFError(f"{path}: has no tokens with bytes and ranks: it is damaged") from None
    if type(count) is not int or not 0 <= count <= _MOST_SPECIAL:
        raise GGUFError(f"{path}: has {count} special tokens, expected at most {_MOST_SPECIAL}")
    special = {i: names.get(i, f"<SPECIAL_{i}>") for i in range(count)}
    return _made(path, ranks, special, _TEKKEN, count)


def _add(path: Path, ranks: dict[bytes, int], text: bytes | str, rank: object) -> None:
    try:
        token = b64decode(text, validate=True)
    except (ValueError, TypeError):
        token = b""
    if type(rank) is not int or not 0 < len(token) <= _LONGEST or token in ranks:
        raise GGUFError(f"{path}: {text!r:.60} with rank {rank!r:.20} is no token, or one twice")
    ranks[token] = rank


def _made(
    path: Path, ranks: Ranks, special: Mapping[int, str], known: Known | None, first: int
) -> Ranked:
    """first: the id of rank 0."""
    if len(set(ranks.values())) != len(ranks) or not ranks:
        raise GGUFError(f"{path}: two tokens have the same rank, or there is none")
    text = {token: "".join(ALPHABET[byte] for byte in token) for token in ranks}
    digest = hashlib.sha256(b"\n".join(_by_rank(ranks)))
    content = {
        "model": {
            "type": "BPE",
            "vocab": {text[token]: first + rank for token, rank in ranks.items()},
            "merges": [[text[left], text[right]] for left, right in merges_of(ranks)],
        },
        "pre_tokenizer": {"type": "ByteLevel", "use_regex": False},
        "added_tokens": [
            {"id": i, "content": content, "special": True} for i, content in special.items()
        ],
    }
    rule, roles = (known.rule, dict(known.roles or {})) if known else (None, {})
    return Ranked(path, content, rule, roles, digest.hexdigest())


def merges_of(ranks: Ranks) -> Iterator[tuple[bytes, bytes]]:
    """The pairs that tokens are made of, by rank; none for those that no pair makes."""
    for token in _by_rank(ranks):
        parts = _merged(ranks, token)
        if len(parts) == 2:
            yield parts[0], parts[1]


def _by_rank(ranks: Ranks) -> list[bytes]:
    return [token for token, _ in sorted(ranks.items(), key=lambda item: item[1])]


def _merged(ranks: Ranks, token: bytes) -> list[bytes]:
    """The bytes of a token after all merges that rank below it."""
    parts, limit = [token[i : i + 1] for i in range(len(token))], ranks[token]
    while len(parts) > 1:
        pairs = [ranks.get(parts[i] + parts[i + 1], limit) for i in range(len(parts) - 1)]
        lowest = min(pairs)
        if lowest >= limit:
            break
        at = pairs.index(lowest)
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return parts

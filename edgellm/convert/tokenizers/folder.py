"""The files of a folder that say how text becomes tokens, read and checked in form."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from edgellm.convert.checkpoint import read_json, read_optional_json
from edgellm.convert.tokenizers.older import older_content
from edgellm.convert.tokenizers.protobuf import Pieces, read_pieces
from edgellm.convert.tokenizers.ranks import Ranked, is_ranks, ranked
from edgellm.errors import GGUFError

_PIECES = ("tokenizer.model", "sentencepiece.bpe.model", "spiece.model")


@dataclass(frozen=True)
class Added:
    """A token that stands beside the model's. special: it never comes from text."""

    text: str
    special: bool


@dataclass(frozen=True, eq=False)
class TokenizerFolder:
    """path: of the file that has the tokens. content: of tokenizer.json, or what other files amount
    to; None without any. by_rank: what a file of ranks says beyond it. pieces: of
    SentencePiece's file, likewise. settings: of tokenizer_config.json. model_config, generation: of
    config.json and generation_config.json. added: tokens beside the model's, by id."""

    folder: Path
    path: Path
    content: Mapping[str, Any] | None
    by_rank: Ranked | None
    pieces: Pieces | None
    settings: Mapping[str, Any]
    model_config: Mapping[str, Any]
    generation: Mapping[str, Any]
    added: Mapping[int, Added]

    @property
    def model(self) -> Mapping[str, Any]:
        found = (self.content or {}).get("model")
        return found if isinstance(found, dict) else {}

    def steps(self, part: str) -> list[Mapping[str, Any]]:
        """A part of tokenizer.json, such as its normalizer, as the steps of its sequence."""
        return flattened((self.content or {}).get(part))


def open_tokenizer(folder: Path) -> TokenizerFolder:
    """GGUFError names a file that is damaged."""
    path = folder / "tokenizer.json"
    settings = read_optional_json(folder / "tokenizer_config.json")
    by_rank = None if path.exists() else ranked(folder, settings)
    content = read_json(path) if path.exists() else None
    if by_rank:
        path, content, settings = by_rank.path, dict(by_rank.content), by_rank.roles | settings
    elif content is None:
        content = older_content(folder, settings)
    pieces = (folder / name for name in _PIECES)
    found = next((one for one in pieces if one.is_file() and not is_ranks(one)), None)
    return TokenizerFolder(
        folder,
        path,
        content,
        by_rank,
        None if found is None or by_rank else read_pieces(found),
        settings,
        read_optional_json(folder / "config.json"),
        read_optional_json(folder / "generation_config.json"),
        _added(folder, content, settings),
    )


def flattened(part: object) -> list[Mapping[str, Any]]:
    if not isinstance(part, dict):
        return []
    names = ("pretokenizers", "normalizers", "processors")
    inner = next((part[name] for name in names if isinstance(part.get(name), list)), None)
    return [part] if inner is None else [step for one in inner for step in flattened(one)]


def _added(
    folder: Path, content: Mapping[str, Any] | None, settings: Mapping[str, Any]
) -> dict[int, Added]:
    """From all files that may list them; the newest kind counts."""
    found: dict[int, Added] = {}
    try:
        for text, i in read_optional_json(folder / "added_tokens.json").items():
            found[_id(i)] = Added(text, False)
        for key, token in (settings.get("added_tokens_decoder") or {}).items():
            found[_id(int(key))] = Added(str(token["content"]), bool(token.get("special")))
        for token in (content or {}).get("added_tokens") or ():
            found[_id(token["id"])] = Added(str(token["content"]), bool(token.get("special")))
    except (TypeError, KeyError, ValueError, AttributeError):
        raise GGUFError(
            f"{folder}: added tokens have no id and content: its tokenizer is damaged"
        ) from None
    return found


def _id(value: object) -> int:
    if type(value) is not int or not 0 <= value < 1 << 31:
        raise ValueError(value)
    return value

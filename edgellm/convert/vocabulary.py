"""A folder's tokenizer as GGUF keys: tokens, merges, special tokens, the chat template.

Two kinds of tokenizer.json are known, both of the model BPE: over bytes ("gpt2" in GGUF), and
SentencePiece's over characters with bytes for the rest ("llama"), whose scores are the ranks of
the merges. Knows no tensors.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from edgellm.convert.checkpoint import read_json, read_optional_json
from edgellm.errors import GGUFError, RequestError
from edgellm.gguf_loader import NewValue

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 1, 2, 3, 4, 5, 6
_SPACE = "\u2581"
_NO_MERGE = np.float32(-1e6)  # the score of tokens that no merge makes

_TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
_LETTERS = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]")
_TEKKEN = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{_LETTERS[0]}*{_LETTERS[1]}+|"
    rf"[^\r\n\p{{L}}\p{{N}}]?{_LETTERS[0]}+{_LETTERS[1]}*|\p{{N}}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)

# The patterns that pre-tokenizers split text by, and the names of their rules in GGUF.
_RULES = {
    _WORDS + r"\p{N}{1,3}" + _TAIL: "llama-bpe",
    _WORDS + r"\p{N}" + _TAIL: "qwen2",
    _TEKKEN: "tekken",
}
_SPECIAL = {"bos": "bos", "eos": "eos", "pad": "padding", "unk": "unknown"}


def vocabulary(folder: Path, size: int, rule: str | None = None) -> dict[str, NewValue]:
    """The keys of the folder's tokenizer, for a model of `size` tokens.

    rule: the name of the pre-tokenizer's rule, where it cannot be told from the folder.
    """
    path = folder / "tokenizer.json"
    if not path.exists():
        raise GGUFError(f"{folder}: there is no tokenizer.json, which the vocabulary is read from")
    content = read_json(path)
    model = content.get("model")
    if not isinstance(model, dict) or model.get("type", "BPE") != "BPE":
        kind = model.get("type") if isinstance(model, dict) else None
        raise GGUFError(f"{path}: is a tokenizer of the kind {kind!r}, expected BPE")
    added = _added(path, content)
    by_id = _by_id(path, model.get("vocab"), added)
    merges = _merges(path, model.get("merges"))
    tokens = [by_id.get(i, f"[PAD{i}]") for i in range(size)]
    config = read_optional_json(folder / "tokenizer_config.json")
    keys: dict[str, NewValue] = {}
    if _is_over_bytes(content):
        keys["tokenizer.ggml.model"] = "gpt2"
        keys["tokenizer.ggml.pre"] = rule or _rule(path, content)
        keys["tokenizer.ggml.merges"] = [f"{left} {right}" for left, right in merges]
    else:
        keys["tokenizer.ggml.model"] = "llama"
        keys["tokenizer.ggml.pre"] = "default"
        keys["tokenizer.ggml.scores"] = _scores(tokens, merges)
        keys["tokenizer.ggml.add_space_prefix"] = _adds_space(content)
    keys["tokenizer.ggml.tokens"] = [_shown(i, text, added) for i, text in enumerate(tokens)]
    keys["tokenizer.ggml.token_type"] = _types(tokens, by_id, added, model)
    keys |= _special(folder, config, {text: i for i, text in by_id.items() if i < size}, content)
    template = _template(folder, config)
    if template is not None:
        keys["tokenizer.chat_template"] = template
    return keys


def _added(path: Path, content: Mapping[str, Any]) -> dict[int, Mapping[str, Any]]:
    """Tokens that stand beside the model's, by id."""
    added = content.get("added_tokens", [])
    try:
        return {int(token["id"]): {"content": str(token["content"]), **token} for token in added}
    except (TypeError, KeyError, ValueError):
        raise GGUFError(f"{path}: added_tokens have no id and content: it is damaged") from None


def _by_id(path: Path, vocab: object, added: Mapping[int, Mapping[str, Any]]) -> dict[int, str]:
    if not isinstance(vocab, dict) or not all(type(i) is int and i >= 0 for i in vocab.values()):
        raise GGUFError(f"{path}: has no vocabulary of tokens and ids")
    by_id = {i: text for text, i in vocab.items()}
    if len(by_id) != len(vocab):
        raise GGUFError(f"{path}: two tokens have the same id")
    return by_id | {i: token["content"] for i, token in added.items()}


def _merges(path: Path, merges: object) -> list[tuple[str, str]]:
    """Pairs in order of rank; written as one text or as two."""
    found = []
    for merge in merges if isinstance(merges, list) else []:
        parts = merge.split(" ") if isinstance(merge, str) else merge
        if not isinstance(parts, list) or len(parts) != 2:
            raise GGUFError(f"{path}: the merge {str(merge)[:60]!r} is no pair of tokens")
        if any(" " in part for part in parts):
            raise GGUFError(f"{path}: the merge {str(merge)[:60]!r} has a space in it")
        found.append((parts[0], parts[1]))
    return found


def _steps(part: object) -> list[Mapping[str, Any]]:
    """A normalizer, pre-tokenizer or the like, as the steps of its sequence."""
    if not isinstance(part, dict):
        return []
    inner = next(
        (part[n] for n in ("pretokenizers", "normalizers", "processors") if n in part), None
    )
    return [part] if inner is None else [step for one in inner for step in _steps(one)]


def _is_over_bytes(content: Mapping[str, Any]) -> bool:
    return any(step.get("type") == "ByteLevel" for step in _steps(content.get("pre_tokenizer")))


def _rule(path: Path, content: Mapping[str, Any]) -> str:
    """The GGUF name of how the tokenizer splits text."""
    steps = _steps(content.get("pre_tokenizer"))
    kinds = [step.get("type") for step in steps]
    if kinds == ["ByteLevel"] and steps[0].get("use_regex", True):
        return "gpt-2"
    if kinds == ["Digits", "ByteLevel"] and steps[0].get("individual_digits"):
        return "smollm"
    patterns = [step.get("pattern", {}).get("Regex") for step in steps if step["type"] == "Split"]
    if len(patterns) == 1 and patterns[0] in _RULES:
        return _RULES[patterns[0]]
    raise RequestError(
        f"{path}: splits text in a way that is not known here: name it with --pre, such as "
        "--pre qwen2",
        "pre",
    )


def _scores(tokens: Sequence[str], merges: Sequence[tuple[str, str]]) -> NewValue:
    """Minus the rank of the first merge that makes a token: what is merged early scores high."""
    ranks: dict[str, int] = {}
    for rank, (left, right) in enumerate(merges):
        ranks.setdefault(left + right, rank)
    scores = [-np.float32(ranks[text]) if text in ranks else _NO_MERGE for text in tokens]
    return np.array(scores, np.float32)


def _adds_space(content: Mapping[str, Any]) -> bool:
    """Whether a space goes before a text: by a Prepend, or by a Metaspace that is told so."""
    steps = [*_steps(content.get("normalizer")), *_steps(content.get("pre_tokenizer"))]
    return any(
        step.get("type") == "Prepend"
        or (
            step.get("type") == "Metaspace"
            and step.get("prepend_scheme", "always" if step.get("add_prefix_space") else "never")
            != "never"
        )
        for step in steps
    )


def _shown(i: int, text: str, added: Mapping[int, Mapping[str, Any]]) -> str:
    """Added tokens are matched in the text itself, where a space is a space."""
    is_text = i in added and not added[i].get("special")
    return text.replace(_SPACE, " ") if is_text else text


def _types(
    tokens: Sequence[str],
    by_id: Mapping[int, str],
    added: Mapping[int, Mapping[str, Any]],
    model: Mapping[str, Any],
) -> NewValue:
    def kind(i: int, text: str) -> int:
        if i not in by_id:
            return _UNUSED
        if text == model.get("unk_token"):
            return _UNKNOWN
        if i in added:
            return _CONTROL if added[i].get("special") else _USER_DEFINED
        is_byte = model.get("byte_fallback") and len(text) == 6 and text.startswith("<0x")
        return _BYTE if is_byte else _NORMAL

    return np.array([kind(i, text) for i, text in enumerate(tokens)], np.int32)


def _special(
    folder: Path,
    config: Mapping[str, Any],
    ids: Mapping[str, int],
    content: Mapping[str, Any],
) -> dict[str, NewValue]:
    """Ids by role: from the tokenizer's settings, else from the model's; and which are added."""
    model = read_optional_json(folder / "config.json")
    keys: dict[str, NewValue] = {}
    for role, name in _SPECIAL.items():
        token = config.get(f"{role}_token")
        text = token.get("content") if isinstance(token, dict) else token
        found = ids.get(text) if isinstance(text, str) else None
        if found is None:
            given = model.get(f"{role}_token_id")
            given = given[0] if isinstance(given, list) and given else given
            found = given if type(given) is int and 0 <= given < len(ids) else None
        if found is not None:
            keys[f"tokenizer.ggml.{name}_token_id"] = found
    starts, ends = _template_ends(content)
    for role, added in (("bos", starts), ("eos", ends)):
        told = config.get(f"add_{role}_token")
        if isinstance(told, bool) or added is not None:
            keys[f"tokenizer.ggml.add_{role}_token"] = (
                told if isinstance(told, bool) else bool(added)
            )
    return keys


def _template_ends(content: Mapping[str, Any]) -> tuple[bool | None, bool | None]:
    """Whether the post-processor puts a special token before a text, and after it."""
    for step in _steps(content.get("post_processor")):
        single = step.get("single")
        if step.get("type") == "TemplateProcessing" and isinstance(single, list) and single:
            return "SpecialToken" in single[0], "SpecialToken" in single[-1]
    return None, None


def _template(folder: Path, config: Mapping[str, Any]) -> str | None:
    path = folder / "chat_template.jinja"
    if path.exists():
        return path.read_text("utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {one.get("name"): one.get("template") for one in template if isinstance(one, dict)}
        template = named.get("default")
    return template if isinstance(template, str) else None

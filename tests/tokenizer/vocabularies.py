"""Small model files for tokenizer tests, written and opened. Knows nothing of the algorithms."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgellm.gguf_loader import GGUFFile, open_gguf
from edgellm.tokenizer.byte_level import ALPHABET
from tests.gguf_writer import INT32, array, write_gguf

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

BYTE_TOKENS = [f"<0x{byte:02X}>" for byte in range(256)]

Special = tuple[str, int]  # text, type
Keys = dict[str, Any]


def metadata(model: str, tokens: Sequence[str | bytes], types: Sequence[int], **more: Any) -> Keys:
    """The keys of a vocabulary; `more` are `tokenizer.ggml.` keys."""
    token_type = array(INT32, list(types))
    keys = {"general.architecture": "llama"}
    return altered(keys, model=model, tokens=list(tokens), token_type=token_type, **more)


def altered(keys: Keys, **more: Any) -> Keys:
    """The keys with some `tokenizer.ggml.` ones set, or left out where the value is None."""
    changed = {**keys, **{f"tokenizer.ggml.{key}": value for key, value in more.items()}}
    return {key: value for key, value in changed.items() if value is not None}


def open_with(folder: Path, keys: Keys) -> GGUFFile:
    return open_gguf(write_gguf(folder / "vocabulary.gguf", keys))


def bpe(merges: Sequence[str] = (), special: Sequence[Special] = (), **more: Any) -> Keys:
    """All bytes, then what the merges make, then the special tokens. The rule is gpt-2's."""
    made = dict.fromkeys(merge.replace(" ", "") for merge in merges)
    tokens = list(dict.fromkeys([*ALPHABET, *made]))
    types = [NORMAL] * len(tokens) + [kind for _, kind in special]
    tokens += [text for text, _ in special]
    return metadata("gpt2", tokens, types, **{"pre": "gpt-2", **more}, merges=list(merges))


def spm(scored: Mapping[str, float], special: Sequence[Special] = (), **more: Any) -> Keys:
    """<unk>, <s>, </s>, the bytes, the scored tokens, then the special tokens."""
    head = [("<unk>", UNKNOWN), ("<s>", CONTROL), ("</s>", CONTROL)]
    tokens = [*(text for text, _ in head), *BYTE_TOKENS, *scored, *(text for text, _ in special)]
    types = [kind for _, kind in head] + [BYTE] * 256 + [NORMAL] * len(scored)
    types += [kind for _, kind in special]
    scores = [0.0] * 259 + [float(score) for score in scored.values()] + [0.0] * len(special)
    return metadata("llama", tokens, types, scores=scores, **more)


def gemma4(merges: Sequence[str], letters: str, **more: Any) -> Keys:
    """<pad>, <eos>, <bos>, <unk>, the bytes, the letters and what the merges make."""
    head = [("<pad>", CONTROL), ("<eos>", CONTROL), ("<bos>", CONTROL), ("<unk>", UNKNOWN)]
    made = dict.fromkeys(merge.replace(" ", "") for merge in merges)
    text = dict.fromkeys([*letters, *made])
    tokens = [*(token for token, _ in head), *BYTE_TOKENS, *text]
    types = [kind for _, kind in head] + [BYTE] * 256 + [NORMAL] * len(text)
    ids = {"eos_token_id": 1, "bos_token_id": 2, "unknown_token_id": 3}
    return metadata("gemma4", tokens, types, merges=list(merges), **ids, **more)

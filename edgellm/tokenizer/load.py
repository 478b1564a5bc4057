"""Builds the tokenizer of a model file. Knows the tokenizers by name, and no algorithm."""

from collections.abc import Callable

import numpy as np

from edgellm.errors import GGUFError
from edgellm.gguf_loader import GGUFFile
from edgellm.tokenizer.bpe import build_gemma4, build_gpt2
from edgellm.tokenizer.model import TextModel
from edgellm.tokenizer.none import build_none
from edgellm.tokenizer.partition import Partition, Special
from edgellm.tokenizer.rwkv import build_rwkv
from edgellm.tokenizer.special import SpecialTokens, find_special
from edgellm.tokenizer.spm import build_spm
from edgellm.tokenizer.tokenizer import Additions, Tokenizer
from edgellm.tokenizer.ugm import build_ugm
from edgellm.tokenizer.vocab import TokenType, Vocab, flag
from edgellm.tokenizer.wpm import build_wpm

MODEL = "tokenizer.ggml.model"

# `tokenizer.ggml.model` -> builder. "test" is what llama.cpp writes into models without text.
BUILDERS: dict[str, Callable[[GGUFFile], tuple[Vocab, TextModel]]] = {
    "gpt2": build_gpt2,
    "llama": build_spm,
    "gemma4": build_gemma4,
    "rwkv": build_rwkv,
    "bert": build_wpm,
    "t5": build_ugm,
    "none": build_none,
    "no_vocab": build_none,
    "test": build_none,
}

# Tokens that take the white space beside them along, as in llama.cpp b11434.
_MASK_STRIPS_LEFT = ("jina-v2-de", "jina-v2-es", "jina-v2-code", "mmbert")  # pre
_MASK_STRIPS_LEFT_IN = ("nomic-bert-moe", "jina-bert-v3")  # architecture
_ALL_STRIP_RIGHT = ("phi-3", "phi3")  # name
_NEVER_STRIP_RIGHT = ("<unk>", "<s>", "<|endoftext|>")


def load_tokenizer(file: GGUFFile) -> Tokenizer:
    """The tokenizer of a file. GGUFError when it is unknown, or its vocabulary is damaged."""
    model = file.string(MODEL)
    if model not in BUILDERS:
        found = "missing" if model is None else repr(model)
        raise GGUFError(
            f"{file.path}: {MODEL} is {found}, which is not known; known are "
            + ", ".join(sorted(BUILDERS))
        )
    vocab, text_model = BUILDERS[model](file)
    special = find_special(file, vocab, text_model.defaults)
    additions = _additions(file, text_model, special)
    written = _specials(file, vocab, special, text_model.pre)
    user_defined = [s for s in written if special.types[s.token_id] == TokenType.USER_DEFINED]
    return Tokenizer(
        model, vocab, text_model, special, additions, Partition(written), Partition(user_defined)
    )


def _additions(file: GGUFFile, text_model: TextModel, special: SpecialTokens) -> Additions:
    bos = flag(file, "add_bos_token", text_model.add_bos) or text_model.force_bos
    eos = flag(file, "add_eos_token", text_model.add_eos) and not text_model.sep_ends
    for wanted, token_id, name in ((bos, special.bos, "bos"), (eos, special.eos, "eos")):
        if wanted and token_id is None:
            raise GGUFError(
                f"{file.path}: the tokenizer adds a {name} token and "
                f"tokenizer.ggml.{name}_token_id names none"
            )
    sep = flag(file, "add_sep_token", text_model.add_sep)
    return Additions(bos, eos, sep, text_model.sep_ends)


def _specials(
    file: GGUFFile, vocab: Vocab, special: SpecialTokens, pre: str | None
) -> list[Special]:
    """All tokens that are looked for in a text before anything else is done to it."""
    pre = pre or ""
    architecture = file.string("general.architecture") or ""
    name = (file.string("general.name") or "").lower()
    left: str | None = None
    right = False
    if _has(pre, _MASK_STRIPS_LEFT) or _has(architecture, _MASK_STRIPS_LEFT_IN):
        left = "<mask>"
    elif _has(name, _ALL_STRIP_RIGHT):
        right = True
    elif "modern-bert" in name:
        left = "[MASK]"
    kinds = (TokenType.CONTROL, TokenType.USER_DEFINED, TokenType.UNKNOWN)
    ids = np.flatnonzero(np.isin(np.frombuffer(special.types, np.uint8), kinds))
    return [
        Special(i, text.encode(), text == left, right and text not in _NEVER_STRIP_RIGHT)
        for i, text in ((i, vocab.tokens[i]) for i in ids.tolist())
    ]


def _has(text: str, names: tuple[str, ...]) -> bool:
    return any(name in text for name in names)

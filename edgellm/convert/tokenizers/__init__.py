"""A folder's tokenizer as GGUF keys: tokens, their types and scores, special ids, chat templates.

`vocabulary` finds out which kind it is; each kind has a file. Knows no tensors.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from edgellm.convert.keys import Keys
from edgellm.convert.tokenizers import bpe, rwkv, sentencepiece, unigram, wordpiece
from edgellm.convert.tokenizers.folder import TokenizerFolder, open_tokenizer
from edgellm.convert.tokenizers.special import special_keys
from edgellm.convert.tokenizers.templates import sampling_keys, template_keys
from edgellm.convert.tokenizers.tokens import Tokens
from edgellm.errors import GGUFError

# By `model.type` of tokenizer.json.
KINDS: Mapping[str, Callable[[TokenizerFolder, str | None], Tokens]] = {
    "BPE": bpe.read,
    "Unigram": unigram.read,
    "WordPiece": wordpiece.read,
}


def vocabulary(
    folder: Path, size: int, rule: str | None = None, merges_over_characters: bool = False
) -> Keys:
    """The keys of the folder's tokenizer, for a model of `size` tokens.

    rule: the name of the pre-tokenizer's rule, where it cannot be told from the folder.
    merges_over_characters: the tokenizer is the one that GGUF names after Gemma 4.
    GGUFError for what is missing or damaged, RequestError for what is not known here.
    """
    source = open_tokenizer(folder)
    if merges_over_characters and source.content is not None and not bpe.is_over_bytes(source):
        tokens = bpe.over_characters(source)
    else:
        tokens = _read(source, rule)
    return {
        **tokens.keys(size),
        **special_keys(source, tokens, size),
        **template_keys(source),
        **sampling_keys(source),
    }


def _read(source: TokenizerFolder, rule: str | None) -> Tokens:
    """SentencePiece's own file has its scores; tokenizer.json may have them in other words."""
    if source.content is None or (source.pieces is not None and not bpe.is_over_bytes(source)):
        if source.pieces is None:
            path = rwkv.vocabulary_file(source.folder)
            if path is not None:
                return rwkv.read(path)
            raise GGUFError(
                f"{source.folder}: there is no tokenizer.json and no tokenizer.model, which the "
                "vocabulary is read from"
            )
        return sentencepiece.read(source)
    kind = str(source.model.get("type", "BPE"))
    if kind not in KINDS:
        raise GGUFError(
            f"{source.path}: is a tokenizer of the kind {kind!r}, expected one of "
            f"{', '.join(KINDS)}"
        )
    return KINDS[kind](source, rule)

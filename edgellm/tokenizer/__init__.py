"""Text to token ids and back, for the vocabularies of GGUF files. Knows no model and no kernel.

    tokenizer = load_tokenizer(file)
    tokenizer.encode("Hello world"), tokenizer.decode([1, 2, 3])

One file per job: `vocab` reads, `string_index` finds, `rules` and `pretokenize` split into words,
`merge` joins, `bpe` and `spm` put them together, `special` and `partition` deal with special
tokens. A new kind of tokenizer is a builder and a row in `load.BUILDERS`.
"""

from edgellm.tokenizer.load import load_tokenizer
from edgellm.tokenizer.special import FimTokens
from edgellm.tokenizer.tokenizer import Tokenizer

__all__ = ["FimTokens", "Tokenizer", "load_tokenizer"]

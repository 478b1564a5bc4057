"""What a tokenizer algorithm gives the tokenizer: text to ids and token to bytes. Data only."""

from collections.abc import Callable
from dataclasses import dataclass

from edgellm.tokenizer.special import Defaults


@dataclass(frozen=True)
class TextModel:
    """One vocabulary's algorithm.

    encode: plain text -> ids; the flag says that nothing or a special token comes before it.
    token_bytes: the text of a normal token -> the bytes it adds to a text.
    space_prefix: a text's first space is not its own. defaults: ids where the file names none.
    pre: the pre-tokenizer's name. add_bos, add_eos, add_sep: where the file does not say;
    force_bos: whatever it says. sep_ends: the separator ends a text, not EOS. tells_second: of two
    texts, the tokens of the second are of another type. notes: what was odd about the file.
    """

    encode: Callable[[str, bool], list[int]]
    token_bytes: Callable[[str], bytes]
    defaults: Defaults
    pre: str | None = None
    space_prefix: bool = False
    add_bos: bool = False
    force_bos: bool = False
    add_eos: bool = False
    add_sep: bool = False
    sep_ends: bool = False
    tells_second: bool = False
    notes: tuple[str, ...] = ()

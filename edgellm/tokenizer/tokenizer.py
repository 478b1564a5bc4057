"""Text to token ids and back for one vocabulary. Knows nothing of files and of how words merge."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgellm.errors import RequestError
from edgellm.tokenizer.model import TextModel
from edgellm.tokenizer.partition import Partition
from edgellm.tokenizer.special import FimTokens, SpecialTokens
from edgellm.tokenizer.vocab import TokenType, Vocab, byte_value

_HIDDEN = (TokenType.CONTROL, TokenType.UNKNOWN)


@dataclass(frozen=True)
class Additions:
    """What `add_special` adds, and what the model wants between two texts.

    sep_ends: the separator also ends a text, where others have EOS.
    """

    bos: bool
    eos: bool
    sep: bool
    sep_ends: bool = False


class Tokenizer:
    """The tokenizer of one model file; `load_tokenizer` makes it. Threads may share it.

    model, pre: the file's names for it. vocab_size: ids are 0 to vocab_size - 1.
    bos_id, eos_id, eot_id (end of a turn), pad_id, unk_id, sep_id: None where there is none.
    add_bos, add_eos: what `add_special` adds; ends: what it puts behind a text. add_sep: the model
    wants sep_id between texts.
    eog_ids: all that end a generation. fim: fill-in-the-middle tokens.
    space_prefix: the space that a text's first token may begin with is not the text's own.
    notes: what a user should know of the file, for example that a rule had to be guessed.
    """

    def __init__(
        self,
        model: str,
        vocab: Vocab,
        text_model: TextModel,
        special: SpecialTokens,
        additions: Additions,
        written: Partition,
        user_defined: Partition,
    ) -> None:
        """written: finds all special tokens; user_defined: those that are found in any text."""
        self.model = model
        self.pre = text_model.pre
        self.vocab_size = len(vocab.tokens)
        self.bos_id, self.eos_id, self.eot_id = special.bos, special.eos, special.eot
        self.pad_id, self.unk_id, self.sep_id = special.pad, special.unk, special.sep
        self.fim: FimTokens = special.fim
        self.eog_ids = special.eog
        self.add_bos, self.add_eos, self.add_sep = additions.bos, additions.eos, additions.sep
        self._parts_by_sep = additions.sep and not additions.sep_ends
        end = self.sep_id if additions.sep_ends else self.eos_id if additions.eos else None
        self.ends: tuple[int, ...] = () if end is None else (end,)
        self.space_prefix = text_model.space_prefix
        self._tells_second = text_model.tells_second
        self.notes = (*text_model.notes, *special.notes)
        self._tokens = vocab.tokens
        self._types = special.types
        self._text_model = text_model
        self._written = written
        self._user_defined = user_defined

    def encode(
        self,
        text: str,
        add_special: bool = True,
        parse_special: bool = True,
        continues: bool = False,
    ) -> list[int]:
        """The ids of a text.

        add_special: add the BOS and EOS tokens that the model wants, even if the text has them.
        parse_special: special tokens written out in the text become those tokens; if not, only
        user-defined ones do. continues: other text comes before it, and so no space is added.
        RequestError when the text holds half a surrogate pair.
        """
        partition = self._written if parse_special else self._user_defined
        try:
            parts = partition.split(text)
        except UnicodeEncodeError as error:
            raise RequestError(
                f"the text holds a lone surrogate ({text[error.start]!r}) at character "
                f"{error.start}: it cannot be written as UTF-8; remove it",
                field="prompt",
            ) from None
        ids: list[int] = []
        if add_special and self.add_bos and self.bos_id is not None:
            ids.append(self.bos_id)
        after_special = not continues
        for part in parts:
            if isinstance(part, int):
                ids.append(part)
            else:
                ids += self._text_model.encode(part, after_special)
            after_special = isinstance(part, int)
        return [*ids, *self.ends] if add_special else ids

    def encode_pair(self, first: str, second: str) -> tuple[list[int], int | None]:
        """The ids of two texts that the model compares, and from where on they are of the second
        type, if the tokenizer tells types apart. Markup in either is text.
        """
        start = [self.bos_id] if self.add_bos and self.bos_id is not None else []
        apart = [self.sep_id] if self._parts_by_sep and self.sep_id is not None else []
        left, right = (self.encode(text, False, False) for text in (first, second))
        ids = [*start, *left, *self.ends, *apart]
        return [*ids, *right, *self.ends], len(ids) if self._tells_second else None

    def encode_prompt(self, text: str) -> list[int]:
        """The ids of a rendered chat template: `encode(text)` with exactly one BOS.

        Many templates write BOS themselves, and the model wants one added: of two at the start
        one goes. So it is with EOS at the end.
        """
        ids = self.encode(text)
        if self.add_bos and len(ids) > 1 and ids[0] == ids[1] == self.bos_id:
            del ids[0]
        if self.add_eos and len(ids) > 1 and ids[-1] == ids[-2] == self.eos_id:
            del ids[-1]
        return ids

    def decode(self, ids: Sequence[int], skip_special: bool = False) -> str:
        """The text of the ids; bytes that are not UTF-8 become U+FFFD.

        skip_special: leave out control tokens. RequestError when an id is not in the vocabulary.
        """
        return b"".join(self.pieces(ids, skip_special)).decode("utf-8", "replace")

    def pieces(self, ids: Iterable[int], skip_special: bool = False) -> Iterable[bytes]:
        """The bytes each id adds to the text, as `decode` joins them."""
        leading = self.space_prefix
        for token_id in ids:
            piece = self.token_bytes(token_id)
            if skip_special and self.is_control(token_id):
                piece = b""
            yield piece.removeprefix(b" ") if leading else piece
            leading = False

    def token_bytes(self, token_id: int) -> bytes:
        """What an id adds to the text, perhaps part of a character. Control tokens: their text."""
        match self._type(token_id):
            case TokenType.NORMAL:
                return self._text_model.token_bytes(self._tokens[token_id])
            case TokenType.BYTE:
                value = byte_value(self._tokens[token_id])
                return b"" if value is None else bytes([value])
            case TokenType.CONTROL | TokenType.UNKNOWN | TokenType.USER_DEFINED:
                return self._tokens[token_id].encode()
        return b""

    def is_control(self, token_id: int) -> bool:
        """Whether the id is markup, not text."""
        return self._type(token_id) in _HIDDEN

    def difference(self, other: "Tokenizer") -> str | None:
        """Where another model's ids mean something else; None where they mean the same.

        One may have more of them at the end, as vocabularies are filled up.
        """
        if self.model != other.model:
            return f"{self.model!r} is one's tokenizer and {other.model!r} the other's"
        pairs = zip(self._tokens, other._tokens, strict=False)
        differing = next((i for i, (a, b) in enumerate(pairs) if a != b), None)
        if differing is None:
            return None
        return (
            f"id {differing} is {self._tokens[differing]!r} in one and "
            f"{other._tokens[differing]!r} in the other"
        )

    @property
    def bos_text(self) -> str:
        """How the BOS token is written; "" where there is none."""
        return "" if self.bos_id is None else self._tokens[self.bos_id]

    @property
    def eos_text(self) -> str:
        """How the EOS token is written; "" where there is none."""
        return "" if self.eos_id is None else self._tokens[self.eos_id]

    def _type(self, token_id: int) -> int:
        if not 0 <= token_id < self.vocab_size:
            raise RequestError(
                f"token id {token_id} is not in the vocabulary: ids are 0 to {self.vocab_size - 1}",
                field="token_ids",
            )
        return self._types[token_id]

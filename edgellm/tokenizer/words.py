"""Text to ids word by word, with a memory of words. Knows nothing of how a word is encoded."""

from collections.abc import Callable, Iterable, Sequence

_REMEMBERED = 1 << 15  # words; then the memory starts anew
_LONGEST = 48  # characters; longer words are seldom seen twice


class WordEncoder:
    """Encodes a text as the concatenation of its words' ids.

    split: text -> words, in order, nothing lost. encode_word: word -> ids.
    """

    def __init__(
        self,
        split: Callable[[str], Iterable[str]],
        encode_word: Callable[[str], Sequence[int]],
    ) -> None:
        self._split = split
        self._encode_word = encode_word
        self._known: dict[str, Sequence[int]] = {}

    def encode(self, text: str) -> list[int]:
        known = self._known
        ids: list[int] = []
        for word in self._split(text):
            word_ids = known.get(word)
            if word_ids is None:
                word_ids = self._encode_word(word)
                if len(word) <= _LONGEST:
                    if len(known) >= _REMEMBERED:
                        known.clear()
                    known[word] = word_ids
            ids += word_ids
        return ids

"""SentencePiece's compiled normalisation: the longest rule that fits the next bytes, over and over.

Knows nothing of tokens. The map is a double-array trie whose units are 32-bit words (Yata et al.
2007: offset, label, and whether a value follows), with the replacements behind it, each ended by a
zero byte. A text that no rule matches stays as it is.
"""

import numpy as np
import numpy.typing as npt

from edgellm.errors import GGUFError

_LONGEST = 256  # bytes of a rule's left side; longer ones are not looked for


class Charsmap:
    """The rules in `data`; without any, texts stay as they are. GGUFError when it is damaged."""

    def __init__(self, data: bytes) -> None:
        self._units: list[int] = []
        self._texts = b""
        if data:
            size = int.from_bytes(data[:4], "little")
            if size % 4 or not 0 < size <= len(data) - 4 or not data.endswith(b"\0"):
                raise _damaged(f"{len(data)} bytes, of which {size} are to be a trie")
            units: npt.NDArray[np.uint32] = np.frombuffer(data, "<u4", size // 4, offset=4)
            self._units, self._texts = units.tolist(), data[4 + size :]

    def normalize(self, text: str) -> str:
        """The text after all rules, in one pass from left to right."""
        if not self._units:
            return text
        data, start, out = text.encode(), 0, bytearray()
        while start < len(data):
            length, replacement = self._rule(data, start)
            if not length:
                length = _character_bytes(data[start])
                replacement = data[start : start + length]
            out += replacement
            start += length
        return out.decode("utf-8", "replace")

    def _rule(self, data: bytes, start: int) -> tuple[int, bytes]:
        """The bytes that the longest rule takes, and what they become; 0 when there is none."""
        units, end = self._units, min(len(data), start + _LONGEST)
        length, value = 0, 0
        try:
            node = _offset(units[0])
            for place in range(start, end):
                node ^= data[place]
                unit = units[node]
                if unit & 0x800000FF != data[place]:
                    break
                node ^= _offset(unit)
                if unit >> 8 & 1:
                    length, value = place - start + 1, units[node] & 0x7FFFFFFF
        except IndexError:
            raise _damaged("a node that is not there") from None
        if not length:
            return 0, b""
        if value >= len(self._texts):
            raise _damaged("a rule without its replacement")
        return length, self._texts[value : self._texts.index(b"\0", value)]


def _offset(unit: int) -> int:
    """From a node to its children, whose places are this XOR their labels."""
    return unit >> 10 << ((unit & 1 << 9) >> 6)


def _character_bytes(first: int) -> int:
    """How many bytes a character has whose first one this is."""
    return 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4


def _damaged(found: str) -> GGUFError:
    return GGUFError(
        f"tokenizer.ggml.precompiled_charsmap holds {found}: the file is damaged, fetch it again"
    )

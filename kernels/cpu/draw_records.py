"""The records that tell the draw kernels what they are to draw."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from edgellm.kernels.cpu import draw_words as words
from edgellm.kernels.draw import Draw, Draws, Filter

Int64 = npt.NDArray[np.int64]

_KINDS: Mapping[Filter, int] = {
    "top_p": words.TOP_P,
    "min_p": words.MIN_P,
    "temperature": words.TEMPERATURE,
}


class DrawRecords:
    """A record for each sequence, `array` (sequences, WORDS); written anew where others draw."""

    def __init__(self) -> None:
        self.array = np.zeros((0, words.WORDS), np.int64)
        self._each: tuple[Draw, ...] = ()

    def begin(self, draws: Draws) -> Int64:
        """Where the tokens will be, (sequences, steps).

        ValueError for more than a record has room for.
        """
        if draws.each != self._each:
            self.array, self._each = _described(draws.each), draws.each
        tokens = np.zeros((len(draws.each), draws.steps), np.int64)
        self.array[:, words.IDS] = tokens.ctypes.data + np.arange(len(tokens)) * tokens.strides[0]
        self.array[:, words.STEPS] = draws.steps
        self.array[:, words.DRAWN] = 0
        return tokens


def _described(each: tuple[Draw, ...]) -> Int64:
    if len(each) > words.MOST_ROWS:
        raise ValueError(f"{len(each)} sequences: at most {words.MOST_ROWS} draw in one step")
    records = np.zeros((len(each), words.WORDS), np.int64)
    for record, draw in zip(records, each, strict=True):
        record[words.SOUGHT : words.SEED] = draw.sought, draw.kept, draw.min_keep
        record[words.SEED : words.SEED + 1].view(np.uint64)[0] = draw.seed
        record[words.SAMPLE_INDEX] = draw.sample_index
        record[words.NUM_FILTERS] = len(draw.filters)
        for place, (name, number) in enumerate(draw.filters):
            record[words.FILTERS + place] = _KINDS[name]
            record[words.NUMBERS :].view(np.float64)[place] = number
        record[words.NUM_BANNED] = len(draw.banned)
        record[words.BANNED : words.BANNED + len(draw.banned)] = draw.banned
    return records

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


def draw_records(draws: Draws) -> tuple[Int64, Int64]:
    """A record for each sequence, (sequences, WORDS), and where tokens will be, (sequences, steps).

    ValueError for more than a record has room for.
    """
    if len(draws.each) > words.MOST_ROWS:
        raise ValueError(f"{len(draws.each)} sequences: at most {words.MOST_ROWS} draw in one step")
    tokens = np.zeros((len(draws.each), draws.steps), np.int64)
    records = np.zeros((len(draws.each), words.WORDS), np.int64)
    for record, draw, place in zip(records, draws.each, tokens, strict=True):
        record[words.IDS] = place.ctypes.data
        record[words.STEPS] = draws.steps
        _describe(draw, record)
    return records, tokens


def _describe(draw: Draw, record: Int64) -> None:
    record[words.SOUGHT : words.SEED] = draw.sought, draw.kept, draw.min_keep
    record[words.SEED : words.SEED + 1].view(np.uint64)[0] = draw.seed
    record[words.SAMPLE_INDEX] = draw.sample_index
    record[words.NUM_FILTERS] = len(draw.filters)
    for place, (name, number) in enumerate(draw.filters):
        record[words.FILTERS + place] = _KINDS[name]
        record[words.NUMBERS :].view(np.float64)[place] = number
    record[words.NUM_BANNED] = len(draw.banned)
    record[words.BANNED : words.BANNED + len(draw.banned)] = draw.banned

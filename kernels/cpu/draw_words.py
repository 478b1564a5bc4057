"""Words (int64) of the record that says how the tokens of one sequence are drawn in a step.

Plain numbers, needed with and without Numba.
"""

from edgellm.kernels.draw import MOST_BANNED, MOST_FILTERS, MOST_SOUGHT

IDS = 0  # address of int64: where the tokens go, one of each step
STEPS = 1  # how many there will be
DRAWN = 2  # and are
SOUGHT = 3
KEPT = 4
MIN_KEEP = 5
SEED = 6
SAMPLE_INDEX = 7
NUM_FILTERS = 8
FILTERS = 9  # a kind of the below each
NUMBERS = FILTERS + MOST_FILTERS  # float64, of each filter
NUM_BANNED = NUMBERS + MOST_FILTERS
BANNED = NUM_BANNED + 1
WORDS = BANNED + MOST_BANNED

TOP_P, MIN_P, TEMPERATURE = range(3)

NO_NUMBERS = -1  # in place of a token: the logits were none

# What each thread found in its part of a row, in its scratch memory: float32 values, best first,
# one more that is 0 if all were finite, and int64 ids.
FOUND_IDS = 4 * (MOST_SOUGHT + 8)
FOUND_BYTES = FOUND_IDS + 8 * MOST_SOUGHT
MOST_ROWS = 256

"""Words (int64) of the record that the threads of a team share, each group on a cache line."""

WORDS_PER_LINE = 8

SEQUENCE = 0 * WORDS_PER_LINE  # number of steps posted
GENERATION = 1 * WORDS_PER_LINE  # number of barriers passed
ARRIVED = 2 * WORDS_PER_LINE  # threads waiting at the current barrier
STOP = 3 * WORDS_PER_LINE  # 1 asks workers to return for good
TABLE = 4 * WORDS_PER_LINE  # the posted step: op table, its length, step record
NUM_OPS = TABLE + 1
STEP = TABLE + 2
SPIN_ROUNDS = TABLE + 3  # rounds of waiting before a worker parks
YIELD_FUNCTION = TABLE + 4  # address of sched_yield or its like
STATES = 5 * WORDS_PER_LINE  # one line per thread: ACTIVE or PARKED

ACTIVE = 0
PARKED = 1


def num_words(threads: int) -> int:
    """Size of the record."""
    return STATES + threads * WORDS_PER_LINE

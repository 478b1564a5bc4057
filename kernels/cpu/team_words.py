"""Words (int64) of the record that the threads of a team share, each group on a cache line."""

WORDS_PER_LINE = 8

SEQUENCE = 0 * WORDS_PER_LINE  # number of steps posted * MOST_THREADS + threads of the newest
STOP = 1 * WORDS_PER_LINE  # 1 asks workers to return for good
TABLE = 2 * WORDS_PER_LINE  # what is posted: op table, its length, step record, how many times
NUM_OPS = TABLE + 1
STEP = TABLE + 2
TIMES = TABLE + 3
SPIN_ROUNDS = 3 * WORDS_PER_LINE  # rounds of waiting before a worker parks
YIELD_FUNCTION = SPIN_ROUNDS + 1  # addresses of the system's sched_yield, read and write
READ_FUNCTION = SPIN_ROUNDS + 2
WRITE_FUNCTION = SPIN_ROUNDS + 3
THREADS = 4 * WORDS_PER_LINE  # lines for each thread, of the words below
STATE = 0  # ACTIVE or PARKED
SLEEP_FILE = 1  # a parked worker reads one byte from here
WAKE_FILE = 2  # and whoever made it ACTIVE writes that byte here
BYTE = 3  # room for it
MEETINGS = 2 * WORDS_PER_LINE  # by round of a barrier: the last one that the thread came to
WORDS_PER_THREAD = MEETINGS + 2 * WORDS_PER_LINE

ACTIVE = 0
PARKED = 1
MOST_THREADS = 1 << 16
MOST_BARRIERS = 1 << 24  # of a step


def num_words(threads: int) -> int:
    """Size of the record."""
    return THREADS + threads * WORDS_PER_THREAD

"""Words of the two records that every kernel reads. Plain numbers, needed with and without Numba.

A kernel is called as kernel(args, step, thread, threads). `args` is its row of the op table; the
kernel's docstring lists the words in order, and `kernels/cpu/lower/` writes them in that order.
`step` is one record per forward pass with the words below; addresses are of the arrays of Batch.
"""

# The step record.
NUM_TOKENS = 0
NUM_OUTPUTS = 1
NUM_SEQS = 2
INPUT_IDS = 3
POSITIONS = 4
STATE_SLOTS = 5
SLOT_MAPPING = 6
BLOCK_TABLES = 7
BLOCKS_PER_SEQ = 8
LOGITS_ROWS = 9
SCRATCH = 10  # SCRATCH_BYTES for each thread
QUERY_START = 11
ADAPTER_SCALES = 12  # float32 (rows, adapters)
NUM_ADAPTERS = 13
PARTS = 14  # PARTS_BYTES that all threads see: PART_COUNTS words that are 0 between ops, and room
DRAWS = 15  # a record of draw_words for each sequence, where tokens are drawn
STEP_WORDS = 16

# The op table: the kernel's address, then its args. NEXT_WEIGHT and NEXT_BYTES: where the weights
# of the product after it are. Threads read ahead in them, each in its share: at the end of their
# own, and while they wait. WAIT is 1 where all threads must have finished before any goes on.
# CLAIMED, on a cache line of its own, counts the pieces of a large op that threads took; it is 0
# when an op begins. An op that reads LARGE_BYTES of weights is large: one FREE_PART-th of it is
# cut to pieces, the rest is shared evenly.
OP_WORDS = 32
NEXT_WEIGHT = 21
NEXT_BYTES = 22
WAIT = 23
CLAIMED = 24
LARGE_BYTES = 1 << 22
FREE_PART = 4

SCRATCH_BYTES = 1 << 20
PARTS_BYTES = 1 << 25
PART_COUNTS = 4096
LINE = 64  # bytes of a cache line
MAX_HEAD_DIM = 1024
MAX_POSITION = 1 << 30
BEST_GROUP = 64  # logits that are looked at one by one only if the best of them may be wanted
ROW_ALIGNMENT = 16  # floats: rows of values start and end on a cache line

# Rows of quantised activations: one record per 32 columns. All of it is what products need in
# one cache line: 32 int8 q, then at these bytes the float32 scale d, the float32 d * sum(q), the
# int32 -sum(q), and for each half int32 -sum(q) and float32 d * sum(q).
ACTIVATION_BLOCK = 32
ACTIVATION_BYTES = 64
SCALE = 32
SCALED_SUM = 36
MINUS_SUM = 40
MINUS_SUM_16 = 44
SCALED_SUM_16 = 52


def activation_row_bytes(columns: int) -> int:
    """Bytes of one row of quantised activations."""
    return columns // ACTIVATION_BLOCK * ACTIVATION_BYTES


def padded(width: int) -> int:
    """Floats from one row of a value to the next."""
    return -(-width // ROW_ALIGNMENT) * ROW_ALIGNMENT

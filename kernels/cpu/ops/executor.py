"""The loops that every thread of the team runs: wait for a step, call its ops, meet, wait again.

Shared words (int64) are described in team_words.py.
"""

import numpy as np

from edgellm.kernels.cpu.atomics import (
    ask_for,
    atomic_add,
    atomic_exchange_if,
    atomic_load,
    atomic_store,
    call_file,
    call_kernel,
    call_yield,
    pause,
    restore_float_mode,
    set_float_mode,
)
from edgellm.kernels.cpu.layout import CLAIMED, LINE, NEXT_BYTES, NEXT_WEIGHT, OP_WORDS, WAIT
from edgellm.kernels.cpu.ops.common import inline, split
from edgellm.kernels.cpu.simd import offset, pointer
from edgellm.kernels.cpu.team_words import (
    ACTIVE,
    ARRIVED,
    BYTE,
    GENERATION,
    MOST_THREADS,
    NUM_OPS,
    PARKED,
    READ_FUNCTION,
    SEQUENCE,
    SLEEP_FILE,
    SPIN_ROUNDS,
    STATE,
    STEP,
    STOP,
    TABLE,
    THREADS,
    TIMES,
    WAKE_FILE,
    WORDS_PER_LINE,
    WRITE_FUNCTION,
    YIELD_FUNCTION,
)

SPINS_BEFORE_YIELD = 2000
MOST_AHEAD = 1 << 18  # bytes that a waiting thread asks for: they must stay in its cache


@inline
def barrier(team, threads, done, num_done, ahead, end):
    """Returns once all threads have come here. The last one opens the next generation.

    done: the rows of the ops since the last barrier, whose counts of pieces become 0 again. Who
    waits asks for the memory from `ahead` to `end`; returns how far that went.
    """
    generation = atomic_load(offset(team, GENERATION))
    if atomic_add(offset(team, ARRIVED), 1) == threads - 1:
        for op in range(num_done):
            done[op * OP_WORDS + CLAIMED] = 0
        atomic_store(offset(team, ARRIVED), 0)
        atomic_store(offset(team, GENERATION), generation + 1)
        return ahead
    spins = 0
    while atomic_load(offset(team, GENERATION)) == generation:
        if ahead < end:
            ask_for(ahead)
            ahead += LINE
        else:
            pause()
        spins += 1
        if spins == SPINS_BEFORE_YIELD:  # another process may hold the core we wait for
            spins = 0
            call_yield(team[YIELD_FUNCTION])
    return ahead


@inline
def run_ops(team, thread, threads):
    """All ops of the posted table, as many times as is posted; the last one ends with a barrier."""
    mode = set_float_mode()
    table = pointer(team[TABLE], np.int64)
    step = pointer(team[STEP], np.int64)
    num_ops = team[NUM_OPS]
    weight, ahead, end = 0, 0, 0
    for _ in range(team[TIMES]):
        first = 0
        for op in range(num_ops):
            row = offset(table, op * OP_WORDS)
            call_kernel(row[0], offset(row, 1), step, thread, threads)
            if threads > 1 and row[WAIT]:
                if row[NEXT_WEIGHT] != weight:
                    weight = row[NEXT_WEIGHT]
                    begin, end = split(row[NEXT_BYTES], thread, threads)
                    ahead = weight + begin
                    end = min(weight + end, ahead + MOST_AHEAD)
                done = offset(table, first * OP_WORDS)
                ahead = barrier(team, threads, done, op + 1 - first, ahead, end)
                first = op + 1
    restore_float_mode(mode)


@inline
def sleep(team, line):
    """Waits until somebody wakes the worker with this line."""
    word = offset(team, line)
    place = offset(word, BYTE)
    # The call may also return because of a signal: then there was no byte.
    while call_file(team[READ_FUNCTION], word[SLEEP_FILE], place, 1) != 1:
        if atomic_load(offset(team, STOP)):
            return


def make_lead():
    def lead(team, unused, thread, threads):
        """Posts the step that the record describes to the first `threads` threads of the team.

        Wakes those that sleep, and does thread 0's part.
        """
        steps = atomic_load(offset(team, SEQUENCE)) // MOST_THREADS + 1
        atomic_store(offset(team, SEQUENCE), steps * MOST_THREADS + threads)
        for worker in range(1, threads):
            word = offset(team, THREADS + worker * WORDS_PER_LINE)
            if atomic_exchange_if(offset(word, STATE), PARKED, ACTIVE) == PARKED:
                call_file(team[WRITE_FUNCTION], word[WAKE_FILE], offset(word, BYTE), 1)
        run_ops(team, thread, threads)

    return lead


def make_work():
    def work(team, unused, thread, threads):
        """A worker: runs steps until told to stop, and sleeps when none came for SPIN_ROUNDS.

        It misses none that it takes part in, because the lead waits for it.
        When parking loses the race against a new step, either the worker takes its state back, or
        the poster was faster and has a byte on its way to end the sleep.
        """
        line = THREADS + thread * WORDS_PER_LINE
        state = offset(team, line + STATE)
        seen, idle = 0, 0
        while atomic_load(offset(team, STOP)) == 0:
            posted = atomic_load(offset(team, SEQUENCE))
            if posted != seen:
                seen = posted
                if thread < posted % MOST_THREADS:
                    run_ops(team, thread, posted % MOST_THREADS)
                    idle = 0
                    continue
            pause()
            idle += 1
            if idle % SPINS_BEFORE_YIELD == 0:
                call_yield(team[YIELD_FUNCTION])
            if idle < team[SPIN_ROUNDS]:
                continue
            idle = 0
            atomic_store(state, PARKED)
            if atomic_load(offset(team, SEQUENCE)) != seen:
                if atomic_exchange_if(state, PARKED, ACTIVE) == PARKED:
                    continue
            sleep(team, line)

    return work


KERNELS = {"lead": make_lead, "work": make_work}

"""The loops that every thread of the team runs: wait for a step, call its ops, meet, wait again.

Shared words (int64) are described in team_words.py.
"""

import numpy as np

from edgellm.kernels.cpu.atomics import (
    ask_for,
    atomic_exchange_if,
    atomic_load,
    atomic_store,
    call_file,
    call_kernel,
    call_yield,
    load_acquire,
    pause,
    restore_float_mode,
    set_float_mode,
    store_release,
)
from edgellm.kernels.cpu.layout import CLAIMED, LINE, NEXT_BYTES, NEXT_WEIGHT, OP_WORDS, WAIT
from edgellm.kernels.cpu.ops.common import inline, split
from edgellm.kernels.cpu.simd import offset, pointer
from edgellm.kernels.cpu.team_words import (
    ACTIVE,
    BYTE,
    MEETINGS,
    MOST_BARRIERS,
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
    WORDS_PER_THREAD,
    WRITE_FUNCTION,
    YIELD_FUNCTION,
)

SPINS_BEFORE_YIELD = 2000
MOST_AHEAD = 1 << 18  # bytes that a waiting thread asks for: they must stay in its cache


@inline
def meetings(team, thread):
    """The words by which a thread tells where it has come to, by round."""
    return offset(team, THREADS + thread * WORDS_PER_THREAD + MEETINGS)


@inline
def barrier(team, thread, threads, number, ahead, end):
    """Returns once all threads have come to the barrier of this number, which only grows.

    In round r a thread tells the one 2 ** r after it, and waits for the one as far before it: so
    nobody waits for more than one word at a time, nor writes what another writes. (Hensgen, Finkel
    and Manber 1988, the dissemination barrier.) Who waits asks for the memory from `ahead` to
    `end`; returns how far that went.
    """
    mine = meetings(team, thread)
    distance, turn, spins = 1, 0, 0
    while distance < threads:
        theirs = offset(meetings(team, (thread + threads - distance) % threads), turn)
        store_release(offset(mine, turn), number)
        while load_acquire(theirs) < number:
            if ahead < end:
                ask_for(ahead)
                ahead += LINE
            else:
                pause()
            spins += 1
            if spins == SPINS_BEFORE_YIELD:  # another process may hold the core we wait for
                spins = 0
                call_yield(team[YIELD_FUNCTION])
        distance *= 2
        turn += 1
    return ahead


@inline
def run_ops(team, thread, threads, steps):
    """All ops of the posted table, as many times as is posted; the last one ends with a barrier.

    steps: how many were posted so far, with this one.
    """
    mode = set_float_mode()
    table = pointer(team[TABLE], np.int64)
    step = pointer(team[STEP], np.int64)
    num_ops, number = team[NUM_OPS], steps * MOST_BARRIERS
    weight, ahead, end = 0, 0, 0
    for _ in range(team[TIMES]):
        first = 0
        for op in range(num_ops):
            row = offset(table, op * OP_WORDS)
            call_kernel(row[0], offset(row, 1), step, thread, threads)
            if threads == 1 or not row[WAIT]:
                continue
            if row[NEXT_WEIGHT] != weight:
                weight = row[NEXT_WEIGHT]
                begin, end = split(row[NEXT_BYTES], thread, threads)
                ahead = weight + begin
                end = min(weight + end, ahead + MOST_AHEAD)
            ahead = barrier(team, thread, threads, number, ahead, end)
            number += 1
            if thread == 0:  # nobody comes back to these ops before the barrier after this one
                for i in range(first, op + 1):
                    table[i * OP_WORDS + CLAIMED] = 0
            if first == 0 and op + 1 == num_ops:
                ahead = barrier(team, thread, threads, number, ahead, end)
                number += 1
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
            word = offset(team, THREADS + worker * WORDS_PER_THREAD)
            if atomic_exchange_if(offset(word, STATE), PARKED, ACTIVE) == PARKED:
                call_file(team[WRITE_FUNCTION], word[WAKE_FILE], offset(word, BYTE), 1)
        run_ops(team, thread, threads, steps)

    return lead


def make_work():
    def work(team, unused, thread, threads):
        """A worker: runs steps until told to stop, and sleeps when none came for SPIN_ROUNDS.

        It misses none that it takes part in, because the lead waits for it.
        When parking loses the race against a new step, either the worker takes its state back, or
        the poster was faster and has a byte on its way to end the sleep.
        """
        line = THREADS + thread * WORDS_PER_THREAD
        state = offset(team, line + STATE)
        seen, idle = 0, 0
        while atomic_load(offset(team, STOP)) == 0:
            posted = atomic_load(offset(team, SEQUENCE))
            if posted != seen:
                seen = posted
                if thread < posted % MOST_THREADS:
                    run_ops(team, thread, posted % MOST_THREADS, posted // MOST_THREADS)
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

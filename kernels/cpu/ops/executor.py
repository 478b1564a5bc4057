"""The loops that every thread of the team runs: wait for a step, call its ops, meet, wait again.

Shared words (int64) are described in team.py.
"""

import numpy as np

from edgellm.kernels.cpu.atomics import (
    atomic_add,
    atomic_exchange_if,
    atomic_load,
    atomic_store,
    call_kernel,
    call_yield,
    pause,
    restore_float_mode,
    set_float_mode,
)
from edgellm.kernels.cpu.layout import OP_WORDS
from edgellm.kernels.cpu.ops.common import inline
from edgellm.kernels.cpu.simd import offset, pointer
from edgellm.kernels.cpu.team_words import (
    ACTIVE,
    ARRIVED,
    GENERATION,
    NUM_OPS,
    PARKED,
    SEQUENCE,
    SPIN_ROUNDS,
    STATES,
    STEP,
    STOP,
    TABLE,
    WORDS_PER_LINE,
    YIELD_FUNCTION,
)

SPINS_BEFORE_YIELD = 2000


@inline
def barrier(team, threads):
    """Returns once all threads have come here. The last one opens the next generation."""
    generation = atomic_load(offset(team, GENERATION))
    if atomic_add(offset(team, ARRIVED), 1) == threads - 1:
        atomic_store(offset(team, ARRIVED), 0)
        atomic_store(offset(team, GENERATION), generation + 1)
        return
    spins = 0
    while atomic_load(offset(team, GENERATION)) == generation:
        pause()
        spins += 1
        if spins == SPINS_BEFORE_YIELD:  # another process may hold the core we wait for
            spins = 0
            call_yield(team[YIELD_FUNCTION])


@inline
def run_ops(team, thread, threads):
    """All ops of the posted table, with a barrier after each."""
    mode = set_float_mode()
    table = pointer(team[TABLE], np.int64)
    step = pointer(team[STEP], np.int64)
    for op in range(team[NUM_OPS]):
        row = offset(table, op * OP_WORDS)
        call_kernel(row[0], offset(row, 1), step, thread, threads)
        if threads > 1:
            barrier(team, threads)
    restore_float_mode(mode)


def make_lead():
    def lead(team, unused, thread, threads):
        """Thread 0's part of a posted step."""
        run_ops(team, thread, threads)

    return lead


def make_work():
    def work(team, seen, thread, threads):
        """A worker: runs steps until none came for SPIN_ROUNDS rounds, then parks and returns.

        seen[0] is the last step this worker has run. When parking loses the race against a new
        step, either the worker takes its state back and goes on, or the poster has already
        counted on waking it and the worker returns to be woken at once.
        """
        state = offset(team, STATES + thread * WORDS_PER_LINE)
        idle = 0
        while atomic_load(offset(team, STOP)) == 0:
            if atomic_load(offset(team, SEQUENCE)) != seen[0]:
                seen[0] += 1
                run_ops(team, thread, threads)
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
            if atomic_load(offset(team, SEQUENCE)) == seen[0]:
                return
            if atomic_exchange_if(state, PARKED, ACTIVE) != PARKED:
                return

    return work


def make_post():
    def post(team, woken, thread, threads):
        """Announces a step; woken[w] becomes 1 for each parked worker that must be woken."""
        atomic_add(offset(team, SEQUENCE), 1)
        for worker in range(1, threads):
            state = offset(team, STATES + worker * WORDS_PER_LINE)
            parked = atomic_exchange_if(state, PARKED, ACTIVE) == PARKED
            woken[worker] = 1 if parked else 0

    return post


KERNELS = {"lead": make_lead, "work": make_work, "post": make_post}

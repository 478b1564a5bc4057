"""Fewer threads while other programs hold the cores, and all of them again when they are gone."""

from collections.abc import Callable

import pytest
from hypothesis import given, strategies as st

from edgellm.kernels.cpu.pace import Pace, seconds_waited


class Machine:
    """Scripted time: every step takes 10 ms, of which its thread waits for a core `part`."""

    def __init__(self, threads: int) -> None:
        self.time = self.waited = 0.0
        self.fresh = 0  # steps with so many threads
        self.pace = Pace(threads, lambda: self.waited, lambda: self.time)

    def steps(self, seconds: float, part: Callable[[int], float]) -> list[int]:
        """Runs steps for a while; part: by how many threads there are. Threads of each step."""
        taken = []
        end = self.time + seconds
        while self.time < end:
            begin = self.time
            self.fresh = self.fresh + 1 if taken[-1:] == [self.pace.threads] else 0
            taken.append(self.pace.threads)
            self.time += 0.010
            self.waited += 0.010 * part(self.pace.threads)
            self.pace.ran(begin)
        return taken


@pytest.mark.parametrize("threads", [1, 2, 4, 6, 16])
def test_all_threads_run_on_a_quiet_machine(threads: int) -> None:
    assert set(Machine(threads).steps(3.0, lambda n: 0.01)) == {threads}


@pytest.mark.parametrize("threads", [2, 4, 6, 16])
def test_one_thread_runs_when_every_core_is_taken(threads: int) -> None:
    taken = Machine(threads).steps(30.0, lambda n: 0.75)
    assert taken.count(1) > 0.85 * len(taken)


@pytest.mark.parametrize("threads", [2, 16])
def test_a_short_disturbance_changes_nothing(threads: int) -> None:
    machine = Machine(threads)
    for _ in range(20):
        assert set(machine.steps(0.05, lambda n: 0.9) + machine.steps(0.3, lambda n: 0.0)) == {
            threads
        }


def test_threads_may_settle() -> None:
    """Right after they are woken the system has some of them on one core."""
    machine = Machine(2)
    machine.steps(5.0, lambda n: 0.75)
    assert machine.pace.threads == 1
    machine.steps(16.0, lambda n: 0.45 if n == 2 and machine.fresh < 8 else 0.0)
    assert machine.pace.threads == 2


def test_all_threads_return_when_the_others_are_gone() -> None:
    machine = Machine(8)
    machine.steps(20.0, lambda n: 0.75)
    assert machine.pace.threads < 8
    machine.steps(16.0 + 3 * 1.2, lambda n: 0.0)
    assert machine.pace.threads == 8


def test_as_many_threads_run_as_find_a_core() -> None:
    """Half of the cores are taken for good: trials of more threads are rare."""
    taken = Machine(8).steps(60.0, lambda n: 0.5 if n > 4 else 0.02)
    assert taken.count(4) > 0.9 * len(taken)
    assert set(taken) == {4, 8}


def test_where_nobody_counts_all_threads_run() -> None:
    time = iter(range(1000))
    pace = Pace(4, lambda: None, lambda: float(next(time)))
    for begin in range(100):
        pace.ran(float(begin))
    assert pace.threads == 4


@given(st.integers(1, 64), st.lists(st.tuples(st.floats(0.06, 3.0), st.floats(0.0, 2.0))))
def test_there_are_always_some_threads(threads: int, windows: list[tuple[float, float]]) -> None:
    time = waited = 0.0
    pace = Pace(threads, lambda: waited, lambda: time)
    for seconds, part in windows:
        begin = time
        time += seconds
        waited += seconds * part
        pace.ran(begin)
        assert 1 <= pace.threads <= threads


def test_the_system_counts_or_says_that_it_does_not() -> None:
    found = seconds_waited()
    assert found is None or found >= 0.0

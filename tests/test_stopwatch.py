"""What a request's times are."""

import pytest

from edgellm import stopwatch
from edgellm.stopwatch import Stopwatch
from edgellm.types import Timings


def test_times_are_those_of_the_first_beginning_and_the_first_token(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = iter([1.0, 3.0, 7.0, 20.0])
    monkeypatch.setattr(stopwatch.time, "monotonic", lambda: next(clock))
    watch = Stopwatch(submitted=0.5)
    watch.begin()
    watch.begin()
    watch.take_token()
    watch.take_token()
    assert watch.timings() == Timings(queued=0.5, first_token=2.5, decode=4.0)


def test_who_never_ran_waited_all_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopwatch.time, "monotonic", lambda: 9.0)
    assert Stopwatch(submitted=4.0).timings() == Timings(5.0, 5.0, 0.0)

"""How often guesses were right and what they took: what is forgotten, and when."""

import pytest

from edgellm.drafters.learning import GuessTime, HitRate


def test_one_slow_guess_is_an_accident() -> None:
    time = GuessTime()
    for seconds in (90.0, 1.0, 1.0, 50.0, 2.0):
        time.observe(seconds)
    assert time.seconds == 1.5


def test_a_bad_moment_is_forgotten_when_nothing_is_guessed() -> None:
    time = GuessTime()
    for seconds in (1.0, 50.0):
        time.observe(seconds)
    for _ in range(255):
        time.fade()
    assert time.seconds == 50.0
    time.fade()
    assert time.seconds == 0.0


def test_hits_count_the_more_the_newer_they_are() -> None:
    hits = HitRate()
    before = hits.chance
    for _ in range(50):
        hits.count(False)
    low = hits.chance
    hits.count(True)
    assert low < 0.05 < hits.chance < before
    for _ in range(2000):
        hits.recover()
    assert hits.chance == pytest.approx(before, abs=0.01)

"""What repetition costs: penalties and DRY, against plain definitions."""

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, strategies as st

from edgellm.sampling.candidates import Candidates, Float32
from edgellm.sampling.dry import dry
from edgellm.sampling.penalties import penalties
from tests.sampling.rows import LOGITS, Words, forms, ids, step

HISTORY = st.lists(st.integers(0, 5), max_size=40)


def by_id(candidates: Candidates) -> dict[int, float]:
    return dict(zip(ids(candidates), candidates.logits.tolist(), strict=True))


def test_penalties_of_an_example() -> None:
    logits = np.array([2.0, -2.0, 1.0, 5.0], np.float32)
    now = step(
        [3, 0, 1, 1, 0],  # the 3 is too long ago
        repeat_penalty=2.0,
        presence_penalty=0.5,
        frequency_penalty=0.25,
        repeat_last_n=4,
    )
    changed = penalties(Candidates(logits), now)
    assert changed.logits.tolist() == [2 / 2 - 0.5 - 0.5, -2 * 2 - 0.5 - 0.5, 1.0, 5.0]
    assert logits.tolist() == [2.0, -2.0, 1.0, 5.0]


@given(
    LOGITS.filter(lambda row: len(row) > 5),
    HISTORY,
    st.integers(-1, 50),
    st.floats(0.5, 2.0),
    st.floats(-2.0, 2.0),
    st.floats(-2.0, 2.0),
)
def test_penalties(
    logits: Float32, history: list[int], n: int, repeat: float, presence: float, frequency: float
) -> None:
    now = step(
        history,
        repeat_penalty=repeat,
        presence_penalty=presence,
        frequency_penalty=frequency,
        repeat_last_n=n,
    )
    recent = Counter(history if n < 0 else history[len(history) - n :] if n else [])
    if 0 <= len(history) < n:
        recent = Counter(history)
    for candidates in forms(logits):
        for token, logit in by_id(penalties(candidates, now)).items():
            expected = float(logits[token])
            if recent[token]:
                expected = expected / repeat if expected > 0 else expected * repeat
                expected -= recent[token] * frequency + presence
            assert logit == pytest.approx(expected, rel=1e-5, abs=1e-5)


def test_penalties_look_up_what_is_left_of_the_candidates() -> None:
    few = Candidates(np.array([3.0, 2.0], np.float32), np.array([7, 2]), is_sorted=True)
    changed = penalties(few, step([2, 9, 2], presence_penalty=1.0))
    assert by_id(changed) == {2: 1.0, 7: 3.0} and not changed.is_sorted


def longest_repeats(history: list[int], limit: int) -> dict[int, int]:
    """Per token: the longest end of the history that also stands before that token."""
    found: dict[int, int] = {}
    for at in range(len(history) - 1):
        length = 0
        while length < limit and length <= at and history[at - length] == history[-1 - length]:
            length += 1
        if length:
            found[history[at + 1]] = max(found.get(history[at + 1], 0), length)
    return found


@given(
    LOGITS.filter(lambda row: len(row) > 5),
    HISTORY,
    st.integers(-1, 50).filter(bool),
    st.integers(0, 4),
    st.sampled_from([1.0, 1.5, 2.0]),
)
def test_dry(logits: Float32, history: list[int], n: int, allowed: int, base: float) -> None:
    words = Words([b"a", b" b", b"c.", b"d", b"e", b"f\n"])
    now = step(
        history,
        words,
        dry_multiplier=0.5,
        dry_base=base,
        dry_allowed_length=allowed,
        dry_penalty_last_n=n,
        dry_sequence_breakers=("\n",),
    )
    window = history if n < 0 else history[-n:]
    since = window[::-1].index(5) if 5 in window else len(window)
    repeats = longest_repeats(window, since if base > 1 else min(since, allowed))
    for candidates in forms(logits):
        for token, logit in by_id(dry(candidates, now)).items():
            expected, length = float(logits[token]), repeats.get(token, 0)
            if length and length >= allowed:
                expected -= 0.5 * base ** (length - allowed)
            assert logit == pytest.approx(expected, rel=1e-5)


def test_dry_of_its_description() -> None:
    """multiplier * base ^ (length - allowed length), for the token that would go on."""
    words = Words([b"one ", b"two ", b"three ", b"four ", b"five "])
    history = [0, 1, 2, 3, 4, 0, 1, 2]
    now = step(history, words, dry_multiplier=0.8)
    changed = dry(Candidates(np.zeros(5, np.float32)), now)
    assert changed.logits.tolist() == pytest.approx([0, 0, 0, -0.8 * 1.75 ** (3 - 2), 0])


@pytest.mark.parametrize(
    ("pieces", "breakers", "last"),
    [
        ([b"x", b"y", b"z: "], (":",), 1),
        ([b"x", b"y", b"**"], ("*",), 1),
        ([b"x", b"y", b"<br"], ("<br>",), 3),  # only with the ">" that never comes
        ([b"x", b"y>", b"<br"], ("<bry>",), 0),  # over two tokens, the second is the last
        ([b"x", b"y", b"z"], (), 3),
        ([b"x", b"\xc3", b"\xc3"], ("é",), 3),
    ],
)
def test_a_phrase_does_not_go_over_a_breaker(
    pieces: list[bytes], breakers: tuple[str, ...], last: int
) -> None:
    """The history ends 2 1, as it did two tokens before that."""
    history = [0, 2, 1, 0, 2, 1]
    now = step(
        history,
        Words(pieces),
        dry_multiplier=1.0,
        dry_base=2.0,
        dry_allowed_length=1,
        dry_sequence_breakers=breakers,
    )
    changed = dry(Candidates(np.zeros(3, np.float32)), now)
    assert changed.logits[0] == (-(2.0 ** (last - 1)) if last else 0)


def test_dry_stays_finite_and_quick_on_endless_repetition() -> None:
    now = step([1] * 8000, dry_multiplier=100.0, dry_base=100.0, dry_penalty_last_n=-1)
    changed = dry(Candidates(np.zeros(3, np.float32)), now)
    assert math.isfinite(changed.logits[1]) and changed.logits[1] < -1e30

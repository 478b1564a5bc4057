"""The random numbers, and that what is drawn follows the distribution."""

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from hypothesis.extra.numpy import arrays

from edgellm.sampling import Sampler
from edgellm.sampling.candidates import Float32
from edgellm.sampling.draws import philox, uniform
from edgellm.sampling.mass import draw
from edgellm.sampling_params import SamplingParams
from tests.sampling.rows import LONG, Words, softmax


# Known answers of Random123's philox4x32-10.
@pytest.mark.parametrize(
    ("counter", "key", "words"),
    [
        ((0,) * 4, (0,) * 2, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_philox_gives_the_published_words(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: str
) -> None:
    assert " ".join(f"{word:08x}" for word in philox(counter, key)) == words


def test_a_draw_depends_on_seed_answer_position_and_purpose() -> None:
    places = [
        (0, 0, 0, 0),
        (0, 1, 0, 0),
        (0, 0, 1, 0),
        (0, 0, 0, 1),
        *((1 << bit, 0, 0, 0) for bit in range(64)),
    ]
    assert len({uniform(*place) for place in places}) == len(places)
    assert all(0 <= uniform(*place) < 1 for place in places)


@given(
    arrays(np.float32, st.integers(1, 1500), elements=st.sampled_from([0.0, -np.inf])),
    st.floats(0.0, 1.0, exclude_max=True),
)
def test_a_draw_is_where_the_running_sum_passes(logits: Float32, share: float) -> None:
    logits[len(logits) // 2] = 0.0  # weights of 0 and 1: all sums are exact
    weights = np.exp(logits.astype(np.float64))
    passed = np.flatnonzero(np.cumsum(weights) > share * weights.sum())
    assert draw(logits, share) == passed[0] and weights[passed[0]] > 0


@settings(max_examples=30, deadline=None)
@given(LONG, st.floats(0.0, 1.0, exclude_max=True))
def test_a_draw_from_many_is_where_the_running_sum_passes(logits: Float32, share: float) -> None:
    masses = np.cumsum(softmax(logits))
    place = draw(logits, share)
    assert masses[place] > share - 1e-6 and np.isfinite(logits[place])
    assert place == 0 or masses[place - 1] < share + 1e-6


def test_draws_follow_the_distribution() -> None:
    """Chi-square with 7 degrees of freedom: 24.3 is passed once in a thousand seeds."""
    logits = np.array([0.3, 1.2, -0.7, 2.0, 0.0, -1.5, 0.9, 1.1], np.float32)
    params = SamplingParams(temperature=0.7, top_k=0, top_p=1.0, min_p=0.0)
    expected = np.array(softmax(logits / np.float32(0.7)))
    draws = 4000
    seen = np.zeros(8)
    for seed in range(draws):
        seen[Sampler(params, Words(), seed=seed).sample(logits, [])] += 1
    assert ((seen - draws * expected) ** 2 / (draws * expected)).sum() < 24.3


def test_banned_tokens_are_never_drawn() -> None:
    logits = np.array([-math.inf, 0.0, -math.inf, 0.0], np.float32)
    params = SamplingParams(top_k=0, top_p=1.0, min_p=0.0)
    sampler = Sampler(params, Words(), seed=3)
    assert {sampler.sample(logits, [0] * i) for i in range(200)} == {1, 3}

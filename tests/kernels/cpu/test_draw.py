"""Tokens drawn in a step against the same draws outside one."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings, strategies as st

from edgellm.config import cache_dir
from edgellm.kernels.cpu import draw_words as words, layout
from edgellm.kernels.cpu.draw_records import DrawRecords
from edgellm.kernels.cpu.memory import aligned_bytes
from edgellm.kernels.cpu.objects import KERNEL_TYPE, Library
from edgellm.kernels.draw import Draw, Draws
from edgellm.kernels.kv import BLOCK_SIZE
from edgellm.sampling import Sampler
from edgellm.sampling_params import SamplingParams
from tests.sampling.rows import LOGITS, LONG, Words

Rows = npt.NDArray[np.float32]
KEYS = (("best_parts",), ("draw",))


class Step:
    """One step's logits, and the arrays that drawing moves on."""

    def __init__(self, library: Library, logits: Rows, position: int, threads: int) -> None:
        self.library, self.logits, self.threads = library, np.ascontiguousarray(logits), threads
        rows = len(logits)
        self.inputs = np.full(rows, 9, np.int32)
        self.positions = np.full(rows, position, np.int32)
        # Two groups of layers; the blocks of row r are 100 r, 100 r + 1, ..., and 7 more.
        blocks = np.arange(40, dtype=np.int32) + 100 * np.arange(rows, dtype=np.int32)[:, None]
        self.tables = np.ascontiguousarray(np.stack([blocks, blocks + 7]))
        self.slots = np.zeros((2, rows), np.int64)
        self.records = DrawRecords()
        self.scratch = aligned_bytes(threads * layout.SCRATCH_BYTES)

    def draw(self, draws: Draws) -> npt.NDArray[np.int64]:
        tokens = self.records.begin(draws)
        step = np.zeros(layout.STEP_WORDS, np.int64)
        step[layout.NUM_TOKENS] = step[layout.NUM_OUTPUTS] = step[layout.NUM_SEQS] = len(tokens)
        step[layout.BLOCKS_PER_SEQ] = self.tables.shape[2]
        for word, array in (
            (layout.INPUT_IDS, self.inputs),
            (layout.POSITIONS, self.positions),
            (layout.SLOT_MAPPING, self.slots),
            (layout.BLOCK_TABLES, self.tables),
            (layout.SCRATCH, self.scratch),
            (layout.DRAWS, self.records.array),
        ):
            step[word] = array.ctypes.data
        width = self.logits.shape[1]
        args = {
            "best_parts": np.array([self.logits.ctypes.data, width, width], np.int64),
            "draw": np.array([2], np.int64),
        }
        for _ in range(draws.steps):
            for key in KEYS:
                call = KERNEL_TYPE(self.library.address(key))
                for thread in range(self.threads):
                    call(args[key[0]].ctypes.data, step.ctypes.data, thread, self.threads)
        return tokens


@pytest.fixture(scope="module")
def library() -> Library:
    library = Library(cache_dir())
    library.load(KEYS)
    return library


def drawn_by(sampler: Sampler, generated: int = 0) -> Draw:
    found = sampler.draw(generated, 9)
    assert found is not None
    return found[0]


@settings(max_examples=200, deadline=None)
@given(
    logits=LOGITS | LONG,
    others=st.lists(st.integers(0, 2**32), max_size=3),
    threads=st.sampled_from([1, 2, 3, 7]),
    position=st.integers(0, 900),
    params=st.fixed_dictionaries(
        {
            "temperature": st.sampled_from([0.0, 0.3, 1.0, 2.5]),
            "top_k": st.integers(1, 50),
            "top_p": st.sampled_from([0.1, 0.9, 0.95, 1.0]),
            "min_p": st.sampled_from([0.0, 0.05, 0.5]),
            "min_keep": st.integers(0, 60),
            "samplers": st.permutations(["temperature", "top_p", "min_p"]).map(
                lambda names: ("top_k", *names)
            ),
        }
    ),
    seed=st.integers(0, 2**64 - 1),
    index=st.integers(0, 5),
    banned=st.sets(st.integers(0, 20), max_size=4),
)
def test_a_token_is_the_one_that_a_sampler_draws(
    library: Library,
    logits: Rows,
    others: list[int],
    threads: int,
    position: int,
    params: dict[str, Any],
    seed: int,
    index: int,
    banned: set[int],
) -> None:
    rows = [logits, *(np.random.default_rng(n).permutation(logits) for n in others)]
    biases = {token: -np.inf for token in banned if token < len(logits)}
    if len(biases) == len(logits):
        biases = {}
    samplers = [
        Sampler(SamplingParams(**params), Words(), seed=seed, sample_index=index + i, biases=biases)
        for i in range(len(rows))
    ]
    step = Step(library, np.array(rows), position, threads)
    draws = tuple(map(drawn_by, samplers))
    step.records.begin(Draws(draws[::-1], 1))  # others drew before
    tokens = step.draw(Draws(draws, 3))
    for row, sampler, own in zip(rows, samplers, tokens.tolist(), strict=True):
        if np.isneginf(row[[i for i in range(len(row)) if i not in biases]]).all():
            continue
        want = [sampler.sample(row, [0] * (position + 1 + i)) for i in range(3)]
        assert own == want
    # The last token is left for whoever packs the next step.
    assert step.positions.tolist() == [position + 2] * len(rows)
    assert step.inputs.tolist() == tokens[:, 1].clip(min=0).tolist()
    block, within = divmod(position + 2, BLOCK_SIZE)
    assert step.slots.tolist() == (step.tables[:, :, block] * BLOCK_SIZE + within).tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 63, 64, 150, 299])
def test_no_token_comes_of_what_is_no_number(library: Library, bad: float, place: int) -> None:
    logits = np.zeros((2, 300), np.float32)
    logits[1, place] = bad
    step = Step(library, logits, 5, 2)
    assert step.draw(Draws((Draw(), Draw()), 2)).tolist() == [[0, 0], [words.NO_NUMBERS] * 2]
    assert step.inputs.tolist() == [0, 0]


def test_a_row_of_minus_infinity_has_a_best_logit_where_one_is_a_number(library: Library) -> None:
    logits = np.full((2, 300), -np.inf, np.float32)
    logits[0, 170] = -3.0
    step = Step(library, logits, 5, 2)
    assert step.draw(Draws((Draw(), Draw()), 1)).tolist() == [[170], [words.NO_NUMBERS]]


def test_a_record_has_room_for_so_much() -> None:
    with pytest.raises(ValueError, match="at most 256"):
        DrawRecords().begin(Draws((Draw(),) * 257, 1))

"""What the cache gives back has the bits of a fresh run, on real programs of tiny models."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from edgellm.consumer import OnlyTakes, Rows
from edgellm.engine import Engine
from edgellm.sequence import Sequence
from edgellm.types import SamplingParams
from tests.engines import opened
from tests.models.tiny import VOCAB, write_tiny

CONTEXT = 120
Prompt = tuple[int, ...]


class Greedy(OnlyTakes):
    """Takes the most likely token `count` times; keeps the bits of each row that it saw."""

    def __init__(self, prompt: Prompt, count: int, request_id: str = "r") -> None:
        self.request_id = request_id
        self.sequence = Sequence(list(prompt), len(prompt), SamplingParams())
        self.count = count
        self.rows: list[bytes] = []
        self.error: Exception | None = None

    def begin(self) -> None:
        pass

    def take(self, rows: Rows, drafts: object = ()) -> bool:
        self.rows.append(rows[-1].tobytes())
        self.sequence.token_ids.append(int(rows[-1].argmax()))
        return len(self.rows) == self.count

    def abort(self) -> None:
        pass

    def fail(self, error: Exception) -> None:
        self.error = error


def finish(engine: Engine) -> None:
    while engine.has_work:
        engine.step()
        engine.check_integrity()


@pytest.fixture(scope="module")
def make_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Engine]]:
    """Engines of tiny models on the cpu backend, by architecture."""
    folder = tmp_path_factory.mktemp("models")
    with ExitStack() as stack:

        def make(name: str, max_num_seqs: int = 16, **options: object) -> Engine:
            path = folder / f"{name}.gguf"
            written = path if path.exists() else write(folder, name)
            sizes = {"context_length": CONTEXT, "max_num_seqs": max_num_seqs, "threads": 1}
            return stack.enter_context(opened(written, **sizes, **options))

        yield make


def write(folder: Path, name: str) -> Path:
    return write_tiny(folder, name)


NAMES = ["llama", "gemma3", "mamba", "lfm2"]
COUNT = 3

# Prompts that share beginnings, whole and in the middle of a block, and differ somewhere.
BASE = np.random.default_rng(0).integers(0, VOCAB, CONTEXT).tolist()


@st.composite
def prompts(draw: st.DrawFn) -> Prompt:
    shared = draw(st.sampled_from([0, 1, 31, 32, 33, 40, 64, 65, 90]))
    own = draw(st.lists(st.integers(0, 3), min_size=shared == 0, max_size=20))
    return (*BASE[:shared], *own)


@pytest.mark.parametrize("name", NAMES)
def test_bits_are_those_of_a_fresh_run(make_engine: Callable[..., Engine], name: str) -> None:
    fresh = make_engine(name, max_num_seqs=1)
    shared = make_engine(name)

    @cache
    def expected(prompt: Prompt) -> list[bytes]:
        fresh.clear_cache()
        alone = Greedy(prompt, COUNT)
        fresh.add(alone)
        finish(fresh)
        assert alone.sequence.num_cached_tokens is not None
        return alone.rows

    @settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(prompts(), min_size=1, max_size=16), st.integers(0, 4))
    def check(work: list[Prompt], between: int) -> None:
        consumers = [Greedy(prompt, COUNT) for prompt in work]
        for consumer in consumers:
            shared.add(consumer)
            for _ in range(between):
                if shared.has_work:
                    shared.step()
        finish(shared)
        for prompt, consumer in zip(work, consumers, strict=True):
            assert consumer.error is None
            assert consumer.rows == expected(prompt)

    check()


@pytest.mark.parametrize("name", NAMES)
def test_only_what_is_new_is_computed(make_engine: Callable[..., Engine], name: str) -> None:
    engine = make_engine(name)

    def computed(prompt: Prompt) -> tuple[int, Greedy]:
        before = engine.stats().tokens_computed
        consumer = Greedy(prompt, 4)
        engine.add(consumer)
        finish(engine)
        return engine.stats().tokens_computed - before - 3, consumer  # without the answer's

    prompt = tuple(BASE[:70])
    assert computed(prompt)[0] == 70
    count, first = computed(prompt)
    assert count == 1
    assert first.sequence.num_cached_tokens == 69
    # The next turn: the answer's last token was never computed.
    turn = (*first.sequence.token_ids, 1, 2, 3)
    assert computed(turn)[0] == 4


def test_answers_to_one_prompt_compute_it_once(make_engine: Callable[..., Engine]) -> None:
    for name in NAMES:
        engine = make_engine(name, max_num_seqs=3)
        answers = [Greedy(tuple(BASE[:50]), 4) for _ in range(5)]  # more than run at once
        engine.add(*answers)
        finish(engine)
        # Each answer computes three tokens; those that had to wait perhaps their first again.
        assert 50 + 5 * 3 <= engine.stats().tokens_computed <= 50 + 5 * 4
        assert len({tuple(answer.rows) for answer in answers}) == 1
        assert all(len(answer.rows) == 4 for answer in answers)


def test_a_cache_that_is_full_forgets_what_was_not_used(make_engine: Callable[..., Engine]) -> None:
    with closing(make_engine("llama", max_num_seqs=1)) as engine:
        kept = Greedy(tuple(BASE[:64]), 1)
        for number in range(20):
            engine.add(Greedy((number, *BASE[1:90]), 1))
            engine.add(Greedy(tuple(BASE[:64]), 1) if number else kept)
            finish(engine)
        again = Greedy(tuple(BASE[:64]), 1)
        engine.add(again)
        finish(engine)
        assert again.rows == kept.rows
        assert again.sequence.num_cached_tokens == 63

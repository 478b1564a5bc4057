"""Guesses of a file's own head: they change no bit, and the head has read what it should have."""

from collections.abc import Iterator, Mapping, Sequence as Seq
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from edgellm import Model, SamplingParams, load
from edgellm.drafters import MTP, Speculation
from edgellm.drafters.drafter import Hidden
from edgellm.drafters.head_runner import HeadRows
from edgellm.engine import Engine
from edgellm.model_runner import Logits
from edgellm.sequence import Sequence
from tests.drafters.test_bits import said
from tests.gguf_writer import Tensor
from tests.mock_model import ByteTokenizer
from tests.models.heads import add_head, add_knowing_head
from tests.models.recipes.parts import HIDDEN, VOCAB
from tests.models.tiny import Edit, write_tiny

PROMPT = np.random.default_rng(5).integers(0, VOCAB, size=40).tolist()
NAMES = ["glm4moe", "deepseek2", "qwen35", "step35"]  # experts, latents, states, windows


class Eager:
    """The MTP drafter, sure of its guesses whatever became of them."""

    name = "mtp"

    def __init__(self, drafter: MTP) -> None:
        self.inner = drafter
        self.follow, self.draft = drafter.follow, drafter.draft
        self.forget, self.close = drafter.forget, drafter.close

    def chances(self, sequence: Sequence, most: int) -> list[float]:
        return [1.0] * len(self.inner.chances(sequence, min(most, 4)))

    def seconds(self, count: int) -> float:
        return 0.0


def drafter_of(engine: Engine) -> MTP:
    speculation: Any = engine._guessing._speculator
    (found,) = (d for d in speculation._drafters if isinstance(d, MTP))
    return found


def always_guess(model: Model) -> None:
    """Has the engine take guesses of the file's head alone, at every step."""
    engine = model._manager.model().engine
    old: Any = engine._guessing._speculator
    eager = Eager(drafter_of(engine))
    engine._guessing._speculator = Speculation((eager,), old._limits, old._replays, old.reads)
    ticks = count()
    engine._clock = lambda: float(next(ticks))


def write(folder: Path, name: str, edit: Edit) -> Path:
    def edit_more(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        edit(keys, tensors)
        keys |= {"tokenizer.ggml.model": "no_vocab", f"{name}.vocab_size": VOCAB}

    return write_tiny(folder, name, edit_more)


@pytest.fixture(scope="module", params=NAMES)
def path(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    return write(tmp_path_factory.mktemp(request.param), request.param, add_head)


@pytest.fixture
def model(path: Path) -> Iterator[Model]:
    with load(str(path), threads=2) as loaded:
        yield loaded


@pytest.mark.parametrize("temperature", [0.0, 1.3])
def test_guesses_of_the_head_change_no_bit(path: Path, model: Model, temperature: float) -> None:
    """Nor does it matter whether a prompt is computed, found in the cache, or goes on."""
    params: dict[str, Any] = {"temperature": temperature, "seed": 4, "logprobs": 3}
    prompts = [PROMPT, PROMPT, PROMPT[:33], [*PROMPT, 1, 2, 3]]
    with load(str(path), threads=2) as other:
        off = SamplingParams(max_tokens=24, n=2, speculation="off", **params)
        plain = [said(other.complete(prompt, off)) for prompt in prompts]
    always_guess(model)
    auto = SamplingParams(max_tokens=24, n=2, **params)
    done = [model.complete(prompt, auto) for prompt in prompts]
    assert [said(one) for one in done] == plain
    assert all(one.usage.drafted_tokens for one in done)
    model._manager.model().engine.check_integrity()


def test_answers_that_take_each_others_blocks_are_the_same(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cache that is too small for all at once: some are put off, and computed again."""
    prompts = [[*PROMPT[: 20 + i], i] for i in range(6)]

    def answers(model: Model, speculation: str) -> list[Any]:
        params = SamplingParams(
            temperature=0.8, seed=2, max_tokens=60, logprobs=2, speculation=speculation
        )
        with ThreadPoolExecutor(6) as pool:
            return list(pool.map(lambda prompt: said(model.complete(prompt, params)), prompts))

    with load(str(path), threads=2) as roomy:
        plain = answers(roomy, "off")
        engine = roomy._manager.model().engine
        groups = range(len(engine._scheduler.tables.pools))
        memory = 7 * sum(engine.store.block_bytes(group) for group in groups)
    with load(str(path), threads=2, kv_cache_memory=memory, context_length=96) as tight:
        always_guess(tight)
        scheduler, put_off = tight._manager.model().engine._scheduler, []
        preempt = scheduler._preempt
        monkeypatch.setattr(scheduler, "_preempt", lambda s: (put_off.append(s), preempt(s)))
        assert answers(tight, "auto") == plain
        assert put_off
        tight._manager.model().engine.check_integrity()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_guesses_of_a_head_that_knows_are_taken(tmp_path: Path, temperature: float) -> None:
    path = write(tmp_path, "glm4", add_knowing_head)
    params: dict[str, Any] = {"temperature": temperature, "seed": 4, "max_tokens": 60}
    with load(str(path), threads=2) as model:
        always_guess(model)
        done = model.complete(PROMPT, SamplingParams(**params))
        steps = model._manager.model().engine.stats().steps
    assert done.usage.accepted_tokens >= 0.9 * done.usage.drafted_tokens > 20
    assert steps < 35
    with load(str(path), threads=2) as model:
        plain = model.complete(PROMPT, SamplingParams(**params, speculation="off"))
    assert plain.token_ids == done.token_ids
    assert plain.usage.drafted_tokens == 0


def test_rows_that_a_window_has_left_behind_are_not_written(tmp_path: Path) -> None:
    """Their block may belong to another text by now."""
    with load(str(write(tmp_path, "step35", add_head)), threads=1) as model:
        engine = model._manager.model().engine
        text = Sequence(PROMPT, len(PROMPT), SamplingParams())
        groups = range(len(engine._scheduler.tables.pools))
        text.block_tables, text.left_behind = [[0, 1] for _ in groups], [0 for _ in groups]
        head: Any = drafter_of(engine)._head
        rows = HeadRows(text, 0, PROMPT, np.ones((len(PROMPT), HIDDEN), np.float32))
        blank = engine.store.read(1, 0)
        text.left_behind[1] = 1
        head.read(rows)
        assert engine.store.read(1, 0) == blank
        assert engine.store.read(1, 1) != blank
        text.left_behind[1] = 0
        head.read(rows)
        assert engine.store.read(1, 0) != blank


class ReadingHead:
    """Notes what it reads: by position the token and the row before it."""

    most_rows = 16

    def __init__(self) -> None:
        self.read_rows: dict[tuple[Sequence, int], tuple[int, float]] = {}

    def read(self, rows: HeadRows) -> None:
        for i, (token, hidden) in enumerate(zip(rows.tokens, rows.hidden[:, 0], strict=True)):
            self.read_rows[rows.sequence, rows.first + i] = token, float(hidden)

    def predict(self, parts: Seq[HeadRows]) -> tuple[Logits, Hidden]:
        assert sum(len(part.tokens) for part in parts) <= self.most_rows
        for part in parts:
            self.read(part)
        return np.eye(len(parts), 258, dtype=np.float32), np.full((len(parts), 1), -1, np.float32)

    def close(self) -> None:
        pass


def row(tokens: list[int], position: int) -> float:
    """What a model made of the text up to this position."""
    return float(hash(tuple(tokens[: position + 1])) % 65537)


Turn = tuple[str, int]
TURNS = st.tuples(st.sampled_from(["chunk", "draft", "other", "preempt"]), st.integers(1, 40))


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 90), st.lists(TURNS, max_size=12))
def test_it_reads_each_token_with_the_row_before_it(length: int, turns: list[Turn]) -> None:
    """However prompts are cut, and whatever guesses came to. A row that was computed before it
    looked counts as zero, and what it has not read when a text is put off stays unread."""
    head, rng = ReadingHead(), np.random.default_rng(length)
    drafter = MTP(head, lambda sequence, count: True, ByteTokenizer())
    text = Sequence(rng.integers(0, 200, length).tolist(), length, SamplingParams())
    unknown, done = {0}, 0

    def follow(end: int) -> None:
        nonlocal done
        rows = np.array([[row(text.token_ids, p)] for p in range(done, end)], np.float32)
        if len(rows):
            drafter.follow(text, done, rows)
        done = end

    for kind, size in turns:
        last = len(text.token_ids) - 1
        if kind == "preempt":  # and the cache has some of it
            done = min(size, last - 1) if done else 0
            unknown = {p for p in range(done) if not is_read(head, text, p)} | {done}
        elif kind == "chunk":
            follow(min(done + size, last))
        else:
            follow(last)
            guesses = min(size, 5)
            if last and kind == "draft":
                assert len(drafter.chances(text, guesses)) == guesses
                assert len(drafter.draft({text: guesses})[text]) == guesses
                length = len(text.token_ids)
                assert all(is_read(head, text, p) for p in range(length) if p not in unknown)
            text.token_ids += rng.integers(0, 200, 1 + size % 4).tolist()
            follow(len(text.token_ids) - 1)


def is_read(head: ReadingHead, text: Sequence, p: int) -> bool:
    return head.read_rows.get((text, p)) == (text.token_ids[p], row(text.token_ids, p - 1))


def test_it_guesses_only_where_it_has_followed() -> None:
    drafter = MTP(ReadingHead(), lambda sequence, count: True, ByteTokenizer())
    text = Sequence([1, 2, 3], 3, SamplingParams())
    assert drafter.chances(text, 4) == []
    drafter.follow(text, 0, np.ones((1, 1), np.float32))
    assert drafter.chances(text, 4) == []
    drafter.follow(text, 1, np.ones((1, 1), np.float32))
    assert len(drafter.chances(text, 4)) == 4
    drafter.forget(text)
    assert drafter.chances(text, 4) == []


def test_guesses_that_are_wrong_are_thought_unlikely() -> None:
    drafter = MTP(ReadingHead(), lambda sequence, count: True, ByteTokenizer())
    text = Sequence([1, 2], 2, SamplingParams(temperature=0))
    drafter.follow(text, 0, np.ones((1, 1), np.float32))
    first = drafter.chances(text, 1)
    for _ in range(20):
        drafter.draft({text: 1})  # always says 0
        text.token_ids.append(7)
        drafter.follow(text, len(text.token_ids) - 2, np.ones((1, 1), np.float32))
        drafter.chances(text, 1)
    assert drafter.chances(text, 1)[0] < 0.5 * first[0]


@pytest.mark.parametrize(
    ("tokens", "first", "second"),
    [([0, 0], 1, 1), ([0, 7], 1, -1), ([7, 0], -1, 0), ([0], 1, 0), ([7], -1, 0)],
)
def test_guesses_count_once_up_to_the_first_wrong_one(
    tokens: list[int], first: int, second: int
) -> None:
    drafter = MTP(ReadingHead(), lambda sequence, count: True, ByteTokenizer())
    text = Sequence([1, 2], 2, SamplingParams(temperature=0))
    drafter.follow(text, 0, np.ones((1, 1), np.float32))
    before = np.array(drafter.chances(text, 2))
    assert drafter.draft({text: 2}) == {text: [0, 0]}
    text.token_ids += tokens
    drafter.follow(text, 1, np.ones((len(tokens), 1), np.float32))
    change = drafter.chances(text, 2) - before
    assert np.sign(change.round(9)).tolist() == [first, second]
    assert (np.abs(drafter.chances(text, 2) - before) <= np.abs(change)).all()


def test_where_too_many_rows_wait_for_one_run_they_are_read_before() -> None:
    head = ReadingHead()
    drafter = MTP(head, lambda sequence, count: True, ByteTokenizer())
    texts = [Sequence([n] * 8, 8, SamplingParams(temperature=0)) for n in range(3)]
    for text in texts:
        drafter.follow(text, 0, np.ones((7, 1), np.float32))
    assert len(drafter.draft(dict.fromkeys(texts, 2))) == 3
    assert {(text, p) for text in texts for p in range(8)} <= head.read_rows.keys()


def test_without_blocks_nothing_is_guessed() -> None:
    drafter = MTP(ReadingHead(), lambda sequence, count: False, ByteTokenizer())
    text = Sequence([1, 2], 2, SamplingParams())
    drafter.follow(text, 0, np.ones((1, 1), np.float32))
    counts: Mapping[Sequence, int] = {text: 2}
    assert drafter.draft(counts) == {}

"""Whatever else an engine does, in whatever order: each answer is the one that it gives alone.

Requests of all kinds come, go on from each other, are cancelled or lose their readers, in a cache
of hardly more than one context; sessions are saved and restored, steps fail, tokens are guessed and
drawn several at a time. In the end nothing is left.
"""

import math
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from edgellm import sessions
from edgellm.answers import consumers
from edgellm.errors import SessionError
from edgellm.kernels.batch import Batch
from edgellm.kernels.draw import Draws
from edgellm.types import Request, SamplingParams
from tests.alone import Alone, Answer, Asked, loaded
from tests.gguf_writer import Tensor
from tests.models.heads import add_head
from tests.models.recipes.parts import VOCAB
from tests.models.tiny import Edit, write_tiny
from tests.test_adapter_files import VOCABULARY

CONTEXT = 80  # tokens
SETTINGS = settings(max_examples=15, stateful_step_count=40, deadline=None)
TOKENS = st.lists(st.integers(3, 5), min_size=1, max_size=40)  # many prefixes are shared
DRAWN: list[dict[str, Any]] = [  # by the backend itself
    {"temperature": 0},
    {"temperature": 0, "min_tokens": 9, "logit_bias": {7: False, 9: False}},
    {"temperature": 1.0, "top_k": 4},
    {"temperature": 3.0, "top_k": 30, "top_p": 0.8, "min_p": 0.01},
]
KINDS: list[dict[str, Any]] = [
    *DRAWN,
    {"temperature": 1.5, "top_k": 0, "typical_p": 0.9, "xtc_probability": 0.5},
    {"temperature": 1.0, "repeat_penalty": 1.3, "dry_multiplier": 1.0},
    {"mirostat": 2},
    {"logprobs": 2},
    {"regex": "[A-F]*(GH|JK)L"},
    {"choices": ("ABC", "BA")},
]
PARAMS = st.fixed_dictionaries(
    {
        "max_tokens": st.sampled_from([0, 1, 9, 20, 30]),
        "seed": st.integers(0, 1),
        "n": st.sampled_from([1, 1, 1, 3]),
        "stop": st.sampled_from([(), ("B", "CD", "F"), ("G", "HI", "Z")]),
    }
)


class Machine(RuleBasedStateMachine):
    path: ClassVar[Path]
    alone: ClassVar[Alone]

    @initialize(
        contexts=st.sampled_from([1, 1, 2]),
        max_num_seqs=st.sampled_from([2, 4]),
        guesses=st.booleans(),
        kinds=st.sampled_from([DRAWN, KINDS]),
    )
    def start(
        self, contexts: int, max_num_seqs: int, guesses: bool, kinds: list[dict[str, Any]]
    ) -> None:
        self.kinds = kinds
        self.stack = ExitStack()
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr("edgellm.drafters.speculation._WORTH", 0.0 if guesses else math.inf)
        memory = max(1, contexts * self.alone.context_bytes)
        self.model = self.stack.enter_context(
            loaded(self.path, CONTEXT, max_num_seqs=max_num_seqs, kv_cache_memory=memory)
        )
        self.engine = self.model.engine
        self.engine._clock = map(float, count()).__next__
        self.is_breaking = False
        runner = self.engine._runner
        runner.run, runner.draw = self.breakable(runner.run), self.breakable(runner.draw)  # type: ignore[method-assign]
        self.asked: list[Asked] = []
        self.saved = sessions.SavedModel(
            "tiny", self.engine, self.model.session_key, VOCAB, (), lambda action: action()
        )

    def breakable(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """The same, but that it fails at its end once it is told to."""

        def computed(*args: Batch | Draws) -> Any:
            results = compute(*args)
            if self.is_breaking:
                self.is_breaking = False
                raise OSError("lost")
            return results

        return computed

    def tokens(self, number: int) -> list[int]:
        """A request's prompt and what there is of its first answer."""
        asked = self.asked[number % len(self.asked)]
        return [*asked.request.prompt, *asked.answers.get(0, Answer()).token_ids]  # type: ignore[list-item]

    @rule(
        token_ids=TOKENS,
        kind=st.integers(0, 99),
        params=PARAMS,
        leaves=st.sampled_from([None, None, None, 0, 5]),
        background=st.booleans(),
    )
    def ask(
        self,
        token_ids: list[int],
        kind: int,
        params: dict[str, Any],
        leaves: int | None = None,
        background: bool = False,
    ) -> None:
        request = Request(
            tuple(token_ids[: CONTEXT - 1]),
            SamplingParams(**params, **self.kinds[kind % len(self.kinds)]),
            priority="background" if background else "interactive",
        )
        asked = Asked(request, leaves)
        self.engine.add(*consumers(self.model, request, str(len(self.asked)), asked.emit))
        self.asked.append(asked)

    @precondition(lambda self: self.asked)
    @rule(
        number=st.integers(0, 99),
        more=st.lists(st.integers(3, 5), max_size=4),
        kind=st.integers(0, 99),
        params=PARAMS,
    )
    def go_on(self, number: int, more: list[int], kind: int, params: dict[str, Any]) -> None:
        self.ask([*self.tokens(number), *more], kind, params)

    @precondition(lambda self: self.asked)
    @rule(number=st.integers(0, 99))
    def abort(self, number: int) -> None:
        number %= len(self.asked)
        self.asked[number].is_cut = True
        self.engine.abort(str(number))

    @precondition(lambda self: self.asked)
    @rule(number=st.integers(0, 99), how=st.sampled_from(["save", "restore", "clear", "fail"]))
    def disturb(self, number: int, how: str) -> None:
        match how:
            case "save":
                sessions.save(self.saved, "a", self.tokens(number))
            case "restore":
                with suppress(SessionError):  # there is none, or no room for it now
                    sessions.restore(self.saved, "a")
            case "clear":
                self.engine.clear_cache()
            case "fail":
                self.is_breaking = True

    @rule(steps=st.integers(1, 12))
    def step(self, steps: int) -> None:
        for _ in range(steps):
            if self.engine.has_work:
                self.engine.step()
                self.engine.check_integrity()

    def teardown(self) -> None:
        if not hasattr(self, "stack"):
            return
        with self.stack:
            self.finish()
            for number in range(len(self.asked)):  # what they left in the cache is right
                self.go_on(number, [3], 0, {"max_tokens": 2, "logprobs": 0})
            self.finish()
            self.engine.clear_cache()
            self.engine.check_integrity()
            stats = self.engine.stats()
            assert stats.blocks_free == stats.blocks
            assert not list(self.engine._consumers)
            assert not self.engine._guessing._guessed_at
        for asked in self.asked:
            self.check(asked)

    def finish(self) -> None:
        self.step(1000)
        assert not self.engine.has_work

    def check(self, asked: Asked) -> None:
        expected = self.alone.answers(asked.request)
        assert all("lost" in str(error) or asked.is_cut for error in asked.errors)
        ended = [a for a in asked.answers.values() if a.end is not None]
        assert asked.is_cut or len(ended) + len(asked.errors) == asked.request.params.n
        for index, answer in asked.answers.items():
            is_whole = answer.end not in (None, "abort")
            assert answer == expected[index] if is_whole else answer.begins(expected[index])


def with_words(keys: dict[str, Any], tensors: list[Tensor]) -> None:
    keys |= VOCABULARY


def with_words_and_head(keys: dict[str, Any], tensors: list[Tensor]) -> None:
    keys |= VOCABULARY
    add_head(keys, tensors)


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("llama", with_words),
        ("gemma3", with_words),
        ("mamba2", with_words),
        ("deepseek2", with_words),
        ("qwen35moe", with_words_and_head),
        ("glm4", with_words_and_head),
    ],
)
def test_answers_are_those_given_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, edit: Edit
) -> None:
    monkeypatch.setattr("edgellm.kv_plan._KEPT_STATES", 2)
    monkeypatch.setattr("edgellm.multi_step.LONGEST", 100.0)  # a step takes one by our clock
    path = write_tiny(tmp_path, name, edit)
    with loaded(path, CONTEXT, max_num_seqs=1) as model:

        class Own(Machine):
            pass

        Own.path, Own.alone = path, Alone(model)
        run_state_machine_as_test(Own, settings=SETTINGS)

"""The synchronous API: with a scripted model, and on SmolLM2 where it is there."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgellm
from edgellm.completion import collect
from edgellm.errors import BackendError, CatalogError, ContextOverflow, GGUFError, RequestError
from edgellm.llm import Model
from edgellm.sampling import logprobs
from edgellm.types import SamplingParams
from tests.mock_model import BOS, VOCAB_SIZE, MockModel, make_manager, noise, says

GREEDY = SamplingParams(temperature=0)


def mock(logits: Any) -> Model:
    manager = make_manager(MockModel(logits))
    return Model(manager, manager.models()[0])


def test_complete_takes_text_or_ids() -> None:
    with mock(says("blue")) as model:
        assert model.complete("hi", GREEDY).text == "blue"
        done = model.complete([104, 105], GREEDY)
        assert (done.text, done.usage.prompt_tokens) == ("blue", 2)
        assert model.complete(iter([104]), replace(GREEDY, n=3)).others[1].text == "blue"


def test_chat_takes_calls_and_reasoning_apart() -> None:
    said = '<think>Hm.</think>{}<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>'
    template = "<think> </think> <tool_call>"
    sizes = {"context_length": 512, "num_blocks": 256}
    manager = make_manager(MockModel(says(said)), source=template, **sizes)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
    with Model(manager, manager.models()[0]) as model:
        asked = [{"role": "user", "content": "hi"}]
        done = model.chat(asked, replace(GREEDY, n=2), tools=[tool])
        for answer in (done, *done.others):
            (call,) = answer.tool_calls
            assert (answer.reasoning, answer.text) == ("Hm.", "{}")
            assert (call.name, call.arguments) == ("f", '{"a": 1}') and call.id
        assert model.chat(asked, GREEDY).text == said.removeprefix("<think>Hm.</think>")
        with pytest.raises(RequestError, match="no tool has the name"):
            model.chat(asked, GREEDY, [tool], tool_choice={"function": {"name": "g"}})


def test_chat_brings_one_bos() -> None:
    with mock(says("blue")) as model:
        messages = [{"role": "user", "content": "hi"}]
        assert model.apply_chat_template(messages) == "user:hi\nassistant:"
        assert model.chat(messages, GREEDY).usage.prompt_tokens == len("user:hi\nassistant:") + 1


def test_stream_gives_what_complete_collects() -> None:
    with mock(noise) as model:
        params = SamplingParams(temperature=1.5, seed=1, max_tokens=10, logprobs=1)
        streamed = collect(model.stream("hi", params))
        done = model.complete("hi", params)
        assert (streamed.token_ids, streamed.logprobs) == (done.token_ids, done.logprobs)


def test_leaving_a_stream_aborts_it() -> None:
    with mock(says("x" * 90)) as model:
        for _ in model.stream("hi", GREEDY):
            break
        assert model.complete("hi", GREEDY).finish_reason == "length"


def test_logits_are_the_rows_of_the_model() -> None:
    with mock(noise) as model:
        ids = [5, 6, 7, 8, 9]
        rows = model.logits(ids)
        assert rows.shape == (5, VOCAB_SIZE) and rows.dtype == np.float32
        np.testing.assert_array_equal(rows[2], noise(ids[:3], 5))
        np.testing.assert_array_equal(model.logits(ids, last_only=True), rows[-1:])
        with pytest.raises(RequestError, match="empty"):
            model.logits([])
        with pytest.raises(ContextOverflow):
            model.logits([1] * 10**6)


def test_text_and_ids() -> None:
    with mock(noise) as model:
        assert model.tokenize("ab") == [BOS, 97, 98]
        assert model.detokenize(iter([97, 98])) == "ab"
        assert model.bos_id == BOS


@pytest.mark.parametrize(
    ("ask", "said"),
    [
        (lambda model: model.complete([1.5]), "whole numbers"),
        (lambda model: model.complete([VOCAB_SIZE]), "outside the vocabulary"),
        (lambda model: model.logits("text"), "whole numbers"),
        (lambda model: model.embed("text"), "a list of them is expected"),
        (lambda model: model.embed([[-1]]), "outside the vocabulary"),
        (lambda model: model.chat("text"), "a list of messages is expected"),
        (lambda model: model.chat([]), "at least one message"),
    ],
)
def test_what_cannot_be_asked_is_said(ask: Callable[[Model], object], said: str) -> None:
    with mock(noise) as model, pytest.raises(RequestError, match=said):
        ask(model)


def test_ids_may_be_of_any_kind_of_integer() -> None:
    with mock(says("blue")) as model:
        assert model.complete(np.array([104, 105], np.int16), GREEDY).text == "blue"


def test_a_closed_model_says_so() -> None:
    model = mock(noise)
    model.close()
    model.close()
    with pytest.raises(RequestError, match="loaded: none"):
        model.complete("hi")


@pytest.mark.parametrize(
    ("name", "kind"), [("no-such-model", CatalogError), ("not-a-model.gguf", GGUFError)]
)
def test_load_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, kind: type[Exception]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "not-a-model.gguf").write_bytes(b"something else")
    with pytest.raises(kind, match="no-such-model|not-a-model"):
        edgellm.load(name)


@pytest.mark.parametrize(
    ("option", "kind"),
    [
        ({"backend": "abacus"}, RequestError),
        ({"kv_cache_type": "q6_0"}, RequestError),
        ({"kv_cache_type": "f64"}, RequestError),
        ({"kv_cache_type": "f16/f16/f16"}, RequestError),
        ({"threads": 0}, RequestError),
        ({"context_length": 0}, RequestError),
        ({"memory_limit": -1}, RequestError),
        ({"kv_cache_memory": 0}, RequestError),
        ({"max_num_seqs": 0}, RequestError),
        ({"max_num_seqs": "x"}, RequestError),
        ({"gpu_layers": 8}, RequestError),
        ({"device": "gpu"}, RequestError),
    ],
)
def test_an_option_of_no_use_is_refused_before_the_file_is_read(
    tmp_path: Path, option: dict[str, Any], kind: type[Exception]
) -> None:
    file = tmp_path / "model.gguf"
    file.write_bytes(b"never read")
    with pytest.raises(kind, match="yet|expected"):
        edgellm.load(str(file), **option)


# ---- on the real model


@pytest.fixture(scope="module")
def real(smollm2: Path) -> Iterator[Model]:
    with edgellm.load(smollm2, backend="cpu", context_length=512) as model:
        yield model


@pytest.mark.weights
def test_smollm2_knows_paris(real: Model) -> None:
    done = real.complete("The capital of France is", replace(GREEDY, max_tokens=1))
    assert (done.text, done.finish_reason) == (" Paris", "length")


@pytest.mark.weights
def test_smollm2_logits_are_what_complete_samples_from(real: Model) -> None:
    """Bits, not closeness: a log-probability is a function of the whole row."""
    prompt = "Water boils at"
    done = real.complete(prompt, replace(GREEDY, max_tokens=6, logprobs=5))
    ids = [*real.tokenize(prompt), *done.token_ids]
    assert done.logprobs is not None
    for step, entry in enumerate(done.logprobs):
        head = ids[: len(ids) - len(done.token_ids) + step]
        again = real.complete(head, replace(GREEDY, max_tokens=1, logprobs=5))
        assert again.logprobs is not None
        assert again.logprobs[0].top == entry.top
        row = real.logits(head, last_only=True)[0]
        np.testing.assert_array_equal(row, real.logits(head)[-1])
        assert tuple(logprobs(row, entry.token_id, 5)[1]) == entry.top


@pytest.mark.weights
def test_smollm2_says_the_same_beside_others(real: Model) -> None:
    params = SamplingParams(seed=11, max_tokens=12)
    alone = real.complete("Once upon a time", params)
    together = real.complete("Once upon a time", replace(params, n=4))
    assert together.token_ids == alone.token_ids
    assert len({done.token_ids for done in together.others}) > 1


@pytest.mark.weights
def test_smollm2_chats(real: Model) -> None:
    done = real.chat([{"role": "user", "content": "Say hello."}], replace(GREEDY, max_tokens=40))
    assert done.text and "<|im" not in done.text


@pytest.mark.weights
def test_smollm2_needs_memory_for_its_context(smollm2: Path) -> None:
    with pytest.raises(BackendError, match="context of 8192 tokens needs .* GiB"):
        edgellm.load(smollm2, backend="reference", memory_limit=200 << 20)
    with pytest.raises(BackendError, match="weights take 0.09 GiB .* and 0.00 GiB may be used"):
        edgellm.load(smollm2, backend="reference", memory_limit=1 << 20)


@pytest.mark.weights
@pytest.mark.parametrize("types", ["f32", "f16/f32"])
def test_smollm2_stores_keys_and_values_as_told(smollm2: Path, types: str) -> None:
    with edgellm.load(
        smollm2, backend="reference", kv_cache_type=types, context_length=64, max_num_seqs=1
    ) as model:
        # 30 layers, 3 heads of 64, 64 tokens
        per_type = {"f32": 8, "f16/f32": 6}[types]
        # the context twice, so that something is found again
        assert model.info.kv_cache_bytes == 2 * 30 * 3 * 64 * 64 * per_type

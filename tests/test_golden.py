"""Real models against what llama.cpp said of them: tokens, prompts, probabilities, perplexity.

Both runtimes round activations to int8, and dozens of layers amplify a last bit: llama.cpp's
log-probabilities lie NOISE away from exact float32 arithmetic, and it is not the same noise as
ours. So greedy tokens are compared by how close the probabilities are, not one by one; what must
match to the letter is text and tokens.
"""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import edgellm
from edgellm.eval.perplexity import perplexity
from edgellm.sampling import logprobs

# Root mean square of (llama.cpp - exact) over the golden log-probabilities, measured.
NOISE = {
    "smollm2-135m-instruct-q4_1": 0.139,
    "gemma3-270m-q4_k_m": 0.162,
    "qwen2.5-coder-0.5b-instruct-q4_k_m": 0.077,
}
FILES = {
    "smollm2-135m-instruct-q4_1": "smollm2",
    "gemma3-270m-q4_k_m": "gemma3",
    "qwen2.5-coder-0.5b-instruct-q4_k_m": "qwen05b",
}


@pytest.fixture(scope="module", params=NOISE)
def golden(
    request: pytest.FixtureRequest, oracle: Path, real_models: dict[str, Path]
) -> tuple[str, dict[str, Any], Path]:
    """Name, golden results and file of one real model."""
    name: str = request.param
    if FILES[name] == "smollm2":
        path = request.getfixturevalue("smollm2")
    elif FILES[name] in real_models:
        path = real_models[FILES[name]]
    else:
        pytest.skip(f"EDGELLM_TEST_MODELS names no folder with {FILES[name]}.gguf")
    return name, json.loads((oracle / "models" / f"{name}.json").read_text()), path


@pytest.mark.weights
def test_golden_texts(golden: tuple[str, dict[str, Any], Path]) -> None:
    _, want, path = golden
    with edgellm.load(str(path), backend="cpu") as model:
        for case in want["tokenize"]:
            ids = model.tokenize(case["text"], case["add_special"], case["parse_special"])
            assert list(ids) == case["ids"], case["text"]
        for case in want["chat"]:
            if "prompt" in case:
                assert model.apply_chat_template(case["messages"]) == case["prompt"]


@pytest.mark.weights
@pytest.mark.parametrize("backend", ["cpu", "opencl"])
def test_golden_probabilities(
    golden: tuple[str, dict[str, Any], Path], backend: str, request: pytest.FixtureRequest
) -> None:
    name, want, path = golden
    if backend == "opencl":
        request.getfixturevalue("opencl")
    differences: list[float] = []
    missed: list[float] = []  # what our token is ahead of llama.cpp's
    steps = 0
    with edgellm.load(str(path), backend=backend, max_num_seqs=1) as model:
        for case in want["greedy"]:
            prompt = list(model.tokenize(case["prompt"]))
            forced = prompt + [step["id"] for step in case["steps"]]
            rows = model.logits(forced)[len(prompt) - 1 : -1].astype(np.float64)
            scored = rows - np.logaddexp.reduce(rows, axis=1, keepdims=True)
            for row, step in zip(scored, case["steps"], strict=True):
                differences += [row[token] - logprob for token, logprob in step["top"]]
                if row.argmax() != step["id"]:
                    missed.append(row.max() - row[step["id"]])
                steps += 1
    rms = float(np.sqrt(np.mean(np.square(differences))))
    assert rms <= 1.3 * NOISE[name]
    assert len(missed) <= 0.05 * steps and max(missed, default=0) <= 4 * NOISE[name]


@pytest.mark.weights
def test_sampled_rows_are_the_rows_of_logits(smollm2: Path) -> None:
    greedy = edgellm.SamplingParams(temperature=0, max_tokens=12, logprobs=3)
    with edgellm.load(str(smollm2)) as model:
        prompt = list(model.tokenize("The capital of France is"))
        answer = model.complete(prompt, greedy)
        rows = model.logits(prompt + list(answer.token_ids))[len(prompt) - 1 : -1]
        assert answer.logprobs is not None
        for row, token in zip(rows, answer.logprobs, strict=True):
            assert int(row.argmax()) == token.token_id
            logprob, top = logprobs(row, token.token_id, 3)
            assert (token.logprob, token.top) == (logprob, tuple(top))


@pytest.mark.weights
def test_perplexity_is_llama_cpps(oracle: Path, smollm2: Path) -> None:
    text = (oracle / "text" / "gpl3-tail.txt").read_text()
    with edgellm.load(str(smollm2)) as model:
        found = perplexity(model, text, 512)
    assert found.perplexity == pytest.approx(13.7130, rel=0.005)

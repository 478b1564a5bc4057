"""Streams that tell how far a prompt is."""

from pathlib import Path
from typing import Any

import pytest

from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import running
from tests.server.test_llama_cpp import streamed


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/completion", {"prompt": [*range(40, 240)], "n_cmpl": 2}),
        ("/v1/completions", {"prompt": [*range(40, 240)], "t_max_predict_ms": 9e9}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "x" * 150}]}),
    ],
)
def test_a_stream_may_tell_how_far_its_prompt_is(
    path: str, asked: dict[str, Any], tmp_path: Path
) -> None:
    sizes = {"context_length": 512, "num_blocks": 512, "token_budget": 50}
    manager = make_manager(MockModel(says("ok")), **sizes)
    with running(manager, tmp_path) as server:
        for least in (3, 2):  # what is in the cache already takes no step
            parts = streamed(server, path, **asked, return_progress=True)
            told = [part["prompt_progress"] for part in parts if "prompt_progress" in part]
            total, cached = told[0]["total"], told[0]["cache"]
            assert len(told) >= least and cached < total
            assert all((one["total"], one["cache"]) == (total, cached) for one in told)
            done = [one["processed"] for one in told]
            assert done == sorted(done) and (done[0], done[-1]) == (cached, total)
            assert told[-1]["time_ms"] >= told[0]["time_ms"] >= 0
        plain = streamed(server, path, **asked)
        assert not any("prompt_progress" in part for part in plain)
        assert len(plain) == len(parts) - len(told)

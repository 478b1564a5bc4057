"""llama.cpp's routes, asked as llama.vim, llama.vscode and Continue ask."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import openai
import pytest

from edgellm.client.http import exchange, parse_address
from edgellm.sequence import Chunk
from edgellm.server.answers import llama_timings
from edgellm.server.fields import adapters
from edgellm.server.routes import Call
from edgellm.server.settings import Settings
from edgellm.server.time_limits import suffix_limit
from edgellm.types import AdapterInfo, ModelInfo, Timings, Usage
from tests.mock_model import MockModel, make_manager, says
from tests.server.conftest import SAID
from tests.server.serving import Running, lines_of, running

GREEDY = {"temperature": 0}


def ask(server: Running, target: str, **fields: Any) -> Any:
    status, answer = server.ask("POST", target, {**GREEDY, **fields})
    assert status == 200, answer
    return answer


def streamed(server: Running, target: str, **fields: Any) -> list[Any]:
    async def main() -> list[Any]:
        body = json.dumps({**GREEDY, **fields, "stream": True}).encode()
        async with exchange(parse_address(server.tcp), "POST", target, body) as response:
            assert response.status == 200
            lines = await lines_of(response)
        told = [line.removeprefix(b"data: ") for line in lines if line]
        return [json.loads(line) for line in told if line != b"[DONE]"]

    return asyncio.run(main())


def test_timings_are_those_of_what_was_computed() -> None:
    """Of the prompt what was not in the cache; of the answer all but its first token."""
    told = llama_timings(Usage(13, 9, cached_tokens=3), Timings(0.5, 1.0, 2.0))
    assert (told["prompt_n"], told["prompt_ms"], told["predicted_ms"]) == (10, 500, 2000)
    assert (told["prompt_per_token_ms"], told["prompt_per_second"]) == (50, 20)
    assert (told["predicted_per_token_ms"], told["predicted_per_second"]) == (250, 4)
    at_once = llama_timings(Usage(3, 1), Timings(1.0, 1.0, 0.0))
    assert at_once["prompt_per_second"] == at_once["predicted_per_second"] == 0


def test_timings_tell_of_guesses_where_there_were_some() -> None:
    timings = Timings(0.0, 1.0, 2.0)
    told = llama_timings(Usage(3, 9, drafted_tokens=6, accepted_tokens=4), timings)
    assert (told["draft_n"], told["draft_n_accepted"]) == (6, 4)
    assert "draft_n" not in llama_timings(Usage(3, 9), timings)


def test_completion(server: Running) -> None:
    done = ask(server, "/completion", prompt="hi", n_predict=-1, seed=-1)
    assert done["content"] == SAID and done["stop_type"] == "eos" and done["stop"] is True
    assert done["tokens_predicted"] == len(SAID) + 1 and done["tokens_evaluated"] == 3
    assert done["timings"]["predicted_n"] == len(SAID) + 1
    assert done["timings"]["prompt_n"] + done["timings"]["cache_n"] == 3
    assert done["generation_settings"]["n_predict"] == -1 and done["truncated"] is False
    cut = ask(server, "/completion", prompt=[1, 2], n_predict=4, return_tokens=True)
    assert (cut["content"], cut["stop_type"]) == ("The ", "limit")
    assert cut["tokens"] == [*b"The "]
    word = ask(server, "/completion", prompt=["a", 98], stop=["sky"])
    assert (word["content"], word["stop_type"], word["stopping_word"]) == ("The ", "word", "sky")
    two = ask(server, "/completion", prompt=["a", [66]], n_predict=1)
    assert [one["content"] for one in two] == ["T", "T"] and two[1]["index"] == 1
    warm = ask(server, "/completion", prompt="hi", n_predict=0, samplers=[], t_max_predict_ms=1)
    assert warm["content"] == "" and warm["tokens_predicted"] == 0
    entry = ask(server, "/completion", prompt="hi", n_probs=2)["completion_probabilities"][0]
    assert entry["token"] == "T" and len(entry["top_logprobs"]) == 2


def test_completion_stream(server: Running) -> None:
    chunks = streamed(server, "/completion", prompt="hi", cache_prompt=True, unknown={"a": 1})
    assert "".join(chunk["content"] for chunk in chunks) == SAID
    assert [chunk["stop"] for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert "timings" in chunks[-1] and "timings" not in chunks[0]


def test_the_end_of_a_stream_says_nothing_and_no_token_is_left_out(server: Running) -> None:
    """Clients of llama.cpp's may stop at the chunk that has `stop`."""
    cut = streamed(server, "/completion", prompt=[1, 2], n_predict=4, timings_per_token=True)
    assert "".join(chunk["content"] for chunk in cut[:-1]) == "The " and cut[-1]["content"] == ""
    assert [token for chunk in cut for token in chunk["tokens"]] == [*b"The "]
    assert {chunk["tokens_evaluated"] for chunk in cut} == {2} and cut[-1]["tokens_cached"] == 5
    counted = [chunk["timings"]["predicted_n"] for chunk in cut]
    assert counted == [*range(1, len(cut)), 4]
    assert all(chunk["timings"]["predicted_per_second"] >= 0 for chunk in cut)


@pytest.mark.parametrize("target", ["/v1/chat/completions", "/v1/completions"])
def test_openai_streams_tell_of_times_where_asked(server: Running, target: str) -> None:
    fields = {"messages": [{"role": "user", "content": "hi"}], "prompt": "hi", "max_tokens": 4}
    body = json.dumps({**fields, "timings_per_token": True, "stream": True}).encode()

    async def main() -> bytes:
        async with exchange(parse_address(server.tcp), "POST", target, body) as response:
            return await response.body()

    told = [json.loads(line[6:]) for line in asyncio.run(main()).split(b"\n\n")[:-2]]
    counts = [chunk["timings"]["predicted_n"] for chunk in told if "timings" in chunk]
    assert counts[:4] == [1, 2, 3, 4] and counts[-1] == 4


@pytest.mark.parametrize("name", ["timings_per_token", "return_tokens", "response_fields"])
def test_what_is_to_be_told_is_read_first(server: Running, name: str) -> None:
    """Not when the answer is there."""
    begun = server.service.totals.requests
    for streams in (False, True):
        fields = {"prompt": "hi", "stream": streams, name: "yes"}
        status, answer = server.ask("POST", "/completion", fields)
        assert status == 400 and answer["error"]["param"] == name
    assert server.ask("POST", "/v1/completions", {"prompt": "hi", "echo": "yes"})[0] == 400
    assert server.service.totals.requests == begun


def test_probabilities_behind_the_samplers_are_not_told(server: Running) -> None:
    """What is told is not given out for them: they have names of their own."""
    fields = {"prompt": "hi", "post_sampling_probs": True}
    assert server.ask("POST", "/completion", fields)[0] == 200
    status, answer = server.ask("POST", "/completion", {**fields, "n_probs": 2})
    assert status == 400 and answer["error"]["param"] == "post_sampling_probs"


def test_settings_are_told_as_llama_cpp_tells_them(server: Running) -> None:
    fields = {"logit_bias": [[10, False], [11, 2.0]], "n_keep": 3, "timings_per_token": True}
    told = ask(server, "/completion", prompt="hi", n_predict=1, **fields)["generation_settings"]
    assert told["logit_bias"] == [{"token": 10, "bias": None}, {"token": 11, "bias": 2.0}]
    assert (told["n_keep"], told["timings_per_token"], told["stream"]) == (3, True, False)
    assert told["seed"] == 2**32 - 1 and told["max_tokens"] == told["n_predict"] == 1


def test_null_is_unset_and_samplers_of_others_are_left_out(server: Running) -> None:
    fields = {"top_k": None, "samplers": ["top_k", "top_p", "mood"], "grammar": "", "stop": None}
    assert ask(server, "/completion", prompt="hi", **fields)["content"] == SAID
    assert ask(server, "/completion", prompt="hi", samplers="edkypmxt")["content"] == SAID


@pytest.mark.parametrize("keep", [-2, 10**6, "all", 0.5])
def test_more_tokens_to_keep_than_the_context_has_are_refused(server: Running, keep: Any) -> None:
    assert ask(server, "/completion", prompt="hi", n_keep=-1)["content"] == SAID
    status, answer = server.ask("POST", "/completion", {"prompt": "hi", "n_keep": keep})
    assert status == 400 and "n_keep" in answer["error"]["message"]


def test_infill_as_llama_vim_asks(server: Running) -> None:
    answer = ask(
        server,
        "/infill",
        input_prefix="def f():\n",
        input_suffix="\nf()",
        input_extra=[{"text": "x", "time": 1.5, "filename": "a"}],
        prompt="    ",
        n_predict=16,
        n_indent=4,
        top_k=40,
        top_p=0.99,
        stream=False,
        samplers=["top_k", "top_p", "infill"],
        cache_prompt=True,
        t_max_prompt_ms=500,
        t_max_predict_ms=1000,
        response_fields=["content", "timings/prompt_n", "timings/predicted_n", "truncated"],
    )
    assert answer == {
        "content": "The sky is",
        "timings/prompt_n": answer["timings/prompt_n"],
        "timings/predicted_n": answer["timings/predicted_n"],
        "truncated": False,
    }


def test_the_time_for_an_answer_counts_once_it_has_a_line(server: Running) -> None:
    cut = ask(server, "/completion", prompt="hi", t_max_predict_ms=1)
    assert SAID.startswith(cut["content"]) and "\n" in cut["content"]


def test_tokens_and_templates(server: Running) -> None:
    assert ask(server, "/tokenize", content="hi") == {"tokens": [104, 105]}
    assert ask(server, "/tokenize", content="hi", add_special=True)["tokens"][0] == 257
    pieces = ask(server, "/tokenize", content="ä", with_pieces=True)["tokens"]
    assert pieces == [{"id": 195, "piece": [195]}, {"id": 164, "piece": [164]}]
    assert ask(server, "/detokenize", tokens=[195, 164]) == {"content": "ä"}
    messages = [{"role": "user", "content": "hi"}]
    prompt = ask(server, "/apply-template", messages=messages)["prompt"]
    assert prompt == "user:hi\nassistant:"


def test_adapters_are_named_by_number(server: Running) -> None:
    assert server.ask("GET", "/lora-adapters") == (200, [])
    status, answer = server.ask("POST", "/completion", {"prompt": "hi", "lora": [{"id": 0}]})
    assert status == 400 and answer["error"]["param"] == "lora"
    info = ModelInfo("m", "", "a", "b", 8, 8, 0, adapters=(AdapterInfo("x", ""),))
    assert adapters({"lora": [{"id": 0, "scale": 0.5}]}, info, {}) == {"x": 0.5}
    assert adapters({"lora": []}, info, {"m": {"x": 2.0}}) == {} and adapters({}, info, {}) is None
    assert adapters({}, info, {"m": {"x": 2.0}}) == {"x": 2.0}


def test_scales_are_changed_for_requests_that_say_none(tmp_path: Path) -> None:
    seen = set()

    class Watched(MockModel):
        def pack(self, chunks: list[Chunk]) -> list[Chunk]:
            seen.update(chunk.sequence.adapter_scales for chunk in chunks)
            return super().pack(chunks)

    manager = make_manager(Watched(says("ok")))
    loaded = manager.model()
    adapters = (AdapterInfo("x", ""), AdapterInfo("y", ""))
    loaded.info = replace(loaded.info, adapters=adapters)
    with running(manager, tmp_path) as own:
        asked = own.ask("POST", "/lora-adapters", [{"id": 1, "scale": 0.5}])
        assert asked == (200, {"success": True})
        _, changed = own.ask("GET", "/lora-adapters")
        assert [entry["scale"] for entry in changed] == [0.0, 0.5]
        assert own.ask("POST", "/lora-adapters", [{"id": 2, "scale": 0.5}])[0] == 400
        assert own.ask("POST", "/completion", {"prompt": "hi"})[0] == 200
        assert seen == {(0.0, 0.5)}
        assert own.ask("POST", "/completion", [1])[0] == 400
        assert own.ask("POST", "/lora-adapters", {"id": 1})[0] == 400


def test_what_the_server_tells_of_itself(server: Running) -> None:
    assert server.ask("GET", "/health") == (200, {"status": "ok"})
    _, models = server.ask("GET", "/models")
    assert models["data"][0]["architecture"]["input_modalities"] == ["text"]
    assert models["data"][0]["meta"]["vocab_type"] == 0
    _, props = server.ask("GET", "/props")
    assert props["default_generation_settings"]["n_ctx"] == 64 and props["total_slots"] == 1
    assert props["default_generation_settings"]["params"]["repeat_last_n"] == 64
    assert props["chat_template_caps"]["supports_tools"] is False and props["media_marker"]
    _, slots = server.ask("GET", "/slots")
    assert slots == [{"id": 0, "n_ctx": 64, "speculative": False, "is_processing": False}]
    _, metrics = server.ask("GET", "/metrics")
    names = {line.split()[0] for line in metrics.splitlines() if not line.startswith("#")}
    assert "llamacpp:tokens_predicted_total" in names and "llamacpp:requests_processing" in names
    assert {"llamacpp:n_tokens_max", "llamacpp:spec_decode_num_draft_tokens_total"} <= names
    status, page = server.ask("GET", "/")
    assert status == 200 and "<title>edgellm</title>" in page
    _, numbers = server.ask("GET", "/edgellm/v1/status")
    assert numbers["models"][0]["name"] == "mock"


def test_a_hole_of_the_completions_route(server: Running) -> None:
    fields = {"prompt": "def f(", "suffix": "return", "max_tokens": 3, "temperature": 0}
    answer = ask(server, "/v1/completions", **fields)
    assert answer["choices"][0]["text"] == "The"
    tokens = len("def f(") + len("return") + len(("bos", "prefix", "suffix", "middle"))
    assert answer["usage"]["prompt_tokens"] == tokens
    fields["max_tokens"] = 40
    limited = ask(server, "/v1/completions", **fields, t_max_predict_ms=1, t_max_prompt_ms=500)
    assert "\n" in limited["choices"][0]["text"]
    indented = ask(server, "/v1/completions", **fields, n_indent=4)
    assert indented["choices"][0] == {**indented["choices"][0], "text": "The sky is"}
    status, refused = server.ask("POST", "/v1/completions", {**fields, "n_indent": 4, "n": 2})
    assert status == 400 and "one answer" in refused["error"]["message"]
    for wrong in (float("nan"), float("inf"), True):
        asked = {**fields, "t_max_predict_ms": wrong}
        assert server.ask("POST", "/v1/completions", asked)[0] == 400


def test_every_answer_has_an_index_of_its_own(server: Running) -> None:
    fields = {"prompt": ["a", "b"], "n_cmpl": 2, "n_predict": 1}
    assert [one["index"] for one in ask(server, "/completion", **fields)] == [0, 1, 2, 3]
    ends = [one for one in streamed(server, "/completion", **fields) if one["stop"]]
    assert sorted(one["index"] for one in ends) == [0, 1, 2, 3]


def test_long_prompts_are_no_dead_connections(tmp_path: Path) -> None:
    """Comments go out while nothing else does; clients skip them."""
    manager = make_manager(MockModel(says("ok"), delay=0.6))
    with running(manager, tmp_path, Settings(silence=0.05)) as slow:
        body: dict[str, Any] = {"prompt": "hi", "stream": True, "temperature": 0}

        async def main() -> list[bytes]:
            sent = json.dumps(body).encode()
            async with exchange(parse_address(slow.tcp), "POST", "/completion", sent) as response:
                return [line for line in await lines_of(response) if line]

        for never in (-1, 0, 100):
            body["sse_ping_interval"] = never
            assert asyncio.run(main())[0].startswith(b"data: ")
        for wrong in (-2, 0.5, "1"):
            fields = {"prompt": "hi", "stream": True, "sse_ping_interval": wrong}
            for path in ("/completion", "/v1/completions"):
                assert slow.ask("POST", path, fields)[0] == 400
        del body["sse_ping_interval"]
        lines = asyncio.run(main())
        assert lines[0].startswith(b":") and lines.count(lines[0]) >= 2
        told = [json.loads(line[6:]) for line in lines if line.startswith(b"data: ")]
        assert "".join(part["content"] for part in told) == "ok"
        with openai.OpenAI(base_url=f"{slow.tcp}/v1", api_key="none") as client:
            stream = client.completions.create(
                model="m", prompt="hi", stream=True, temperature=0, max_tokens=9
            )
            assert "".join(chunk.choices[0].text for chunk in stream) == "ok"


def test_a_little_faster_leaves_the_suffix_as_it_was(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    totals = server.service.totals
    limits = set()
    for rate in range(300, 500, 10):
        with monkeypatch.context() as patch:
            patch.setattr(type(totals), "prompt_rate", rate)
            fields = {"t_max_prompt_ms": 1000.0}
            limits.add(suffix_limit(Call(server.service, fields, {}, {})))
    assert limits == {256}


def test_cached_tokens_are_counted_apart(tmp_path: Path) -> None:
    with running(make_manager(MockModel(says("ok"))), tmp_path) as own:
        told = [ask(own, "/completion", prompt="once more")["timings"] for _ in range(2)]
        counts = dict(
            line.removeprefix("llamacpp:").split()
            for line in own.ask("GET", "/metrics")[1].splitlines()
            if not line.startswith("#")
        )
    assert int(counts["prompt_tokens_total"]) == sum(each["prompt_n"] for each in told)
    assert int(counts["prompt_tokens_cached_total"]) == told[1]["cache_n"] > 0
    assert int(counts["n_tokens_max"]) == len("once more") + 1 + len("ok") + 1


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"messages": "hi"}, "messages is text; a list, each item an object, is expected"),
        ({"messages": [5]}, "messages[0] is a whole number; an object is expected"),
        ({"stream": "yes"}, "stream is text; true or false is expected"),
        ({"messages": [{"role": "user"}], "model": 5}, "model is a whole number; text is expected"),
        ([1], "the body is a list; an object is expected"),
        (None, "messages is empty: at least one message is expected"),
    ],
)
def test_errors_speak_of_json(server: Running, fields: Any, expected: str) -> None:
    status, answer = server.ask("POST", "/v1/chat/completions", fields)
    assert (status, answer["error"]["message"]) == (400, expected)

"""The clients that people have, unchanged: the SDKs of OpenAI, Anthropic and Ollama."""

from collections.abc import Iterator

import anthropic
import httpx
import ollama
import openai
import pytest

from tests.server.conftest import SAID
from tests.server.serving import Running

GREEDY = {"temperature": 0}
ASKED = [{"role": "user", "content": "Why?"}]


@pytest.fixture(params=["tcp", "unix"])
def openai_client(request: pytest.FixtureRequest, server: Running) -> Iterator[openai.OpenAI]:
    transport = httpx.HTTPTransport(uds=server.unix) if request.param == "unix" else None
    base = "http://localhost/v1" if transport else f"{server.tcp}/v1"
    with (
        httpx.Client(transport=transport) as http,
        openai.OpenAI(base_url=base, api_key="undefined", http_client=http) as client,
    ):
        yield client


def test_openai_chat(openai_client: openai.OpenAI) -> None:
    done = openai_client.chat.completions.create(
        model="mock", messages=ASKED, temperature=0, n=2, seed=1, logprobs=True, top_logprobs=2
    )
    assert [choice.message.content for choice in done.choices] == [SAID, SAID]
    assert {choice.finish_reason for choice in done.choices} == {"stop"}
    assert done.usage.completion_tokens == 2 * (len(SAID) + 1)
    assert done.usage.total_tokens == done.usage.prompt_tokens + done.usage.completion_tokens
    entry = done.choices[0].logprobs.content[0]
    assert (entry.token, entry.bytes, len(entry.top_logprobs)) == ("T", [84], 2)
    assert entry.top_logprobs[0].token == "T" and entry.logprob < 0


def test_openai_chat_stream(openai_client: openai.OpenAI) -> None:
    chunks = list(
        openai_client.chat.completions.create(
            model="mock",
            messages=ASKED,
            temperature=0,
            stream=True,
            stop=["\n"],
            stream_options={"include_usage": True},
        )
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert deltas[0].role == "assistant"
    assert "".join(delta.content or "" for delta in deltas) == "The sky is"
    assert chunks[-2].choices[0].finish_reason == "stop"
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 11
    stream = openai_client.chat.completions.create(
        model="mock", messages=ASKED, temperature=0, stream=True, stop=["\n"], logprobs=True
    )
    told = [c.choices[0].logprobs.content for c in stream if c.choices and c.choices[0].logprobs]
    assert "".join(entry.token for entries in told for entry in entries) == "The sky is\n"


def test_openai_completions(openai_client: openai.OpenAI) -> None:
    done = openai_client.completions.create(
        model="mock", prompt=["a", "b"], temperature=0, max_tokens=3, echo=True
    )
    assert [choice.text for choice in done.choices] == ["aThe", "bThe"]
    assert done.usage.completion_tokens == 6 and done.choices[1].finish_reason == "length"
    stream = openai_client.completions.create(
        model="mock", prompt=[[65, 66]], temperature=0, stream=True, logprobs=1, max_tokens=3
    )
    choices = [chunk.choices[0] for chunk in stream]
    assert "".join(choice.text for choice in choices) == "The"
    assert choices[1].logprobs.tokens == ["h"]


def test_openai_responses(openai_client: openai.OpenAI) -> None:
    done = openai_client.responses.create(
        model="mock", input="Why?", instructions="Be brief.", temperature=0, max_output_tokens=40
    )
    assert done.output_text == SAID and done.status == "completed"
    with openai_client.responses.stream(model="mock", input=ASKED, temperature=0) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_response()
    assert final.output_text == SAID
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"


def test_openai_models_and_errors(openai_client: openai.OpenAI) -> None:
    assert [model.id for model in openai_client.models.list()] == ["mock"]
    assert openai_client.models.retrieve("mock").id == "mock"
    with pytest.raises(openai.NotFoundError):
        openai_client.models.retrieve("other")
    with pytest.raises(openai.BadRequestError) as found:
        openai_client.chat.completions.create(model="m", messages=ASKED, top_p=3)
    assert found.value.param == "top_p" and "from 0.0 to 1.0" in found.value.message
    with pytest.raises(openai.BadRequestError) as found:
        openai_client.completions.create(model="m", prompt="x" * 99)
    assert found.value.type == "exceed_context_size_error"
    assert found.value.body["n_ctx"] == 64


@pytest.fixture
def anthropic_client(server: Running) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=server.tcp, api_key="any") as client:
        yield client


def test_anthropic(anthropic_client: anthropic.Anthropic) -> None:
    done = anthropic_client.messages.create(
        model="m", messages=ASKED, max_tokens=40, extra_body=GREEDY, system="Be brief."
    )
    assert done.content[0].text == SAID and done.stop_reason == "end_turn"
    assert done.usage.output_tokens == len(SAID) + 1
    counted = anthropic_client.messages.count_tokens(model="m", messages=ASKED, system="Be brief.")
    usage = done.usage
    assert counted.input_tokens == usage.input_tokens + usage.cache_read_input_tokens
    cut = anthropic_client.messages.create(
        model="m", messages=ASKED, max_tokens=40, extra_body=GREEDY, stop_sequences=["\n"]
    )
    assert (cut.content[0].text, cut.stop_reason) == ("The sky is", "stop_sequence")
    assert cut.stop_sequence == "\n"


def test_anthropic_stream(anthropic_client: anthropic.Anthropic) -> None:
    with anthropic_client.messages.stream(
        model="m",
        max_tokens=5,
        extra_body=GREEDY,
        messages=[
            {"role": "user", "content": [{"type": "text", "text": "Why?"}]},
            {"role": "assistant", "content": "Because."},
            {"role": "user", "content": "No."},
        ],
    ) as stream:
        assert "".join(stream.text_stream) == "The s"
        final = stream.get_final_message()
    assert final.stop_reason == "max_tokens" and final.usage.output_tokens == 5
    with pytest.raises(anthropic.BadRequestError) as found:
        anthropic_client.messages.create(model="m", messages=[], max_tokens=1)
    assert found.value.body["error"]["type"] == "invalid_request_error"


@pytest.fixture(params=["tcp", "unix"])
def ollama_client(request: pytest.FixtureRequest, server: Running) -> Iterator[ollama.Client]:
    unix = httpx.HTTPTransport(uds=server.unix) if request.param == "unix" else None
    client = ollama.Client("http://localhost" if unix else server.tcp, transport=unix)
    yield client
    client._client.close()


def test_ollama(ollama_client: ollama.Client) -> None:
    options = {"temperature": 0, "num_predict": 40, "num_ctx": 4096}
    done = ollama_client.chat("mock", ASKED, options=options, keep_alive=-1)
    assert done.message.content == SAID and done.done_reason == "stop"
    assert done.eval_count == len(SAID) + 1 and done.prompt_eval_count > 5
    lines = list(ollama_client.chat("mock", ASKED, options=options, stream=True, think=False))
    assert "".join(line.message.content for line in lines) == SAID
    assert [line.done for line in lines[-2:]] == [False, True]
    written = ollama_client.generate("mock:latest", "Why?", options={**options, "stop": ["sky"]})
    assert written.response == "The "
    lines = list(ollama_client.generate("mock", "Why?", raw=True, stream=True, options=options))
    assert "".join(line.response for line in lines) == SAID
    filled = ollama_client.generate("mock", "def f(", suffix="return", options=options)
    assert filled.response == SAID
    assert ollama_client.generate("mock").done_reason == "load"


def test_ollama_models(ollama_client: ollama.Client) -> None:
    (listed,) = ollama_client.list().models
    assert listed.model == "mock" and listed.details.format == "gguf"
    assert ollama_client.ps().models[0].context_length == 64
    shown = ollama_client.show("mock")
    assert ".Suffix" in shown.template and "insert" in shown.capabilities
    assert shown.modelinfo["general.architecture"] == "mock"
    for line in shown.parameters.splitlines():
        assert line.split() == ["num_ctx", "64"]
    assert ollama_client.pull("mock").status == "success"  # it is here already
    assert [part.status for part in ollama_client.pull("mock:latest", stream=True)][-1] == "success"
    with pytest.raises(ollama.ResponseError, match="edgellm pull"):
        ollama_client.delete("mock")

"""OpenAI's responses API beyond one answer: what is kept, and what an input of items means."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import openai
import pytest

from edgellm.errors import RequestError
from edgellm.server.kept_responses import Kept, KeptResponses
from edgellm.server.responses_input import joined, messages_of
from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import Running, running


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Any:
    manager = make_manager(MockModel(says("Yes.")), context_length=1024, num_blocks=512)
    with running(manager, tmp_path_factory.mktemp("socket")) as found:
        yield found


def test_a_request_goes_on_from_a_response(server: Running) -> None:
    with openai.OpenAI(base_url=f"{server.tcp}/v1", api_key="none") as client:
        first = client.responses.create(model="m", input="One?", instructions="Be.", temperature=0)
        with client.responses.stream(
            model="m", input="Two?", previous_response_id=first.id, temperature=0
        ) as stream:
            second = stream.get_final_response()
        assert second.previous_response_id == first.id and second.store is True
        items = client.responses.input_items.list(second.id)
        said = [item.content[0].text for item in items.data]  # type: ignore[union-attr]
        assert said == ["One?", "Yes.", "Two?"]  # instructions are not handed on
        assert client.responses.retrieve(second.id).output_text == "Yes."
        client.responses.delete(first.id)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(first.id)
        with pytest.raises(openai.BadRequestError, match="no more"):
            client.responses.create(model="m", input="?", previous_response_id=first.id)
        passed = client.responses.create(model="m", input="One?", store=False, temperature=0)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve(passed.id)


@pytest.mark.parametrize("stream", [False, True])
def test_the_one_before_may_go_while_the_answer_is_written(tmp_path: Path, stream: bool) -> None:
    known: list[KeptResponses] = []
    write = says("Yes.")

    def forgetful(tokens: list[int], num_prompt_tokens: int) -> npt.NDArray[np.float32]:
        for responses in known:
            responses.forget("resp_1")
        return write(tokens, num_prompt_tokens)

    with running(make_manager(MockModel(forgetful)), tmp_path) as server:
        known.append(server.service.responses)
        known[0].keep("resp_1", Kept(({"role": "user", "content": "One?"},), {}))
        fields = {"input": "Two?", "previous_response_id": "resp_1", "stream": stream}
        status, said = server.ask("POST", "/v1/responses", fields)
        assert status == 200 and known[0].find("resp_1") is None
        assert "Yes." in str(said) and "no more" not in str(said)


def test_the_events_of_a_stream(server: Running) -> None:
    with openai.OpenAI(base_url=f"{server.tcp}/v1", api_key="none") as client:
        events = list(client.responses.create(model="m", input="?", temperature=0, stream=True))
    kinds = [event.type.removeprefix("response.") for event in events]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    begun = ["created", "in_progress", "output_item.added", "content_part.added"]
    ended = ["output_text.done", "content_part.done", "output_item.done", "completed"]
    assert kinds[:4] == begun and kinds[-4:] == ended
    assert set(kinds[4:-4]) == {"output_text.delta"}


def test_items_of_one_turn_are_one_message() -> None:
    def call(call_id: str) -> dict[str, Any]:
        return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": "{}"}

    thought = {"type": "reasoning", "content": [{"type": "reasoning_text", "text": "Hm."}]}
    said = {"role": "assistant", "content": [{"type": "output_text", "text": "I look."}]}
    result = {"type": "function_call_output", "call_id": "a", "output": "21"}
    parts = {**result, "output": [{"type": "input_text", "text": "21"}]}
    assert messages_of({"input": [parts]}) == messages_of({"input": [result]})
    with pytest.raises(RequestError, match=r"input\[0\]\.output holds what is no text"):
        messages_of({"input": [{**result, "output": [{"type": "input_image"}]}]})
    asked = {"role": "user", "content": "Why?"}
    found = messages_of({"input": [asked, thought, said, call("a"), call("b"), result]})
    assert [message["role"] for message in found] == ["user", "assistant", "tool"]
    assert [c["id"] for c in found[1]["tool_calls"]] == ["a", "b"]
    assert (found[1]["content"], found[1]["reasoning_content"]) == ("I look.", "Hm.")
    found = messages_of({"input": [asked, call("a"), result, said, call("b"), thought, asked]})
    told = [(m["role"], m["content"], len(m.get("tool_calls", ()))) for m in found]
    calls = [("assistant", "", 1), ("tool", "21", 0), ("assistant", "I look.", 1)]
    assert told == [("user", "Why?", 0), *calls, ("user", "Why?", 0)]  # no thought by itself
    assert not any("reasoning_content" in message for message in found)
    spoken = [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    assert joined(spoken) == spoken


def test_the_oldest_responses_go() -> None:
    kept = KeptResponses(most=2, characters=400)
    for name in "ab":
        kept.keep(name, Kept(({"content": name},), {}))
    assert kept.find("a") is not None  # which makes it the latest
    kept.keep("c", Kept((), {}))
    assert [kept.find(name) is not None for name in "abc"] == [True, False, True]
    for large in (Kept(({"content": "x" * 500},), {}), Kept((), {"output": "x" * 500})):
        kept.keep("d", large)
        assert not any(kept.find(name) for name in "abcd")
    assert not kept.forget("a")
    kept.keep("e", Kept((), {}))
    assert kept.find("e") is not None

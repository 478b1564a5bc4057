"""The families' own templates: which dialect they tell, and that what they write is read again."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgellm.chat_template import ChatTemplate
from edgellm.dialects import CallPart, dialect_of, thinking_of
from tests.dialects.reading import TOOLS, calls, given_tools, read, reasoning
from tests.dialects.test_grammar import allows

FOLDER = Path(__file__).parent / "templates"
TOLD = {
    "deepseek-r1": ("deepseek v3", "<think>"),
    "deepseek-v3.1": ("deepseek v3.1", "<think>"),
    "glm-5.1": ("glm", "<think>"),
    "gpt-oss": ("harmony", None),
    "granite-4": ("hermes", None),
    "kimi-k2-thinking": ("kimi", "<think>"),
    "mistral-nemo": ("mistral json", None),
    "qwen2.5": ("hermes", None),
    "qwen3": ("hermes", "<think>"),
    "qwen3.5": ("qwen xml", "<think>"),
    "qwen3-coder": ("qwen xml", None),
}
ARGUMENTS = {"city": "Paris", "days": 3}
ASKED = [{"role": "user", "content": "Weather?"}]


@pytest.fixture(params=TOLD)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def template(name: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatTemplate]:
    """Rendered in this process: these are no strangers."""
    monkeypatch.setattr("edgellm.chat_template.template.is_known", lambda source: True)
    source = (FOLDER / f"{name}.jinja").read_text("utf-8")
    found = ChatTemplate(source, bos_text="<s>", eos_text="</s>")
    yield found
    found.close()


def called(name: str) -> dict[str, Any]:
    """What OpenAI's client sends back after a call."""
    call_id = "functions.get_weather:0" if name == "kimi-k2-thinking" else "call_0123456789"
    function = {"name": "get_weather", "arguments": json.dumps(ARGUMENTS)}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call]}


def written(name: str, template: ChatTemplate) -> str:
    """The call as the template writes it, with what is before the answer."""
    before = template.render(ASKED, tools=TOOLS, add_generation_prompt=False)
    after = template.render([*ASKED, called(name)], tools=TOOLS, add_generation_prompt=False)
    return after[len(os.path.commonprefix([before, after])) :]


def test_the_template_tells_the_dialect(name: str, template: ChatTemplate) -> None:
    thinking = thinking_of(template.source)
    found = (dialect_of(template.source).name, thinking and thinking.open)
    assert found == TOLD[name]


def test_what_the_template_writes_is_read(name: str, template: ChatTemplate) -> None:
    answer = written(name, template)
    for pieces in ([answer], [*answer]):
        parts = read(template.source, pieces, given_tools(), tail="")
        assert calls(parts) == [("get_weather", ARGUMENTS)]
    if name == "kimi-k2-thinking":
        (call,) = (part for part in parts if isinstance(part, CallPart))
        assert call.id == "functions.get_weather:0"  # of which the template makes the next prompt


def test_what_the_template_writes_is_what_is_held_to(name: str, template: ChatTemplate) -> None:
    dialect = dialect_of(template.source)
    if dialect.name == "harmony":
        return  # its templates and its models put the recipient at different places
    answer = written(name, template)
    start = min(at for mark in dialect.marks if (at := answer.find(mark)) >= 0)
    end = max(answer.rfind(mark) + len(mark) for mark in (*dialect.marks, "]") if mark in answer)
    call = answer[start:end]
    if name == "mistral-nemo":  # it adds the ids that clients made
        call = '[TOOL_CALLS][{"name": "get_weather", "arguments": {"city": "Paris", "days": 3}}]'
    assert allows(template.source, call, given_tools("required"), tail="")


def test_results_reach_the_template(name: str, template: ChatTemplate) -> None:
    caller = called(name)
    call_id = caller["tool_calls"][0]["id"]
    result = {"role": "tool", "tool_call_id": call_id, "content": '{"temperature": 21}'}
    prompt = template.render([*ASKED, caller, result], tools=TOOLS)
    assert "Paris" in prompt and "21" in prompt and "get_weather" in prompt


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("qwen3", {}),
        ("qwen3.5", {}),
        ("glm-5.1", {}),
        ("deepseek-v3.1", {"thinking": True}),
        ("deepseek-r1", {}),
    ],
)
def test_reasoning_begins_where_the_prompt_ends(
    template: ChatTemplate, variables: dict[str, Any]
) -> None:
    prompt = template.render(ASKED, **variables)
    opened = prompt.rstrip().endswith("<think>")
    answer = "\nHm.\n</think>\n\nYes" if opened else "<think>\nHm.\n</think>\n\nYes"
    parts = read(template.source, answer, tail=prompt)
    assert reasoning(parts) == "Hm."

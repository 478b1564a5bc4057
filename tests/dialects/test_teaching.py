"""What models are told whose templates know no tools."""

import json
from typing import Any

from edgellm.dialects import Tools, plan
from edgellm.dialects.dialect import TAUGHT
from tests.dialects.reading import details, given_tools

USER = {"role": "user", "content": "Weather?"}
CALL = {"function": {"name": "get_weather", "arguments": '{"city": "Paris"}'}}
CALLING = {"role": "assistant", "content": "I look.", "tool_calls": [CALL, CALL]}
RESULT = {"role": "tool", "name": "get_weather", "content": [{"type": "text", "text": "21"}]}


def told(*messages: Any, tools: Tools | None = None) -> list[Any]:
    asked = plan(details("{{ messages }}"), tools or given_tools())
    assert asked.dialect is TAUGHT and asked.template_tools is None
    return [*asked.messages(messages)]


def test_the_lesson() -> None:
    """In the system message; some templates take none, and then the first of the user has it."""
    (user,) = told(USER)
    assert user["role"] == "user" and user["content"].endswith("\n\nWeather?")
    assert '"name": "note"' in user["content"] and "To call one" in user["content"]
    system, user = told({"role": "system", "content": "Be brief."}, USER)
    assert system["content"].startswith("Be brief.\n\nYou can") and user == USER
    (user,) = told(USER, tools=given_tools({"function": {"name": "note"}}))
    assert "Call one now" in user["content"] and "get_weather" not in user["content"]
    assert told(USER, tools=given_tools("none")) == [USER]


def test_calls_and_results_are_text_and_the_roles_take_turns() -> None:
    _, call, results = told(USER, CALLING, RESULT, RESULT, {"role": "user", "content": "And?"})
    said, *calls = call["content"].split("\n")
    assert said == "I look." and call["role"] == "assistant"
    assert {json.loads(c)["arguments"]["city"] for c in calls} == {"Paris"} and len(calls) == 2
    result = "Result of get_weather: 21"
    assert results == {"role": "user", "content": f"{result}\n{result}\nAnd?"}

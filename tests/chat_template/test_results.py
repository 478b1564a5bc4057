"""Results of tools in the shapes that templates take."""

from typing import Any

from edgellm.chat_template.messages import read_traits, shape_messages

CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
CALLING: dict[str, Any] = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": '{"a": 1}'}


def test_results_have_the_functions_name() -> None:
    named = {**RESULT, "name": "own"}
    other = {**RESULT, "tool_call_id": "unknown"}
    shaped = shape_messages([CALLING, RESULT, named, other], read_traits(""))
    assert [message.get("name") for message in shaped] == [None, "f", "own", None]


def test_results_in_the_message_that_called() -> None:
    """As Gemma 4's template takes them."""
    traits = read_traits("{% for r in message['tool_responses'] %}{% endfor %}")
    text = {**RESULT, "content": "plain"}
    user = {"role": "user", "content": "?"}
    calling, asked, alone = shape_messages([CALLING, RESULT, text, user, RESULT], traits)
    assert calling["tool_responses"] == [
        {"name": "f", "response": {"a": 1}},
        {"name": "f", "response": "plain"},
    ]
    assert (asked["role"], alone["role"]) == ("user", "tool")


def test_short_ids() -> None:
    """As Mistral's templates take them: the same id becomes the same."""
    traits = read_traits("{% if call.id|length != 9 %}{{ raise_exception('no') }}{% endif %}")
    calling, result = shape_messages([CALLING, RESULT], traits)
    short = calling["tool_calls"][0]["id"]
    assert len(short) == 9 and short.isalnum() and result["tool_call_id"] == short
    kept = {**RESULT, "tool_call_id": "abcdEF123"}
    assert shape_messages([kept], traits)[0]["tool_call_id"] == "abcdEF123"
    half = {**RESULT, "tool_call_id": "\ud800"}
    assert len(shape_messages([half], traits)[0]["tool_call_id"]) == 9

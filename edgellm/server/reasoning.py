"""What a request says of reasoning, as variables of chat templates. Knows no model.

APIs and those who serve models have many names for it, and so have the templates.
"""

from collections.abc import Mapping
from typing import Any

from edgellm.dialects.effort import switched, with_effort
from edgellm.errors import RequestError
from edgellm.server.fields import read

_SWITCHES = ("enable_thinking", "thinking", "think")
_FORMATS = ("auto", "deepseek", "none")
_WORDS = {"enabled": True, "adaptive": True, "auto": None, "disabled": False}


def reasoning_of(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that the fields of a request stand for; none where it says nothing.

    Effort: OpenAI's `reasoning_effort` or `reasoning.effort`, Anthropic's `output_config.effort`,
    or a text in Ollama's `think`. A switch: a flag, or an object with a type, in `think`,
    `thinking` or `enable_thinking`.
    """
    effort = read(fields, "reasoning_effort", str)
    for name in ("reasoning", "output_config"):
        effort = effort or read(read(fields, name, dict[str, Any], {}), "effort", str)
    variables: dict[str, Any] = {}
    for name in _SWITCHES:
        value = fields.get(name)
        if isinstance(value, str) and value in ("low", "medium", "high"):
            effort = effort or value
        elif value is not None:
            variables |= switched(_is_on(name, value))
    if effort:
        variables = with_effort(effort, variables)
    return variables


def is_apart(fields: Mapping[str, Any]) -> bool:
    """Whether reasoning is told apart from what is said (llama.cpp's `reasoning_format`), or left
    in it as the model wrote it."""
    wanted = read(fields, "reasoning_format", str, "auto")
    if wanted not in _FORMATS:
        raise RequestError(
            f"reasoning_format is {wanted!r}: one of {', '.join(_FORMATS)} is expected",
            "reasoning_format",
        )
    return wanted != "none"


def _is_on(name: str, value: Any) -> bool | None:
    if isinstance(value, Mapping):
        value = _WORDS.get(str(value.get("type")), value)
    elif isinstance(value, str):
        value = _WORDS.get(value, value)
    if not isinstance(value, bool | None):
        raise RequestError(f"{name} is {value!r}: true or false is expected", name)
    return value

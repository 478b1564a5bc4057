"""How much a model is to think before it answers, as variables of chat templates.

Templates have many names for it. Knows no API and no front end.
"""

import re
from collections.abc import Mapping
from typing import Any

NO_EFFORT = "none"
LEVELS = ("off", "on", "low", "medium", "high")

_OFF: Mapping[str, Any] = {"enable_thinking": False, "thinking": False, "thinking_budget": 0}
_ON: Mapping[str, Any] = {"enable_thinking": True, "thinking": True}
_HARMONY = {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"}  # it has three
_NAMES = re.compile(r"\b(enable_thinking|thinking|thinking_budget|reasoning_effort)\b")
_CODE = re.compile(r"{[{%](.*?)[%}]}", re.DOTALL)


def switched(is_on: bool | None) -> Mapping[str, Any]:
    """Thinking on or off; None leaves that to the template."""
    return {} if is_on is None else _ON if is_on else _OFF


def with_effort(effort: str, variables: Mapping[str, Any]) -> dict[str, Any]:
    """These variables and an effort; any but "none" has it on where they do not say."""
    return {**switched(effort != NO_EFFORT), **variables, "reasoning_effort": effort}


def for_harmony(variables: Mapping[str, Any]) -> dict[str, Any]:
    """The same with an effort that models which write channels were trained for."""
    effort = variables.get("reasoning_effort")
    if not isinstance(effort, str):
        return dict(variables)
    return {**variables, "reasoning_effort": _HARMONY.get(effort, effort)}


def at_level(level: str, has_channels: bool) -> dict[str, Any]:
    """One of LEVELS, for a person who need not know the model. has_channels: as of its dialect."""
    if level == "on":
        return dict(_ON)
    variables = with_effort(NO_EFFORT if level == "off" else level, {})
    return for_harmony(variables) if has_channels else variables


def has_switch(template: str) -> bool:
    """Whether a chat template looks at any of these variables."""
    return any(_NAMES.search(code) for code in _CODE.findall(template))

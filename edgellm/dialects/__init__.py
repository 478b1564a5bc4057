"""Answers taken apart as they stream: reasoning, text, tool calls. Knows no engine and no API.

A dialect is one model family's way of writing them; each has a file here, and a row in `dialect`.
"""

from edgellm.dialects.dialect import (
    DIALECTS,
    MARKS,
    Thinking,
    can_think,
    dialect_of,
    thinking_of,
)
from edgellm.dialects.functions import Function, Tools, read_tools
from edgellm.dialects.parts import CallPart, Parser, Part, PlainParser, TextPart, merged
from edgellm.dialects.plan import TAIL, Answering, Plan, plan, taken_apart, thinking_variables

__all__ = [
    "DIALECTS",
    "MARKS",
    "TAIL",
    "Answering",
    "CallPart",
    "Function",
    "Parser",
    "Part",
    "PlainParser",
    "Plan",
    "TextPart",
    "Thinking",
    "Tools",
    "can_think",
    "dialect_of",
    "merged",
    "plan",
    "read_tools",
    "taken_apart",
    "thinking_of",
    "thinking_variables",
]

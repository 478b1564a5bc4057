"""How a request is asked of a model and how its answers are read. Knows no engine and no API."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from edgellm.dialects.dialect import Dialect, Thinking, dialect_of, thinking_of
from edgellm.dialects.effort import at_level, has_switch
from edgellm.dialects.functions import Tools
from edgellm.dialects.lark import Lark
from edgellm.dialects.parts import CallPart, Parser, PlainParser, TextPart, merged
from edgellm.dialects.reader import Reader, Reading, ReadingParser
from edgellm.dialects.teaching import taught
from edgellm.errors import RequestError
from edgellm.sampling_params import SamplingParams, constraints_of
from edgellm.types import Completion, Message, Messages, ModelDetails, ToolCall

TAIL = 16  # tokens of a prompt that tell how it ends


@dataclass(frozen=True)
class Answering:
    """How answers are asked for and read. params: with the dialect's grammar, where it is held to.

    shown: control tokens that are text all the same. parser: makes one for each answer.
    """

    params: SamplingParams = field(default_factory=SamplingParams)
    shown: tuple[int, ...] = ()
    parser: Callable[[], Parser] = PlainParser


@dataclass(frozen=True)
class Plan:
    """A model's dialect and a request's tools."""

    dialect: Dialect
    thinking: Thinking | None
    control: Mapping[str, int]
    tools: Tools

    @property
    def template_tools(self) -> list[Message] | None:
        """What the template is given."""
        if not self.tools.callable or self.dialect.is_taught:
            return None
        names = self.tools.callable
        return [tool for tool in self.tools.described if tool["function"]["name"] in names]

    def messages(self, messages: Messages) -> Messages:
        """What the template is given. A model that does not know calls is told of them."""
        return taught(messages, self.tools) if self.dialect.is_taught else messages

    def answering(
        self, params: SamplingParams, tail: str, streams: bool = False, is_apart: bool = True
    ) -> Answering:
        """tail: the end of the prompt, with its markers. streams: calls are wanted as they come.
        is_apart: reasoning is no part of what is said; else it is, with its markers.

        A schema is one of what is said: calls, channels and reasoning that has begun go before it.
        RequestError when two other forms are asked of the answer, or reasoning in channels is not
        to be apart.
        """
        if self.dialect.has_channels and not is_apart:
            raise RequestError(
                "reasoning_format: this model writes reasoning in a channel, which is always apart",
                "reasoning_format",
            )
        is_open, is_closed = self._thought(tail)
        form = next(iter(constraints_of(params)), None)
        is_schema = form == "json_schema"
        is_held = self.tools.is_held or (is_schema and self._has_more(is_open))
        if is_held and form is not None and not is_schema:
            raise RequestError(
                "tools: calls that must have a form (tool_choice, strict, or parallel_tool_calls) "
                f"cannot be asked for together with {form}",
                "tools",
            )
        if is_held:
            grammar = self._grammar(is_open, is_closed, _schema(params))
            given = {name: value for name, value in params.given.items() if name != form}
            params = SamplingParams(**{**given, "lark": grammar})
        elif form is not None:
            is_open = False  # the form leaves no room for reasoning
        shown = tuple(sorted(set(self.control.values())))
        if not (self.tools.callable or self.thinking or self.dialect.has_channels):
            return Answering(params)
        return Answering(params, shown, partial(self._parser, is_open, streams, is_apart))

    def end_of_thought(self, tail: str) -> str:
        """What goes before an answer of which the beginning is given; tail: the prompt's end."""
        is_open, _ = self._thought(tail)
        return f"{self.thinking.close}\n\n" if is_open and self.thinking is not None else ""

    def _parser(self, is_open: bool, streams: bool, is_apart: bool) -> Parser:
        reader = Reader(self.tools.callable, streams)
        return ReadingParser(reader, self._read(reader, is_open, is_apart))

    def _read(self, reader: Reader, is_open: bool, is_apart: bool) -> Reading[None]:
        yield  # until there is text
        if self.thinking is not None and not self.dialect.has_channels:
            think = _think if is_apart else _think_aloud
            yield from think(reader, self.thinking, is_open)
        if self.tools.callable or self.dialect.has_channels:
            yield from self.dialect.read(reader)
        else:
            yield from reader.say_rest()
        reader.end()

    def _has_more(self, is_open: bool) -> bool:
        """Whether an answer may have more than what is said."""
        return self.dialect.has_channels or is_open or bool(self.tools.callable)

    def _grammar(self, is_open: bool, is_closed: bool, said: Any = None) -> str:
        """said: a schema of what is said instead of a call."""
        lark = Lark(self.control)
        content = self._content(lark, said)
        thinking = self.thinking
        if thinking is None or self.dialect.has_channels or is_closed:
            return lark.grammar(content)
        thought = f'{lark.until(thinking.close)} ("\\n")*'
        if not is_open:
            thought = f"({lark.mark(thinking.open)} {thought})?"
        return lark.grammar(f"{thought} {content}")

    def _content(self, lark: Lark, said: Any) -> str:
        if said is None:
            return self.dialect.write(lark, self.tools)
        required = replace(self.tools, choice="required")
        if self.tools.choice == "required":
            return self.dialect.write(lark, required)
        if self.dialect.choose is not None and self.tools.callable:
            return self.dialect.choose(lark, self.tools, said)
        form = self.dialect.say(lark, lark.json(said))
        return f"({self.dialect.write(lark, required)} | {form})" if self.tools.callable else form

    def _thought(self, tail: str) -> tuple[bool, bool]:
        """Whether the prompt ends inside reasoning, or behind it."""
        if self.thinking is None:
            return False, False
        end = tail.rstrip()
        return end.endswith(self.thinking.open), end.endswith(self.thinking.close)


def plan(model: ModelDetails, tools: Tools | None = None) -> Plan:
    """The plan for a model that is given these tools."""
    asked = tools or Tools()
    template = (asked.callable and model.tool_template) or model.chat_template
    dialect, thinking = dialect_of(template), thinking_of(template)
    marks = {*dialect.marks, *((thinking.open, thinking.close) if thinking else ())}
    control = {mark: i for mark, i in model.control_marks.items() if mark in marks}
    return Plan(dialect, thinking, control, asked)


def thinking_variables(model: ModelDetails, level: str) -> dict[str, Any] | None:
    """Variables for a model's chat template that stand for one of LEVELS; None where the template
    has no switch: the model thinks as much as it thinks."""
    if not has_switch(model.chat_template):
        return None
    return at_level(level, dialect_of(model.chat_template).has_channels)


def _schema(params: SamplingParams) -> Any:
    if params.json_schema is None:
        return None
    from edgellm.constraints import schema_text  # with numpy: not for an answer without a form

    return json.loads(schema_text(params.json_schema))


def taken_apart(completion: Completion, parser: Callable[[], Parser]) -> Completion:
    """A finished answer with its reasoning and its calls apart from its text."""
    reader = parser()
    parts = merged(reader.push(completion.text) + reader.finish())
    texts = [part for part in parts if isinstance(part, TextPart)]
    calls = [part for part in parts if isinstance(part, CallPart)]
    return replace(
        completion,
        text="".join(part.text for part in texts if part.kind == "content"),
        reasoning="".join(part.text for part in texts if part.kind == "reasoning"),
        tool_calls=tuple(ToolCall(c.id or "", c.name or "", c.arguments) for c in calls),
        others=tuple(taken_apart(other, parser) for other in completion.others),
    )


def _think(reader: Reader, thinking: Thinking, is_open: bool) -> Reading[None]:
    """Reasoning at the beginning of an answer, or of which the prompt has the beginning."""
    start = yield from reader.blanks()
    if (yield from reader.skip(thinking.open)):
        yield from reader.skip(thinking.label)
        is_open = True
    if not is_open:
        reader.say(start)
        return
    reader.drop_blanks()
    yield from reader.say_until(thinking.close, kind="reasoning")
    reader.drop_blanks()


def _think_aloud(reader: Reader, thinking: Thinking, is_open: bool) -> Reading[None]:
    """The same as part of what is said, as it is written."""
    reader.say((yield from reader.blanks()))
    if (yield from reader.skip(thinking.open)):
        reader.say(thinking.open)
        is_open = True
    if is_open:
        reader.say((yield from reader.say_until(thinking.close)) or "")

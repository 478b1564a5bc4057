"""Answers held to a dialect: the grammars let its calls through and nothing that is none."""

from typing import Any

import pytest

from edgellm.constraints import Words, compile_constraint
from edgellm.dialects import Tools, dialect_of, plan, read_tools, thinking_of
from edgellm.errors import RequestError
from edgellm.types import SamplingParams
from tests.dialects.cases import CASES, Case
from tests.dialects.reading import TOOLS, details, given_tools
from tests.mock_model import EOG, VOCAB_SIZE, ByteTokenizer

each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
TAIL = "assistant\n"


class MarkTokenizer(ByteTokenizer):
    """One token per byte, and one per marker."""

    def __init__(self, marks: tuple[str, ...]) -> None:
        self.marks = marks
        self.vocab_size = VOCAB_SIZE + len(marks)

    def token_bytes(self, token_id: int) -> bytes:
        if token_id >= VOCAB_SIZE:
            return self.marks[token_id - VOCAB_SIZE].encode()
        return super().token_bytes(token_id)

    def tokens(self, text: str) -> list[int]:
        """The text with markers as their tokens."""
        found: list[int] = []
        while text:
            mark = next((m for m in self.marks if text.startswith(m)), None)
            found += text[0].encode() if mark is None else [VOCAB_SIZE + self.marks.index(mark)]
            text = text[1 if mark is None else len(mark) :]
        return found


def allows(
    template: str,
    answer: str,
    tools: Tools,
    with_tokens: bool = False,
    tail: str = TAIL,
    params: SamplingParams | None = None,
) -> bool:
    """Whether an answer, and its end, is what the tools ask for."""
    dialect, thinking = dialect_of(template), thinking_of(template)
    marks = dialect.marks + ((thinking.open, thinking.close) if thinking else ())
    tokenizer = MarkTokenizer(marks if with_tokens else ())
    control = {mark: VOCAB_SIZE + i for i, mark in enumerate(tokenizer.marks)}
    model = details(template)
    object.__setattr__(model, "control_marks", control)
    params = plan(model, tools).answering(params or SamplingParams(), tail).params
    constraint = compile_constraint(params, lambda: Words(tokenizer))  # type: ignore[arg-type]
    assert constraint is not None
    for token in tokenizer.tokens(answer):
        if constraint.is_complete or not constraint.allowed(tokenizer.vocab_size)[token]:
            return False
        constraint.accept(token)
    return constraint.is_complete or bool(constraint.allowed(tokenizer.vocab_size)[EOG])


@each
@pytest.mark.parametrize("with_tokens", [False, True])
def test_a_call_that_must_be(case: Case, with_tokens: bool) -> None:
    def allowed(answer: str, **changes: Any) -> bool:
        choice = changes.pop("choice", "required")
        tools = given_tools(choice, **changes)
        return allows(case.told_by, answer.removesuffix("<|call|>"), tools, with_tokens)

    assert allowed(case.one)
    assert not allowed("No.") and not allowed("")
    assert not allowed(case.one.replace("city", "town"))
    assert not allowed(case.one.replace("get_weather", "get_wealth"))
    named = {"type": "function", "function": {"name": "note"}}
    assert not allowed(case.one, choice=named)


@each
def test_only_one_call(case: Case) -> None:
    tools = given_tools("required", is_parallel=False)
    assert not allows(case.told_by, case.two, tools)


@each
@pytest.mark.parametrize("with_tokens", [False, True])
def test_a_call_that_may_be(case: Case, with_tokens: bool) -> None:
    tools = given_tools("auto", is_parallel=False)
    one = case.one.removesuffix("<|call|>")
    final = f"{case.head}No, it is\n<x>."
    assert allows(case.told_by, one, tools, with_tokens)
    assert allows(case.told_by, final, tools, with_tokens)
    assert not allows(case.told_by, one.replace("city", "town"), tools, with_tokens)


def test_types_are_held() -> None:
    tools = read_tools(TOOLS, "required")
    call = (
        '<tool_call>\n{"name": "get_weather", "arguments": {"city": "x", "days": %s}}\n</tool_call>'
    )
    assert allows("<tool_call>", call % "3", tools)
    assert not allows("<tool_call>", call % '"3"', tools)
    xml = (
        "<tool_call>\n<function=get_weather>\n<parameter=city>\nx\n</parameter>\n"
        "<parameter=units>\n%s\n</parameter>\n</function>\n</tool_call>"
    )
    template = "<tool_call> <function= <parameter="
    assert allows(template, xml % "metric", tools)
    assert not allows(template, xml % "kelvin", tools)


@pytest.mark.parametrize("with_tokens", [False, True])
def test_reasoning_comes_before_a_call_that_must_be(with_tokens: bool) -> None:
    tools, template = given_tools("required"), "<tool_call> <think> </think>"
    (case,) = (case for case in CASES if case.name == "hermes")
    thought = f"<think>\nHm, {{</think>\n\n{case.one}"
    assert allows(template, thought, tools, with_tokens)
    assert allows(template, case.one, tools, with_tokens)
    inside = thought.removeprefix("<think>")
    assert allows(template, inside, tools, with_tokens, tail="assistant\n<think>\n")
    assert not allows(template, case.one, tools, with_tokens, tail="assistant\n<think>\n")
    assert not allows(template, thought, tools, with_tokens, tail="<think>\n\n</think>\n\n")


ANSWER = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SCHEMA = SamplingParams(json_schema=ANSWER)


@each
@pytest.mark.parametrize("with_tokens", [False, True])
def test_a_call_or_an_answer_of_a_schema(case: Case, with_tokens: bool) -> None:
    head = case.head
    one = case.one.removesuffix("<|call|>")

    def allowed(answer: str, tools: Tools) -> bool:
        return allows(case.told_by, answer, tools, with_tokens, params=SCHEMA)

    for tools in (given_tools(), given_tools(is_parallel=False)):
        assert allowed(one, tools) and allowed(head + '{"a": 1}', tools)
        assert not allowed(head + '{"a": "1"}', tools) and not allowed(head + "No.", tools)
    assert allowed(one, given_tools("required"))  # a call says nothing
    assert not allowed(head + '{"a": 1}', given_tools("required"))
    assert allowed(head + '{"a": 1}', Tools()) and not allowed(head + "No.", Tools())


def test_definitions_of_calls_and_answers_come_together() -> None:
    def schema(kind: str) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"a": {"$ref": "#/$defs/A"}},
            "additionalProperties": False,
            "$defs": {"A": {"type": kind}},
        }

    function = {"name": "f", "parameters": schema("integer")}
    tools = read_tools([{"type": "function", "function": function}])
    same = SamplingParams(json_schema=schema("integer"))
    assert allows("", '{"name": "f", "arguments": {"a": 1}}', tools, params=same)
    assert not allows("", '{"name": "f", "arguments": {"a": ""}}', tools, params=same)
    with pytest.raises(RequestError, match="'A' is defined in two ways"):
        allows("", "", tools, params=SamplingParams(json_schema=schema("string")))
    function["parameters"] = {"type": "object", "$defs": 5}  # which define nothing
    tools = read_tools([{"type": "function", "function": function}])
    assert allows("", '{"name": "f", "arguments": {}}', tools, params=same)


@pytest.mark.parametrize("with_tokens", [False, True])
def test_reasoning_that_has_begun_goes_before_a_schema(with_tokens: bool) -> None:
    def allowed(answer: str, tail: str = TAIL) -> bool:
        return allows("<think> </think>", answer, Tools(), with_tokens, tail, SCHEMA)

    assert allowed('\nHm.</think>\n\n{"a": 1}', "assistant\n<think>\n")
    assert not allowed('{"a": 1}', "assistant\n<think>\n")
    assert allowed('{"a": 1}') and not allowed('<think>Hm.</think>{"a": 1}')


def test_what_cannot_be_held_is_refused() -> None:
    def function(strict: bool, **schema: Any) -> dict[str, Any]:
        parameters = {"type": "object", "properties": {"a": schema}, "required": ["a"]}
        return {
            "type": "function",
            "function": {"name": "f", "parameters": parameters, "strict": strict},
        }

    def params(template: str, tool: dict[str, Any], given: SamplingParams | None = None) -> Any:
        asked = plan(details(template), read_tools([tool], "required"))
        return asked.answering(given or SamplingParams(), TAIL).params

    xml, hermes = "<function= <parameter=", "<tool_call>"
    with pytest.raises(RequestError, match="'pattern' of a"):
        params(xml, function(True, type="string", pattern="a+"))
    assert params(xml, function(False, type="string", pattern="a+")).lark
    with pytest.raises(RequestError, match="f is strict"):
        params(hermes, function(True, nonsense=1))
    assert '"nonsense"' not in params(hermes, function(False, nonsense=1)).lark
    with pytest.raises(RequestError, match="together with regex"):
        params(hermes, function(True, type="string"), SamplingParams(regex="a"))


@pytest.mark.parametrize(
    ("tools", "choice", "message"),
    [
        ([{"type": "web_search"}], "auto", "no function"),
        ([{"type": "function", "function": {}}], "auto", "no name"),
        ([*TOOLS, TOOLS[0]], "auto", "twice"),
        (TOOLS, "sometimes", "'sometimes'"),
        (TOOLS, {"type": "function", "function": {"name": "fly"}}, "'fly'"),
        ([], "required", "no tools"),
        (TOOLS, {"type": "function"}, "names no function"),
        (TOOLS, {"type": "allowed_tools", "tools": [{"name": "fly"}]}, "'fly'"),
    ],
)
def test_wrong_tools(tools: list[Any], choice: Any, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        read_tools(tools, choice)


def test_some_of_the_tools() -> None:
    """OpenAI's allowed_tools, as its two APIs write it."""
    one = {"type": "function", "function": {"name": "note"}}
    for choice in (
        {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [one]}},
        {"type": "allowed_tools", "mode": "required", "tools": [{"name": "note"}]},
    ):
        tools = read_tools(TOOLS, choice)
        assert (tools.callable.keys(), tools.choice) == ({"note"}, "required")

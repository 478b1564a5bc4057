"""Reasoning: by the markers of the template alone, at the beginning of an answer alone."""

import pytest

from edgellm.dialects import TextPart, plan, read_tools
from edgellm.errors import RequestError
from edgellm.types import SamplingParams
from tests.dialects.reading import calls, content, details, given_tools, plain, read, reasoning

THINKS = "<think> </think>"
CALL = '<tool_call>\n{"name": "note", "arguments": {"text": "a"}}\n</tool_call>'


@pytest.mark.parametrize(
    ("template", "answer"),
    [
        (THINKS, "<think>\nSo it is.\n\n1 < 2\n</think>\n\nYes. "),
        ("[THINK] [/THINK]", "[THINK]So it is.\n\n1 < 2[/THINK]Yes. "),
        ("<|channel> <channel|>", "<|channel>thought\nSo it is.\n\n1 < 2<channel|>Yes. "),
    ],
)
def test_reasoning(template: str, answer: str) -> None:
    expected = [TextPart("So it is.\n\n1 < 2", "reasoning"), TextPart("Yes. ")]
    assert read(template, [answer]) == read(template, answer) == expected
    assert read("", answer) == [TextPart(answer)]


def test_reasoning_that_the_prompt_began() -> None:
    for answer in ("Hm.</think>Yes", "\nHm.\n</think>\n\nYes", "<think>Hm.</think>\nYes"):
        parts = read(THINKS, answer, tail="assistant\n<think>\n")
        assert (reasoning(parts), content(parts)) == ("Hm.", "Yes")
    assert read(THINKS, "Hm", tail="<think>") == [TextPart("Hm", "reasoning")]
    assert read(THINKS, "Yes", tail="<think>\n\n</think>\n\n") == [TextPart("Yes")]


def test_reasoning_that_is_not_to_be_apart() -> None:
    """It is content as it was written; a call in it is none, one behind it is one."""
    thought = f"<think>\nI must note {CALL}\n</think>"
    for pieces in ([thought, "\n\n", CALL], [*f"{thought}\n\n{CALL}"]):
        parts = read(f"{THINKS} <tool_call>", pieces, given_tools(), is_apart=False)
        assert (content(parts), reasoning(parts)) == (thought, "")
        assert calls(parts) == [("note", {"text": "a"})]
    for tail, answer in (("<think>", "Hm.\n</think>\n\nYes"), ("x", "Yes"), ("x", "<think>Hm")):
        assert read(THINKS, answer, tail=tail, is_apart=False) == [TextPart(answer)]
    with pytest.raises(RequestError, match="reasoning_format: this model writes .* a channel"):
        read("<|channel|> <|message|>", "a", is_apart=False)


def test_markers_in_prose_are_prose() -> None:
    said = "The tags <think> and </think> enclose thoughts."
    assert read(THINKS, said) == [TextPart(said)]
    assert read(THINKS, " \n <thin") == [TextPart(" \n <thin")]


def test_reasoning_before_a_call() -> None:
    answer = f"<think>\nI must note {CALL}\n</think>\n\n{CALL}"
    for pieces in ([answer], [*answer]):
        parts = read(f"{THINKS} <tool_call>", pieces, given_tools())
        assert reasoning(parts) == f"I must note {CALL}"
        assert (content(parts), calls(parts)) == ("", [("note", {"text": "a"})])


def test_channels() -> None:
    template = "<|channel|> <|message|>"
    answer = (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary<|message|>"
        "I will look.<|end|><|start|>assistant<|channel|>commentary to=functions.note "
        '<|constrain|>json<|message|>{"text": "a"}<|call|>'
    )
    for pieces in ([answer], [*answer]):
        parts = read(template, pieces, given_tools())
        assert (reasoning(parts), content(parts)) == ("Hm.", "I will look.")
        assert calls(parts) == [("note", {"text": "a"})]
    final = (
        "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>Yes"
    )
    assert plain(read(template, final)) == [TextPart("Hm.", "reasoning"), TextPart("Yes")]
    broken = answer.replace('{"text"', "{text")
    assert content(read(template, broken, given_tools())) == 'I will look.{text: "a"}'
    unknown = answer.replace("functions.note", "functions.fly")
    assert content(read(template, unknown, given_tools())) == 'I will look.{"text": "a"}'
    assert read(template, "No header at all <|end") == [TextPart("No header at all <|end")]


def test_an_interpreter_is_given_code() -> None:
    tool = {"type": "function", "function": {"name": "python", "parameters": {"type": "object"}}}
    parts = read("<|python_tag|>", "<|python_tag|>print(1)\n", read_tools([tool]))
    assert calls(parts) == [("python", {"code": "print(1)\n"})]
    parts = read("<|python_tag|>", '<|python_tag|>note.call(text="a")', given_tools())
    assert calls(parts) == [("note", {"text": "a"})]
    assert read("<|python_tag|>", "<|python_tag|>1 + 1", given_tools()) == [
        TextPart("<|python_tag|>1 + 1")
    ]


def test_json_that_is_no_call_is_text() -> None:
    for said in ('{"name": "nobody", "arguments": {}}', '{"a": 1}', "[1, 2]", "{", '{"name"'):
        assert read("", said, given_tools()) == [TextPart(said)]
    parts = read("", '{"name": "note", "arguments": {"text": "a"}} and so on', given_tools())
    assert (calls(parts), content(parts)) == ([("note", {"text": "a"})], "and so on")


def test_of_several_calls_the_good_ones_stand() -> None:
    answer = '[TOOL_CALLS][{"name": "note", "arguments": {"text": "a"}}, {"name": 3}]'
    parts = read("[TOOL_CALLS]", answer, given_tools())
    assert (calls(parts), content(parts)) == ([("note", {"text": "a"})], ', {"name": 3}]')


def test_tags_may_be_forgotten() -> None:
    """As Qwen2.5-Coder does; the function must be known then."""
    said = '{"name": "note", "arguments": {"text": "a"}}'
    for pieces in ([said], [*said]):
        assert calls(read("<tool_call>", pieces, given_tools())) == [("note", {"text": "a"})]
    other = said.replace("note", "noted")
    assert read("<tool_call>", other, given_tools()) == [TextPart(other)]


def test_an_answer_of_another_form_has_no_reasoning() -> None:
    asked = plan(details(THINKS))
    parser = asked.answering(SamplingParams(regex="a+"), "assistant\n<think>\n").parser()
    assert parser.push("aa") + parser.finish() == [TextPart("aa")]
    params = SamplingParams(json_schema={"type": "object"})
    parser = asked.answering(params, "assistant\n<think>\n").parser()
    parts = [TextPart("Hm.", "reasoning"), TextPart("{}")]
    assert parser.push("Hm.</think>{}") + parser.finish() == parts

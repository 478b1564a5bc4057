"""Reasoning asked for in the words of every API, and what the families' templates make of it."""

from pathlib import Path
from typing import Any

import pytest

from edgellm.chat_template import ChatTemplate
from edgellm.dialects.effort import for_harmony
from edgellm.errors import RequestError
from edgellm.server.reasoning import reasoning_of
from tests.mock_model import MockModel, make_manager, says
from tests.server.serving import running

FOLDER = Path(__file__).parents[1] / "dialects" / "templates"
ASKED = [{"role": "user", "content": "Why?"}]


def rendered(name: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr("edgellm.chat_template.template.is_known", lambda source: True)
    source = (FOLDER / f"{name}.jinja").read_text("utf-8")
    template = ChatTemplate(source, bos_text="<s>", eos_text="</s>")
    variables = reasoning_of(fields)
    if name == "gpt-oss":
        variables = for_harmony(variables)
    prompt = template.render(ASKED, **variables)
    template.close()
    return prompt


@pytest.mark.parametrize(
    "fields",
    [
        {"enable_thinking": False},
        {"think": False},
        {"thinking": {"type": "disabled"}},
        {"reasoning_effort": "none"},
        {"reasoning": {"effort": "none"}},
    ],
)
@pytest.mark.parametrize("name", ["qwen3", "qwen3.5", "glm-5.1", "deepseek-v3.1"])
def test_off(name: str, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    assert rendered(name, fields, monkeypatch).rstrip().endswith("</think>")


@pytest.mark.parametrize(
    "fields",
    [
        {"enable_thinking": True},
        {"think": "high"},
        {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        {"reasoning_effort": "low"},
        {"output_config": {"effort": "medium"}},
    ],
)
def test_on_where_off_is_the_default(
    fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert rendered("deepseek-v3.1", {}, monkeypatch).endswith("</think>")
    assert rendered("deepseek-v3.1", fields, monkeypatch).endswith("<think>")


def test_effort(monkeypatch: pytest.MonkeyPatch) -> None:
    for fields, effort in (
        ({"reasoning_effort": "high"}, "high"),
        ({"reasoning": {"effort": "minimal"}}, "low"),
        ({"think": "low"}, "low"),
        ({}, "medium"),
    ):
        assert f"Reasoning: {effort}" in rendered("gpt-oss", fields, monkeypatch)


def test_what_says_nothing_changes_nothing() -> None:
    for fields in ({}, {"think": None}, {"thinking": {"type": "auto"}}, {"reasoning": {}}):
        assert reasoning_of(fields) == {}
    with pytest.raises(RequestError, match="think is 3"):
        reasoning_of({"think": 3})


def test_what_reasoning_is_to_look_like(tmp_path: Path) -> None:
    with running(make_manager(MockModel(says("ok"))), tmp_path) as server:
        for wanted, status in (("none", 200), ("deepseek", 200), ("auto", 200), ("odd", 400)):
            fields = {"messages": ASKED, "reasoning_format": wanted, "temperature": 0}
            assert server.ask("POST", "/v1/chat/completions", fields)[0] == status


def test_an_answer_that_is_begun_goes_on(tmp_path: Path) -> None:
    """llama.cpp's, Ollama's and Anthropic's way to give the beginning of an answer."""
    prompts: list[str] = []
    script = says("ok")

    def logits(tokens: list[int], num_prompt_tokens: int) -> Any:
        prompts.append(bytes(token for token in tokens[:num_prompt_tokens] if token < 256).decode())
        return script(tokens, num_prompt_tokens)

    manager = make_manager(MockModel(logits), context_length=256, num_blocks=128)
    begun = [*ASKED, {"role": "assistant", "content": "Bec"}]
    with running(manager, tmp_path) as server:
        for path in ("/v1/chat/completions", "/api/chat", "/v1/messages"):
            fields = {"messages": begun, "temperature": 0, "max_tokens": 9, "stream": False}
            assert server.ask("POST", path, fields)[0] == 200
            assert prompts[-1] == "user:Why?\nassistant:Bec"


def test_reasoning_tokens_are_counted(tmp_path: Path) -> None:
    said = "<think>\nHm.\n</think>\n\nYes"
    manager = make_manager(MockModel(says(said)), source="<think> </think>", context_length=256)
    with running(manager, tmp_path) as server:
        fields = {"messages": ASKED, "temperature": 0}
        _, answer = server.ask("POST", "/v1/chat/completions", fields)
        assert answer["choices"][0]["message"]["reasoning_content"] == "Hm."
        details = answer["usage"]["completion_tokens_details"]
        assert details["reasoning_tokens"] == len("<think>\nHm.")
        _, generated = server.ask(
            "POST", "/api/generate", {"prompt": "Why?", "stream": False, "options": fields}
        )
        assert (generated["thinking"], generated["response"]) == ("Hm.", "Yes")

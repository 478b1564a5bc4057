"""How much to think, in the words of every family's template."""

from pathlib import Path

import pytest

from edgellm.dialects.effort import LEVELS, at_level, has_switch

FOLDER = Path(__file__).parent / "templates"


@pytest.mark.parametrize("name", ["qwen3", "qwen3.5", "glm-5.1", "deepseek-v3.1", "gpt-oss"])
def test_templates_that_have_a_switch(name: str) -> None:
    assert has_switch((FOLDER / f"{name}.jinja").read_text("utf-8"))


def test_prose_and_markers_are_no_switch() -> None:
    assert not has_switch(
        "thinking {{ messages }} {# enable_thinking #} <thinking> {{ rethinking }}"
    )
    assert has_switch("{%- if thinking is defined %}x{% endif %}")


def test_levels() -> None:
    assert at_level("off", False)["enable_thinking"] is False
    assert at_level("on", False)["enable_thinking"] is True
    assert at_level("high", False)["reasoning_effort"] == "high"
    efforts = [at_level(level, True).get("reasoning_effort") for level in LEVELS]
    assert efforts == ["low", None, "low", "medium", "high"]

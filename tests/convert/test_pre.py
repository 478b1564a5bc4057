"""Which rule a tokenizer.json splits by: told by what it does, not by how it is written."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.convert.tokenizers.folder import TokenizerFolder
from edgellm.convert.tokenizers.pre import rule_of, split
from edgellm.errors import RequestError
from edgellm.tokenizer.rules import RULES

LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}
WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|"
TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+END|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*END|NUMBER|"
    r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
    r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def isolated(pattern: str) -> dict[str, Any]:
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}


def levelled(*patterns: str) -> list[dict[str, Any]]:
    return [*map(isolated, patterns), LEVEL]


GPT2 = {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}

# As published, with what GGUF calls it.
PUBLISHED: dict[str, tuple[list[dict[str, Any]], bool, str]] = {
    "GPT-2": ([GPT2], False, "gpt-2"),
    "Llama 3": (levelled(WORDS + r"\p{N}{1,3}" + TAIL), True, "llama-bpe"),
    "DBRX": (levelled(WORDS + r"\p{N}{1,3}" + TAIL), False, "dbrx"),
    "Qwen 2": (levelled(WORDS + r"\p{N}" + TAIL), False, "qwen2"),
    "Qwen 2, spelled out": (
        levelled(
            r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\n\r\p{L}\p{N}]?\p{L}+|"
            r"\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
        ),
        False,
        "qwen2",
    ),
    "SmolLM": ([{"type": "Digits", "individual_digits": True}, GPT2], False, "smollm"),
    "Falcon": (
        [
            {"type": "Punctuation", "behavior": "Contiguous"},
            GPT2,
            {"type": "Digits", "individual_digits": False},
            isolated("[0-9][0-9][0-9]"),
        ],
        False,
        "falcon",
    ),
    "DeepSeek V3": (
        levelled(r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK3),
        False,
        "deepseek-v3",
    ),
    "DeepSeek Coder": (
        levelled(
            r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
            r"\p{N}",
        ),
        False,
        "deepseek-coder",
    ),
    "Bloom": (
        levelled(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), False, "bloom",
    ),
    "Tekken": (levelled(CASED.replace("END", "").replace("NUMBER", r"\p{N}")), True, "tekken"),
    "GPT-4o": (
        levelled(
            CASED.replace("END", "(?i:'s|'t|'re|'ve|'m|'ll|'d)?").replace("NUMBER", r"\p{N}{1,3}")
        ),
        False,
        "gpt-4o",
    ),
}  # fmt: skip


def folder(steps: list[dict[str, Any]], ignores_merges: bool = False) -> TokenizerFolder:
    content = {
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps},
        "model": {"type": "BPE", "ignore_merges": ignores_merges},
    }
    return TokenizerFolder(Path("model"), Path("t.json"), content, None, None, {}, {}, {}, {})


@pytest.mark.parametrize("name", PUBLISHED)
def test_published_tokenizers(name: str) -> None:
    steps, ignores_merges, expected = PUBLISHED[name]
    found = rule_of(folder(steps, ignores_merges))
    assert RULES[found] == RULES[expected]


@pytest.mark.parametrize(
    "steps",
    [
        levelled("odd"),
        [{"type": "Whitespace"}],
        [isolated("(")],
        [{**isolated("a"), "invert": True}],
        [{**isolated("a"), "behavior": "Removed"}],
        [isolated(r"(\w|\w\w|\w\w\w)*\u2603"), LEVEL],
        [{"type": "Split"}],
        [{"type": "Split", "pattern": "a"}],
    ],
)
def test_what_is_not_known_is_asked_for(steps: list[dict[str, Any]]) -> None:
    with pytest.raises(RequestError, match="name it with --pre"):
        rule_of(folder(steps))


@pytest.mark.parametrize(
    ("behavior", "pieces"),
    [
        ("Isolated", ["a", "-", "-", "b", "-"]),
        ("Contiguous", ["a", "--", "b", "-"]),
        ("MergedWithPrevious", ["a-", "-", "b-"]),
        ("MergedWithNext", ["a", "-", "-b", "-"]),
    ],
)
def test_behaviors_of_a_split(behavior: str, pieces: list[str]) -> None:
    step = {"type": "Split", "pattern": {"String": "-"}, "behavior": behavior}
    assert split([step], "a--b-") == pieces


@given(st.text(max_size=80), st.sampled_from(sorted(PUBLISHED)))
@settings(max_examples=50, deadline=None)
def test_pieces_are_the_text(text: str, name: str) -> None:
    assert "".join(split(PUBLISHED[name][0], text)) == text

"""The pre-tokenizer rules: the words each one makes, and that none is lost on the way."""

import json
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from edgellm.errors import GGUFError
from edgellm.tokenizer.rules import RULES, rule_for

PROSE = "I'm WE'LL  HelloWorld"
NUMBERS = "a 12345 7+=!?x"
LINES = "\n\n  x \r\n.\n"
WIDE = "日本 e\u0301x…y"

# The words of the four texts above, set apart by "|".
WORDS = {
    "default": (
        "I|'|m| WE|'|LL| | HelloWorld",
        "a| |123|45| |7|+=!?|x",
        "\n\n | x| \r\n|.|\n",
        "日本| e|\u0301|x|…|y",
    ),
    "gpt-2": (
        "I|'m| WE|'|LL| | HelloWorld",
        "a| 12345| 7|+=!?|x",
        "\n\n | x| \r|\n|.|\n",
        "日本| e|\u0301|x|…|y",
    ),
    "llama-bpe": (
        "I|'m| WE|'LL| | HelloWorld",
        "a| |123|45| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本| e|\u0301x|…y",
    ),
    "qwen2": (
        "I|'m| WE|'LL| | HelloWorld",
        "a| |1|2|3|4|5| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本| e|\u0301x|…y",
    ),
    "qwen35": (
        "I|'m| WE|'LL| | HelloWorld",
        "a| |1|2|3|4|5| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本| e\u0301x|…y",
    ),
    "laguna": (
        "I|'m| WE|'LL| | HelloWorld",
        "a| |1|2|3|4|5| |7|+=!?|x",
        "\n\n| | x| \r|\n|.|\n",
        "日本| e|\u0301x|…y",
    ),
    "seed-coder": (
        "I|'m| WE|'LL| | HelloWorld",
        "a| |1|2|3|4|5| |7|+=!?|x",
        "\n\n| | x| \r\n|.|\n",
        "日本| e|\u0301x|…y",
    ),
    "exaone-moe": (
        "I|'m| WE|'LL| | HelloWorld",
        "a| |1|2|3|4|5| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本 e\u0301x|…y",
    ),
    "starcoder": (
        "I|'m| WE|'|LL| | HelloWorld",
        "a| |1|2|3|4|5| |7|+=!?|x",
        "\n\n | x| \r|\n|.|\n",
        "日本| e|\u0301|x|…|y",
    ),
    "falcon": (
        "I|'|m| WE|'|LL| | HelloWorld",
        "a| |123|45| 7|+=!?|x",
        "\n\n | x| \r\n|.|\n",
        "日本| e|\u0301|x|…|y",
    ),
    "bloom": (
        "I'm| WE'LL| | HelloWorld",
        "a| 12345| 7+=|!?|x",
        "\n\n | x| \r\n.\n",
        "日本| e\u0301x|…|y",
    ),
    "viking": (
        "I'm| WE'LL| | HelloWorld",
        "a| |1|2|3|4|5| |7|+=|!?|x",
        "\n\n | x| \r\n.\n",
        "日本| e\u0301x|…|y",
    ),
    "tekken": (
        "I|'m| WE|'LL| | Hello|World",
        "a| |1|2|3|4|5| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本| e|\u0301x|…y",
    ),
    "gpt-4o": (
        "I'm| WE'LL| | Hello|World",
        "a| |123|45| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本| e|\u0301x|…y",
    ),
    "granite-embed-multi-97m": (
        "I'm| WE'LL| | Hello|World",
        "a| |123|45| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本| e\u0301x|…y",
    ),
    "tiny_aya": (
        "I'm| WE'LL| | HelloWorld",
        "a| |12|345| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本| e\u0301x|…y",
    ),
    "youtu": (
        "I'm| WE'LL| | HelloWorld",
        "a| |1|2|3|4|5| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本| e\u0301x|…|y",
    ),
    "superbpe": (
        "I'm WE'LL  HelloWorld",
        "a |12|345| |7|+=!?x",
        "\n\n  x \r\n.\n",
        "日本 e\u0301x…y",
    ),
    "deepseek-llm": (
        "I|'|m| WE|'|LL| | HelloWorld",
        "a| |12345| |7|+=!?|x",
        "\n|\n| | x| |\r|\n|.|\n",
        "日本| e|\u0301|x|…|y",
    ),
    "deepseek-coder": (
        "I|'|m| WE|'|LL| | HelloWorld",
        "a| |1|2|3|4|5| |7|+=|!?|x",
        "\n|\n| | x| |\r|\n|.|\n",
        "日本| e|\u0301|x|…|y",
    ),
    "deepseek-v3": (
        "I|'m| WE|'LL| | HelloWorld",
        "a| |123|45| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本| e\u0301x|…|y",
    ),
    "spark2_5": (
        "I|'m| WE|'LL| | HelloWorld",
        "a| |1|2|3|4|5| |7|+=!?|x",
        "\n|\n| | x| \r|\n|.|\n",
        "日本| e\u0301x|…|y",
    ),
    "afmoe": (
        "I|'m| WE|'LL| | HelloWorld",
        "a| |12|345| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本| e\u0301x|…|y",
    ),
    "kimi-k2": (
        "I'm| WE'LL| | HelloWorld",
        "a| |123|45| |7|+=!?|x",
        "\n\n| | x| \r\n|.\n",
        "日本| e|\u0301x|…y",
    ),
    "chameleon": (
        "I|'|m| WE|'|LL|  |HelloWorld",
        "a| |1|2|3|4|5| |7|+|=|!|?|x",
        "\n|\n|  |x| \r|\n|.|\n",
        "日本| e|\u0301|x|…|y",
    ),
    "gemma4": (
        "I'm WE'LL  HelloWorld",
        "a 12345 7+=!?x",
        "\n\n|  x \r|\n|.|\n",
        "日本 e\u0301x…y",
    ),
    "mmbert": (
        "▁I'm WE'LL  HelloWorld",
        "▁a 12345 7+=!?x",
        "\n\n|▁  x \r|\n|▁.|\n",
        "▁日本 e\u0301x…y",
    ),
    "whitespace": (
        "I'm| |WE'LL|  |HelloWorld",
        "a| |12345| |7+=!?x",
        "\n\n  |x| \r\n|.|\n",
        "日本| |e\u0301x…y",
    ),
}

# Rules that make the same words of those texts as the one named.
ALIKE = {
    "gpt-2": "phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert "
    "exaone4 mpt olmo jais trillion granite-docling jina-v1-en jina-v2-code roberta-bpe",
    "llama-bpe": "llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano dbrx "
    "smaug-bpe chatglm-bpe glm4 glm5 jais-2 minicpm5",
    "qwen2": "deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2 ufakzeka "
    "bailingmoe bailingmoe2 llada-moe",
    "starcoder": "refact command-r smollm codeshell exaone minerva-7b mellum2",
    "bloom": "poro-chat gpt3-finnish",
    "gpt-4o": "llama4 kanana2 talkie minimax-m2",
    "tiny_aya": "cohere2moe",
    "deepseek-v3": "hunyuan-dense joyai-llm hy_v4",
    "gemma4": "granite-embed-multi-311m sarvam-moe",
}

# What tells the alike apart, and the corners of single rules: name, text, its words.
CORNERS = [
    ("gpt-2", "'LL 'll you've", "'|LL| '|ll| you|'ve"),
    ("gpt-2", "\u00a0x\u3000\u3000y", "\u00a0|x|\u3000|\u3000|y"),
    ("smollm", "x  12 ½²", "x|  |1|2| |½|²"),
    ("llama-bpe", "\t\tx (a) [\n\n]", "\t|\tx| (|a|)| [\n\n|]"),
    ("llama-bpe", " \n \n x", " \n \n| x"),
    ("jais-2", " " * 13 + "x", " " * 8 + "|" + " " * 4 + "| x"),
    ("minicpm5", "x  1234", "x|  |123|4"),
    ("ufakzeka", "it's", "it|'s"),
    ("ufakzeka", "it'saved", "it|'saved"),
    ("qwen2", "it'saved", "it|'s|aved"),
    ("bailingmoe", "\n\nx", "\n\n|x"),
    ("bailingmoe", "a\n \n b", "a|\n \n| b"),
    ("seed-coder", "!\n?", "!|\n|?"),
    ("exaone-moe", "가 나 다 1", "가 나 다| |1"),
    ("tekken", "ÉCOLEs HTMLPage aB", "ÉCOLEs| HTMLPage| a|B"),
    ("gpt-4o", "don't DON'T a/b\n/", "don't| DON'T| a|/b|\n|/"),
    ("kimi-k2", "中文a中 b中", "中文|a|中| b|中"),
    ("tiny_aya", "1234567", "1|234|567"),
    ("tiny_aya", "  1", " | |1"),
    ("superbpe", "1234567x89", "1|234|567|x|89"),
    ("afmoe", "1234567", "1|234|567"),
    ("afmoe", "한국中文a.b", "한국中文|a|.b"),
    ("deepseek-v3", "1234 .foo ひら漢字x", "123|4| .|foo| |ひら漢字|x"),
    ("deepseek-llm", "a　b  ", "a|　b|  "),
    ("deepseek-llm", "漢字 123.", "漢字| |123|."),
    ("deepseek-coder", "def f(x):  y", "def| f|(|x|):| | y"),
    ("falcon", "a==b 1234", "a|==|b| |123|4"),
    ("falcon", "x 1234", "x| |123|4"),
    ("chameleon", "xIMGIMGABZy\tz", "x|IMGIMGABZ|y|\t|z"),
    ("default", "1234", "123|4"),
    ("mmbert", "▁a▁▁b\nc", "▁a|▁|▁b|\n|▁c"),
    ("spark2_5", "!\n\n", "!|\n|\n"),
    ("youtu", "한국，、ㄅㄆ漢a", "한국|，、|ㄅㄆ|漢|a"),
]

ISSUE_NAMES = (
    "default gpt-2 llama-bpe smollm qwen2 qwen35 gpt-4o llama4 deepseek-llm deepseek-coder "
    "deepseek-v3 tekken starcoder refact falcon mpt olmo dbrx stablelm2 command-r chatglm-bpe glm4 "
    "viking jais bloom exaone4 kimi-k2 granite-docling seed-coder hunyuan minimax-m2 grok-2 afmoe "
    "bailingmoe"
)


@pytest.mark.parametrize("name", WORDS)
def test_words(name: str) -> None:
    for text, words in zip((PROSE, NUMBERS, LINES, WIDE), WORDS[name], strict=True):
        assert "|".join(RULES[name].split(text)) == words


@pytest.mark.parametrize(
    ("name", "like"), [(name, like) for like, names in ALIKE.items() for name in names.split()]
)
def test_words_alike(name: str, like: str) -> None:
    for text, words in zip((PROSE, NUMBERS, LINES, WIDE), WORDS[like], strict=True):
        assert "|".join(RULES[name].split(text)) == words


@pytest.mark.parametrize(("name", "text", "words"), CORNERS)
def test_corners(name: str, text: str, words: str) -> None:
    assert "|".join(RULES[name].split(text)) == words


# What llama.cpp b11434 makes of texts: for names set apart by spaces, where the pieces of each end.
# It writes the first "▁" of mmbert elsewhere.
PIECES = json.loads(Path(__file__).with_name("pieces.json").read_text())
ENDS = {name: ends for names, ends in PIECES["ends"].items() for name in names.split()}


@pytest.mark.parametrize("name", sorted(ENDS))
def test_pieces_are_those_of_llama_cpp(name: str) -> None:
    for text, ends in zip(PIECES["texts"], ENDS[name], strict=True):
        bounds = [0, *map(int, ends.split()), len(text)]
        assert list(RULES[name].split(text)) == [text[a:b] for a, b in pairwise(bounds)]


def test_every_rule_is_tested() -> None:
    assert {*ENDS, "mmbert"} == set(RULES)
    assert {*WORDS, *" ".join(ALIKE.values()).split()} == set(RULES)


@pytest.mark.parametrize("name", ISSUE_NAMES.split())
def test_names_resolve(name: str) -> None:
    assert rule_for(name) is RULES[name]


def test_flags() -> None:
    whole = {name for name, rule in RULES.items() if rule.ignore_merges}
    assert whole == set(
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano tekken "
        "glm4 glm5 minicpm5 youtu granite-embed-multi-97m".split()
    )
    adding = {name for name, rule in RULES.items() if rule.add_bos}
    assert adding == set(
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano tekken "
        "chameleon".split()
    )


def test_unknown_rule_lists_the_known() -> None:
    with pytest.raises(GGUFError, match=r"'nonsense'.*not known.*llama-bpe.*qwen2"):
        rule_for("nonsense")


@given(st.text(), st.sampled_from(sorted(set(RULES) - {"mmbert"})))
def test_nothing_is_lost(text: str, name: str) -> None:
    words = list(RULES[name].split(text))
    assert "".join(words) == text
    assert all(words)

"""The pre-tokenizer rules by their `tokenizer.ggml.pre` names: facts, in the form of a table.

Sources: each family's tokenizer.json, as read by llama.cpp b11434 (llama-vocab.cpp, unicode.cpp).
Where the two differ the rule is llama.cpp's, because that is what GGUF files are checked with:
tekken, gpt-4o and their kin tell upper from lower case among ASCII letters only and leave
combining marks outside words; kimi-k2 does not look at case; wide spaces belong to no class of
deepseek-llm and deepseek-coder.
"""

from edgellm.errors import GGUFError
from edgellm.tokenizer.pretokenize import Rule, at_spaces, digits_from_right
from edgellm.tokenizer.vocab import SPACE

DEFAULT = "default"


def _any(*patterns: str) -> str:
    return "|".join(patterns)


_CONTRACTION = "'(?:[sStTmMdD]|[rR][eE]|[vV][eE]|[lL][lL])"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_MARKED_WORD = r"[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+"
_SYMBOLS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_LINE_ENDS = r"\s*[\r\n]+"
_SPACES = r"\s+(?!\S)|\s+"
_ASCII_PUNCTUATION = r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"
_KANJI = "[一-龥぀-ゟ゠-ヿ]+"

_GPT2 = _any("'(?:[stmd]|re|ve|ll)", r" ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+", _SPACES)
_LLAMA3 = _any(_CONTRACTION, _WORD, r"\p{N}{1,3}", _SYMBOLS, _LINE_ENDS, _SPACES)
_QWEN2 = _any(_CONTRACTION, _WORD, r"\p{N}", _SYMBOLS, _LINE_ENDS, _SPACES)
_QWEN35 = _any(
    _CONTRACTION,
    _MARKED_WORD,
    r"\p{N}",
    r" ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*",
    _LINE_ENDS,
    _SPACES,
)
_JAIS2 = _any(
    _CONTRACTION,
    _WORD,
    r"\p{N}{1,3}",
    _SYMBOLS,
    _LINE_ENDS,
    *(rf"\s{{{n}}}(?!\S)" for n in (512, 256, 128, 64, 32, 16, 8, 4)),
    r"\s{1,2}(?!\S)|\s",
)


def _cased(letter: str, contraction: str, number: str) -> str:
    """Words that break before a capital: HelloWorld is Hello and World, HTMLPage stays whole."""
    upper, lower = f"[{letter}--[a-z]]", f"[{letter}--[A-Z]]"
    return "(?V1)" + _any(
        rf"[^\r\n\p{{L}}\p{{N}}]?{upper}*{lower}+{contraction}",
        rf"[^\r\n\p{{L}}\p{{N}}]?{upper}+{lower}*{contraction}",
        number,
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        _LINE_ENDS,
        _SPACES,
    )


_TEKKEN = _cased(r"\p{L}", "", r"\p{N}")
_GPT4O = _cased(r"\p{L}", f"(?:{_CONTRACTION})?", r"\p{N}{1,3}")
_GRANITE_MULTILINGUAL = _cased(r"\p{L}\p{M}", f"(?:{_CONTRACTION})?", r"\p{N}{1,3}")


def _uncased(number: str) -> str:
    return _any(
        f"{_MARKED_WORD}(?:{_CONTRACTION})?",
        number,
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        _LINE_ENDS,
        _SPACES,
    )


def _punctuated(tail: str) -> str:
    """DeepSeek-V3's words: a punctuation mark starts an ASCII word, marks belong to letters."""
    return _any(
        f"{_ASCII_PUNCTUATION}[A-Za-z]+",
        r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+",
        tail,
        _SPACES,
    )


_DEEPSEEK3 = _punctuated(_any(r" ?[\p{P}\p{S}]+[\r\n]*", _LINE_ENDS))
_DEEPSEEK_LETTERS = (
    "[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼι"
    "ῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲"
    "𐳀-𐳲𑢠-𑣟𞤀-𞥃]"
)
_DEEPSEEK_WIDE = r"(?V1)[[一-龥ࠀ-一가-퟿]--\s]+"
_HAN = (
    "\u4e00-\u9fff\u3400-\u4dbf\U00020000-\U0002a6df\U0002a700-\U0002b73f\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf\U0002ceb0-\U0002ebef\uf900-\ufaff\U0002f800-\U0002fa1f"
)
_KIMI = "(?V1)" + _any(
    f"[{_HAN}]+",
    rf"[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}--[{_HAN}]]+(?:{_CONTRACTION})?",
    r"\p{N}{1,3}",
    _SYMBOLS,
    _LINE_ENDS,
    _SPACES,
)
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_LINES = r"[^\n]+|\n+"
_ASIAN = (
    "[一-鿿㐀-䶿豈-\ufaff぀-ゟ゠-ヿ･-ﾟ⼀-\u2fdfเ-\u0e7f\u0e80-\u0effក-\u17ffက-႟ꩠ-ꩿꧠ-\ua9ff"
    "가-\ud7afᄀ-ᇿ]+"
)


_FAMILIES: tuple[tuple[str, Rule], ...] = (
    (DEFAULT, Rule((r"[\p{P}$+<=>^~|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]"))),
    (
        "gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert "
        "exaone4 mpt olmo jais trillion granite-docling",
        Rule((_GPT2,)),
    ),
    ("jina-v1-en jina-v2-code roberta-bpe", Rule((_GPT2,), add_sep=True)),
    (
        "llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano",
        Rule((_LLAMA3,), ignore_merges=True, add_bos=True),
    ),
    ("dbrx smaug-bpe", Rule((_LLAMA3,))),
    ("chatglm-bpe", Rule((_LLAMA3,), default_bos=False)),
    ("glm4 glm5", Rule((_LLAMA3,), default_bos=False, ignore_merges=True)),
    ("jais-2", Rule((_JAIS2,))),
    (
        "qwen2 deepseek-r1-qwen kormo f2llmv2 megrez stablelm2 hunyuan solar-open grok-2",
        Rule((_QWEN2,)),
    ),
    ("qwen35", Rule((_QWEN35,))),
    ("ufakzeka", Rule((_any(_WORD, r"\p{N}", _SYMBOLS, _LINE_ENDS, _SPACES),))),
    ("laguna", Rule((_LINES, _QWEN2))),
    (
        "minicpm5",
        Rule(
            (
                r"\p{N}{1,3}",
                _any(_CONTRACTION, _WORD, r"\p{N}+", _SYMBOLS, _LINE_ENDS, _SPACES),
            ),
            ignore_merges=True,
        ),
    ),
    (
        "bailingmoe bailingmoe2 llada-moe",
        Rule((_any(_CONTRACTION, _WORD, r"\p{N}", _SYMBOLS, r"\s*[\r\n]", _SPACES),)),
    ),
    (
        "seed-coder",
        Rule(
            (
                _any(
                    _CONTRACTION,
                    _WORD,
                    r"\p{N}",
                    r" ?[^\s\p{L}\p{N}\r\n]+",
                    _LINE_ENDS,
                    _SPACES,
                ),
            )
        ),
    ),
    (
        "exaone-moe",
        Rule(
            (
                _any(
                    _CONTRACTION,
                    r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+",
                    r"\p{N}",
                    r" ?[^\s\p{L}\p{N}]+[\r\n/]?",
                    r"\s*[\r\n]",
                    _SPACES,
                ),
            )
        ),
    ),
    (
        "starcoder refact command-r smollm codeshell exaone minerva-7b mellum2",
        Rule((r"\p{N}", _GPT2)),
    ),
    ("falcon", Rule((r"[\p{P}$+<=>^~|`]+", _GPT2, "[0-9][0-9][0-9]"))),
    ("bloom poro-chat gpt3-finnish", Rule((_BLOOM,))),
    ("viking", Rule((_BLOOM, r"\p{N}"))),
    ("tekken", Rule((_TEKKEN,), ignore_merges=True, add_bos=True)),
    ("gpt-4o llama4 kanana2 talkie minimax-m2", Rule((_GPT4O,))),
    ("granite-embed-multi-97m", Rule((_GRANITE_MULTILINGUAL,), ignore_merges=True)),
    ("tiny_aya cohere2moe", Rule((digits_from_right(r"\p{N}"), _uncased(r"\p{N}{1,3}")))),
    (
        "youtu",
        Rule(
            (
                "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|" + _KANJI,
                _uncased(r"\p{N}"),
            ),
            ignore_merges=True,
        ),
    ),
    ("superbpe", Rule((r"\p{N}+", digits_from_right("[0-9]")))),
    (
        "deepseek-llm",
        Rule(
            (
                r"[\r\n]",
                rf"\s?{_DEEPSEEK_LETTERS}+",
                r"\s?[!-/:-~！-／：-～‘-‟、-。]+",
                # The lookbehind only spares the steps of a run that cannot match.
                r"(?<!\s)\s+\Z",
                _DEEPSEEK_WIDE,
                r"\p{N}+",
            )
        ),
    ),
    (
        "deepseek-coder",
        Rule((r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", _DEEPSEEK_WIDE, r"\p{N}")),
    ),
    ("deepseek-v3 hunyuan-dense joyai-llm hy_v4", Rule((r"\p{N}{1,3}", _KANJI, _DEEPSEEK3))),
    (
        "spark2_5",
        Rule((r"\p{N}{1,3}", _KANJI, _punctuated(r" ?[\p{P}\p{S}]+|[\r\n]"), r"\p{N}")),
    ),
    ("afmoe", Rule((digits_from_right(r"\p{N}"), _ASIAN, _DEEPSEEK3))),
    ("kimi-k2", Rule((_KIMI,))),
    (
        "chameleon",
        Rule(
            (
                "<sentinel:[0-9]+>",
                "IMGIMG[A-I]{1,4}Z",
                r"[\t\n]|    |  ",
                r"\p{N}",
                r"[\p{P}!-/:-@\[-`{-~]",
                _GPT2,
            ),
            add_bos=True,
        ),
    ),
    (
        "gemma4 granite-embed-multi-311m",
        Rule(
            (_LINES,),
            byte_level=False,
            escape_spaces=True,
            newlines_whole=True,
            force_bos=True,
        ),
    ),
    ("sarvam-moe", Rule((_LINES,), byte_level=False, escape_spaces=True)),
    (
        "mmbert",
        Rule(
            (_LINES, at_spaces(SPACE)),
            byte_level=False,
            escape_spaces=True,
            newlines_whole=True,
        ),
    ),
    ("whitespace", Rule((r"\S+",), byte_level=False)),
)

RULES: dict[str, Rule] = {name: rule for names, rule in _FAMILIES for name in names.split()}


def rule_for(name: str) -> Rule:
    """The rule of a `tokenizer.ggml.pre` name. GGUFError with all that are known, if it is not."""
    if name not in RULES:
        raise GGUFError(
            f"tokenizer.ggml.pre is {name!r}, which is not known; known are "
            + ", ".join(sorted(RULES))
        )
    return RULES[name]

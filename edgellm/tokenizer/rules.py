"""The pre-tokenizer rules by their `tokenizer.ggml.pre` names: facts, in the form of a table.

Sources: each family's tokenizer.json, as read by llama.cpp b11434 (llama-vocab.cpp, unicode.cpp).
Where the two differ the rule is llama.cpp's, because that is what GGUF files are checked with:
tekken, gpt-4o and their kin tell upper from lower case among ASCII letters only and leave
combining marks outside words; kimi-k2 does not look at case; wide spaces belong to no class of
deepseek-llm and deepseek-coder.
"""

from edgellm.errors import GGUFError
from edgellm.tokenizer.pretokenize import Rule, after_threes, at_spaces, before_threes
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
_KANJI = "[\u4e00-\u9fa5\u3040-\u30ff]+"

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
    "[A-Za-z\xb5\xc0-\xd6\xd8-\xf6\xf8-\u01ba\u01bc-\u01bf\u01c4-\u0293\u0295-\u02af"
    "\u0370-\u0373\u0376\u0377\u037b-\u037d\u037f\u0386\u0388-\u038a\u038c\u038e-\u03a1"
    "\u03a3-\u03f5\u03f7-\u0481\u048a-\u052f\u0531-\u0556\u10a0-\u10c5\u13a0-\u13f5"
    "\u13f8-\u13fd\u1c90-\u1cba\u1cbd-\u1cbf\u1d00-\u1d2b\u1d6b-\u1d77\u1d79-\u1d9a"
    "\u1e00-\u1f15\u1f18-\u1f1d\u1f20-\u1f45\u1f48-\u1f4d\u1f50-\u1f57\u1f59\u1f5b\u1f5d"
    "\u1f5f-\u1f7d\u1f80-\u1fb4\u1fb6-\u1fbc\u1fbe\u1fc2-\u1fc4\u1fc6-\u1fcc\u1fd0-\u1fd3"
    "\u1fd6-\u1fdb\u1fe0-\u1fec\u1ff2-\u1ff4\u1ff6-\u1ffc\u2102\u2107\u210a-\u2113\u2115"
    "\u2119-\u211d\u2124\u2126\u2128\u212a-\u212d\u212f-\u2134\u2139\u213c-\u213f\u2145-\u2149"
    "\u214e\u2183\u2184\u2c00-\u2c7b\u2c7e-\u2ce4\u2ceb-\u2cee\u2cf2\u2cf3\ua640-\ua66d"
    "\ua680-\ua69b\ua722-\ua76f\ua771-\ua787\ua78b-\ua78e\uab70-\uabbf\ufb00-\ufb06"
    "\ufb13-\ufb17\uff21-\uff3a\uff41-\uff5a\U00010400-\U0001044f\U000104b0-\U000104d3"
    "\U000104d8-\U000104fb\U00010c80-\U00010cb2\U00010cc0-\U00010cf2\U000118a0-\U000118df"
    "\U0001e900-\U0001e943]"
)
_DEEPSEEK_WIDE = r"(?V1)[[\u0800-\u9fa5\uac00-\ud7ff]--\s]+"
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
_BLOOM = r" ?[^(\s|.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c)]+"
_LINES = r"[^\n]+|\n+"
_ASIAN = (
    "[\u4e00-\u9fff\u3400-\u4dbf\u8c48-\ufaff\u3040-\u30ff\uff65-\uff9f\u2f00-\u2fdf\u0e40-\u0eff"
    "\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af\u1100-\u11ff]+"
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
    ("tiny_aya cohere2moe", Rule((after_threes(r"\p{N}"), _uncased(r"\p{N}{1,3}")))),
    (
        "youtu",
        Rule(
            (
                r"[\uac00-\ud7a3\u3131-\u318e]+"
                r"|[\uff01\u2026\u201c\u201d\u2018\u2019\u2014\uff1a\uff1b\uff0c\u3001-\u303f"
                r"\ufe30-\ufe4f]+|[\u3105-\u312f]+|" + _KANJI,
                _uncased(r"\p{N}"),
            ),
            ignore_merges=True,
        ),
    ),
    ("superbpe", Rule((r"\p{N}+", before_threes("[0-9]")))),
    (
        "deepseek-llm",
        Rule(
            (
                r"[\r\n]",
                rf"\s?{_DEEPSEEK_LETTERS}+",
                r"\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3001\u3002]+",
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
    ("afmoe", Rule((after_threes(r"\p{N}"), _ASIAN, _DEEPSEEK3))),
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

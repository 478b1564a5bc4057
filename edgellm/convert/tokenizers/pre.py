"""Which of the known rules a tokenizer.json splits text by: the one that cuts a probe alike.

The probe is cut by the steps of the file, and by each rule that `tokenizer.ggml.pre` can name. So a
pattern may be written in any way, and a name always stands for what the tokenizer does.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import regex

from edgellm.convert.tokenizers.folder import TokenizerFolder
from edgellm.convert.tokenizers.ranks import Ranked
from edgellm.errors import RequestError
from edgellm.tokenizer.rules import RULES

_TIMEOUT = 2.0  # seconds of a pattern, which is a stranger's

# Letters with and without case, marks, digits of many scripts, punctuation, symbols, spaces and
# line ends, in all the orders that rules tell apart.
PROBE = (
    "Hello, World! HELLOWorld helloWORLD iPhone4s IT'S it's I'Ll we'RE they've don't'll 'tis\n"
    " 1 12 123 1234 12345678 3.14 1,000,000 a1b22c333 x=y+z; foo_bar(baz)->qux!=0 #!/bin/sh\r\n"
    "\n\n  \n \t\t tabs\tand   spaces    \n    indented\n\nline\r\nends \r \n\n\n"
    " \u00e9t\u00e9 \u00c9T\u00c9 na\u00efve e\u0301te\u0301 \u01c5e \u043f\u0440\u0438\u0432\u0435"
    "\u0442 \u041f\u0420\u0418\u0412\u0415\u0422 \u4f60\u597d\u4e16\u754c\u5728apple\u5de5\u4f5c"
    "1314\u5929 \u3053\u3093\u306b\u3061\u306f \u30ab\u30bf\u30ab\u30ca \ud55c\uad6d\uc5b4 \u0939"
    "\u093f\u0928\u094d\u0926\u0940 \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22 \u0661\u0662\u0663"
    " \u00b2\u00b3 \u00bd \u2167 \U0001f680 (normal) \U0001f636\u200d\U0001f32b\ufe0f \u3002\uff0c"
    "\uff01\u2026\u2014\u201cquoted\u201d $5 \u20ac10 <tag> a|b `code` ~~ ^^ ------=======\n"
    "\u00a0nbsp\u3000wide /path//to/ http://x.y/?q=1&r=2 a/b/\n/ /\n "
    ",.;:!?...!!!??? [[x]] {{y}} \\n trailing   "
)

# Patterns whose rules cut otherwise than they do, for the sake of how llama.cpp reads them.
_LETTERS = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]")
_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"


def _cased(contraction: str, digits: str) -> str:
    upper, lower = _LETTERS
    start = r"[^\r\n\p{L}\p{N}]?"
    return (
        f"{start}{upper}*{lower}+{contraction}|{start}{upper}+{lower}*{contraction}|{digits}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


_BY_PATTERN: Mapping[str, str] = {
    _cased("", r"\p{N}"): "tekken",
    _cased(f"{_CONTRACTION}?", r"\p{N}{1,3}"): "gpt-4o",
    r"\s?\p{L}+": "deepseek-coder",
    "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+": "deepseek-llm",
}
_BY_STEPS = {("Punctuation", "ByteLevel", "Digits", "Split"): "falcon"}
# The name that is written of several that mean the same.
_CALLED = {"llama3": "llama-bpe", "starcoder": "smollm"}
_GPT2 = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"


def rule_of(source: TokenizerFolder) -> str:
    """The GGUF name of how the tokenizer splits text; RequestError when there is none."""
    if source.by_rank is not None:
        return _rule_of_class(source, source.by_rank)
    steps = source.steps("pre_tokenizer")
    if any(step.get("type") == "RobertaProcessing" for step in source.steps("post_processor")):
        return "roberta-bpe"
    kinds = tuple(str(step.get("type")) for step in steps)
    if kinds in _BY_STEPS:
        return _BY_STEPS[kinds]
    for step in steps:
        if _pattern(step) in _BY_PATTERN:
            return _BY_PATTERN[_pattern(step)]
    try:
        pieces = split(steps, PROBE)
    except (regex.error, TimeoutError, TypeError, KeyError, ValueError) as error:
        raise _unknown(source, f" ({error})" if str(error) else "") from None
    merges_all = not source.model.get("ignore_merges", False)
    found = [name for name, rule in RULES.items() if list(rule.split(PROBE)) == pieces]
    exact = [name for name in found if RULES[name].ignore_merges != merges_all]
    for name in (*exact, *found):
        if name != "default":
            return _CALLED.get(name, name)
    digest = hashlib.sha256("\0".join(pieces).encode()).hexdigest()[:16]
    raise _unknown(source, f" (sha256 of how it cuts the probe: {digest})")


def _rule_of_class(source: TokenizerFolder, by_rank: Ranked) -> str:
    """Files of ranks do not say how text is split; the tokenizer's class does."""
    if by_rank.rule is None:
        kind = source.settings.get("tokenizer_class", "of no name")
        raise _unknown(source, f" (class {kind}, sha256 of its tokens {by_rank.fingerprint[:16]})")
    return by_rank.rule


def _unknown(source: TokenizerFolder, why: str = "") -> RequestError:
    return RequestError(
        f"{source.path}: splits text in a way that is not known here{why}: name it with --pre, "
        "such as --pre qwen2",
        "pre",
    )


def _pattern(step: Mapping[str, Any]) -> str:
    pattern = step.get("pattern")
    found = pattern.get("Regex") if isinstance(pattern, dict) else None
    return found if isinstance(found, str) else ""


def split(steps: list[Mapping[str, Any]], text: str) -> list[str]:
    """The pieces that tokenizer.json's steps leave of a text, joined they are the text.

    ValueError for a step that is not known. Source: github.com/huggingface/tokenizers.
    """
    pieces = [text]
    for step in steps:
        cut = _STEPS.get(str(step.get("type")))
        if cut is None:
            raise ValueError(f"{step.get('type')} is not known")
        pieces = [piece for one in pieces for piece in cut(step, one) if piece]
    return pieces


def _split_by_pattern(step: Mapping[str, Any], text: str) -> Iterator[str]:
    pattern = step["pattern"]
    if not isinstance(pattern, dict):
        raise ValueError("a split without a pattern is not known")
    literal = pattern.get("String")
    expression = regex.escape(literal) if literal is not None else pattern["Regex"]
    if step.get("invert"):
        raise ValueError("an inverted pattern is not known")
    return _cut(expression, str(step.get("behavior")), text)


def _cut(expression: str, behavior: str, text: str) -> Iterator[str]:
    """Matches and what lies between them, joined as `behavior` says. Sets nest, as in Oniguruma."""
    matches = [m.span() for m in regex.finditer(expression, text, regex.V1, timeout=_TIMEOUT)]
    spans, at = [], 0
    for start, end in matches:
        if start == end:
            continue
        if at < start:
            spans.append((at, start, False))
        spans.append((start, end, True))
        at = end
    if at < len(text):
        spans.append((at, len(text), False))
    match behavior.lower().replace("_", ""):
        case "isolated":
            yield from (text[a:b] for a, b, _ in spans)
        case "contiguous":
            yield from _joined(text, spans, lambda before, now: before == now)
        case "mergedwithprevious":
            yield from _joined(text, spans, lambda before, now: now and not before)
        case "mergedwithnext":
            yield from _joined(text, spans, lambda before, now: before and not now)
        case _:
            raise ValueError(f"the behavior {behavior} is not known")


def _joined(
    text: str, spans: list[tuple[int, int, bool]], joins: Callable[[bool, bool], bool]
) -> Iterator[str]:
    found: list[tuple[int, int, bool]] = []
    for start, end, is_match in spans:
        if found and joins(found[-1][2], is_match):
            found[-1] = (found[-1][0], end, is_match)
        else:
            found.append((start, end, is_match))
    yield from (text[a:b] for a, b, _ in found)


def _split_digits(step: Mapping[str, Any], text: str) -> Iterator[str]:
    return _cut(r"\p{N}" if step.get("individual_digits") else r"\p{N}+", "isolated", text)


def _split_punctuation(step: Mapping[str, Any], text: str) -> Iterator[str]:
    return _cut(r"[\p{P}$+<=>^`|~]", str(step.get("behavior", "isolated")), text)


def _split_bytes(step: Mapping[str, Any], text: str) -> Iterator[str]:
    """The bytes are not spelled out here."""
    if not step.get("use_regex", True):
        return iter([text])
    return _cut(_GPT2, "isolated", text)


_STEPS: Mapping[str, Callable[[Mapping[str, Any], str], Iterator[str]]] = {
    "Split": _split_by_pattern,
    "Digits": _split_digits,
    "Punctuation": _split_punctuation,
    "ByteLevel": _split_bytes,
}

"""From what a request asks an answer to look like to a constraint. Knows no answer in progress."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from edgellm.constraints.constraint import Constraint, refused
from edgellm.constraints.gbnf import read_gbnf
from edgellm.constraints.lark import write_lark
from edgellm.constraints.schema import JSON_FORM, JSON_RULES, schema_text
from edgellm.constraints.words import Words
from edgellm.errors import RequestError
from edgellm.sampling_params import SamplingParams, constraints_of

_MAX_GRAMMAR = 4 << 20  # characters


def compile_constraint(params: SamplingParams, words: Callable[[], Words]) -> Constraint | None:
    """What the parameters ask the answer to look like; None when nothing.

    words: makes the model's vocabulary, called only if it is needed. RequestError for a grammar
    that is wrong, too large or asks for what cannot be held.
    """
    field = next(iter(constraints_of(params)), None)
    if field is None:
        return None
    from llguidance import LLMatcher

    grammar = _GRAMMARS[field](getattr(params, field))
    matcher = LLMatcher(words().inner, grammar, log_level=0)
    matcher.compute_bitmask()  # finds out whether anything may come first
    if matcher.is_error():
        raise refused(field, matcher.get_error())
    return Constraint(matcher, words(), field)


def _from_schema(schema: Mapping[str, Any] | bool | str) -> str:
    from llguidance import LLMatcher

    return LLMatcher.grammar_from_json_schema(
        _checked("json_schema", schema_text(schema)),
        defaults=JSON_FORM,  # type: ignore[arg-type]
        overrides=JSON_RULES,  # type: ignore[arg-type]
    )


def _from_regex(regex: str) -> str:
    from llguidance import LLMatcher

    return LLMatcher.grammar_from_regex(_checked("regex", regex))


def _from_lark(lark: str, field: str = "lark") -> str:
    from llguidance import LLMatcher

    return LLMatcher.grammar_from_lark(_checked(field, lark))


def _from_gbnf(grammar: str) -> str:
    return _from_lark(write_lark(read_gbnf(_checked("grammar", grammar))), "grammar")


def _from_choices(choices: tuple[str, ...]) -> str:
    # The same escapes in both: quotes, backslashes and control characters.
    texts = (json.dumps(text, ensure_ascii=False) for text in choices)
    return _from_lark(f"start: {' | '.join(texts)}", "choices")


_GRAMMARS: Mapping[str, Callable[[Any], str]] = {
    "json_schema": _from_schema,
    "regex": _from_regex,
    "grammar": _from_gbnf,
    "lark": _from_lark,
    "choices": _from_choices,
}


def _checked(field: str, text: str) -> str:
    """The text. RequestError when it is too long, or not made of whole characters."""
    if len(text) > _MAX_GRAMMAR:
        raise RequestError(
            f"{field} has {len(text)} characters: at most {_MAX_GRAMMAR} are read", field
        )
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"{field} holds half a surrogate pair ({text[error.start]!r}): give whole characters",
            field,
        ) from None
    return text

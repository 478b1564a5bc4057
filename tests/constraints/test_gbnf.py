"""GBNF grammars: what they match after conversion, and what is refused with its line."""

import re
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.constraints import Words, compile_constraint
from edgellm.errors import RequestError
from edgellm.sampling_params import SamplingParams
from tests.constraints.following import matches, refused
from tests.mock_model import ByteTokenizer

# The grammar that llama.cpp's documentation begins with, but for its names.
JSON = r"""root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws

object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws

array  ::= "[" ws ( value ("," ws value)* )? "]" ws

string ::=
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}) # escapes
  )* "\"" ws

number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""


@pytest.mark.parametrize(
    ("grammar", "yes", "no"),
    [
        (
            'root ::= "yes" | "no" why{0,2} # or\nwhy ::= [^\\n] "."',
            ["yes", "no", "noé.🙂."],
            ["n", "no.", "noa.b.c."],
        ),
        (
            'root ::= "(" root* ")" | [a-z]+ "end" | ""',
            ["", "(()())", "endend", "((enxend))"],
            ["(", "end", ")"],
        ),
        ('root ::= "a" root | root "b" | ""', ["", "aab", "b", "abb"], ["ba"]),  # left recursion
        ('root ::= . [^a] "\\x41\\u00e9\\U0001F642\\"\\\\"', ['\n!Aé🙂"\\'], ['xaAé🙂"\\']),
        ("root ::= [a\\-z] [-a] [\\]\\^] [^]", ["-a]x", "z-^\n"], ["b-]x"]),
        ('root ::= [a-]+ "!"', ["a-!"], ["b!"]),
        ('root ::= b\na ::= c\nb ::= a\nc ::= "x"', ["x"], ["y"]),
        (
            "root ::= a{2} b{1,} c{,1}\na ::= [x]\nb ::= [y]\nc ::= [z]",
            ["xxy", "xxyyyz"],
            ["xy", "xxyzz"],
        ),
        ("root ::= (\n [a]\n |\n [b]\n)+\n\n\nunused ::= [c]", ["abba"], ["", "c"]),
        ('root ::= "" ("a" ""?)*', ["", "aa"], ["b"]),
        (
            JSON,
            ['{"a": [1, -2.5e3, "x\\u00e9é"], "b": {"c": null}}', "{}"],
            ['{"a" 1}', "[]", '{"a":tru}'],
        ),
    ],
)
def test_what_a_grammar_matches(grammar: str, yes: list[str], no: list[str]) -> None:
    for text in yes:
        assert matches(text, grammar=grammar), text
    for text in no:
        assert not matches(text, grammar=grammar), text


def test_without_recursion_repeats_may_be_many() -> None:
    """One regular expression takes what would be too much for a parser of single characters."""
    grammar = "root ::= word{0,1000}\nword ::= [a-z]+ | other | .\nother ::= [a-z0-9]+"
    assert matches("ab1" * 50, grammar=grammar)


PIECES = st.recursive(
    st.sampled_from(['"a"', '"ab"', "[ab]", '"c"', "[^a]"]),
    lambda inner: (
        st.builds("({} {})".format, inner, inner)
        | st.builds("({} | {})".format, inner, inner)
        | st.builds(
            "{}{}".format, inner.map(lambda p: f"({p})"), st.sampled_from(["*", "?", "{1,2}"])
        )
    ),
    max_leaves=5,
)


def as_regex(piece: str) -> str:
    """The same as a regular expression of Python: quotes and blanks mean nothing there."""
    return piece.replace('"', "").replace(" ", "")


@settings(max_examples=60, deadline=None)
@given(PIECES, st.booleans(), st.lists(st.text("abc", max_size=6), min_size=1, max_size=5))
def test_a_grammar_matches_what_python_says(piece: str, recursive: bool, texts: list[str]) -> None:
    """With a recursion that has no end in the texts the other way of writing it out is used."""
    grammar = f"root ::= {piece}" + ' | "!" root' * recursive
    for text in texts:
        assert matches(text, grammar=grammar) == bool(re.fullmatch(as_regex(piece), text)), text


@pytest.mark.parametrize(
    ("grammar", "line", "said"),
    [
        ("root ::= foo", 1, "'foo' is not defined"),
        ('\n\nroot ::= "a" [', 3, "expected the end of the text or of the brackets"),
        ('root ::= "a\n"', 1, "expected the end of the text"),
        ('root ::= "a"{3,1}', 1, "no range"),
        ('root ::= "a"' + "*" * 60000, 1, "signs of repetition"),
        ('root ::= "a"{}', 1, "expected {m}"),
        ('root ::= "a"{99999999999999}', 1, "at most 100000"),
        ('root ::= "a"\nb ::= <think>', 2, "tokens"),
        ('root := "a"', 1, "found ':= \"a\"', expected ::="),
        ('root ::= ("a"\n', 2, "closing )"),
        ('root ::= "a")', 1, "expected the end of the rule"),
        ('root ::= "\\q"', 1, "\\q"),
        ('root ::= "\\ud800"', 1, "no character"),
        ('root ::= "\\u12"', 1, "no character"),
        ("root ::= []", 1, "matches no character"),
        ("root ::= [z-a]", 1, "backwards"),
        ('root ::= "a"\nroot ::= "b"', 2, "twice"),
        ("root ::= " + "(" * 60000 + '"a"' + ")" * 60000, 1, "nested"),
    ],
)
def test_what_cannot_be_converted_is_refused_with_its_line(
    grammar: str, line: int, said: str
) -> None:
    message = refused(grammar=grammar)
    assert f"line {line}: " in message and said in message


@pytest.mark.parametrize(
    "grammar",
    [
        "x",
        "#",
        'a ::= "x"',
        "root ::= root",
        'root ::= "a" root',
        'root ::= a\na ::= b | a\nb ::= "b" a',
    ],
)
def test_a_grammar_that_matches_nothing_is_refused(grammar: str) -> None:
    assert refused(grammar=grammar)


@given(st.text('root:=|"[]()*{}1,a\\\n ', max_size=40))
def test_no_text_does_harm(text: str) -> None:
    words: Any = Words(ByteTokenizer())  # type: ignore[arg-type]
    try:
        compile_constraint(SamplingParams(grammar=f"root ::= {text}"), lambda: words)
    except RequestError as error:
        assert error.field == "grammar" and len(str(error)) < 1000

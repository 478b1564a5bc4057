"""What a model is shown: all of a short text, and prompts that stay alike while one writes."""

from hypothesis import given, strategies as st

from edgellm.fim import fill
from edgellm.holes import SourceFile
from edgellm.lsp.cursor import hole_at, indent_at, is_inside_line, without_word, word_before
from tests.mock_model import ByteTokenizer

LINES = [f"line {i}\n" for i in range(400)]
TEXT = "".join(LINES)


@given(st.text("ab \n", max_size=60), st.integers(0, 60))
def test_nothing_of_a_short_text_is_lost(text: str, offset: int) -> None:
    hole = hole_at(text, min(offset, len(text)))
    assert hole.prefix + hole.prompt + hole.suffix == text
    assert not hole.prefix or hole.prefix.endswith("\n")


@given(st.integers(0, len(TEXT)))
def test_of_a_long_text_what_is_near(offset: int) -> None:
    hole = hole_at(TEXT, offset)
    before = hole.prefix + hole.prompt
    assert TEXT[:offset].endswith(before) and TEXT[offset:].startswith(hole.suffix)
    assert offset == len(before) or before.count("\n") >= 64
    assert hole.prompt.count("\n") < 8 and hole.suffix.count("\n") < 32


def test_a_keystroke_changes_the_end_of_the_prompt_alone() -> None:
    at = len("".join(LINES[:300]))
    before, after = hole_at(TEXT, at), hole_at(TEXT[:at] + "x = 1" + TEXT[at:], at + 5)
    ids = [fill(ByteTokenizer(), 1 << 16, hole).token_ids for hole in (before, after)]
    assert ids[1] == (*ids[0], *b"x = 1")
    starts = {hole_at(TEXT, sum(map(len, LINES[:n]))).prefix[:9] for n in range(200, 264)}
    assert len(starts) <= 2


def test_very_long_lines_and_files_are_cut() -> None:
    hole = hole_at("x" * 10**6, 5 * 10**5, [SourceFile(str(i), "y" * 10**6) for i in range(9)])
    assert len(hole.prefix + hole.prompt + hole.suffix) <= 48_000
    assert [file.name for file in hole.files] == ["6", "7", "8"]
    assert all(len(file.text) == 4_000 for file in hole.files)


def test_the_cursors_line() -> None:
    text = "a\n    föö(bar\n"
    assert indent_at(text, 7) == 4 and indent_at(text, 1) == 0
    assert word_before(text, 9) == "föö" and word_before(text, 10) == ""
    assert is_inside_line(text, 8) and not is_inside_line(text, len(text) - 1)


def test_the_word_that_is_being_written_is_left_to_the_answer() -> None:
    for before, kept, word in (
        ("a\n  ret", "a\n", "  ret"),
        ("f(", "f(", ""),
        ("x = ", "x =", " "),
    ):
        hole, typed = without_word(hole_at(f"{before})", len(before)))
        assert (hole.prompt, typed) == (kept, word)

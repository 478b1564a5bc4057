"""Text of models and files as it is shown, and as it can be written."""

from hypothesis import given, strategies as st

from edgellm.escapes import harmless, printable, well_formed

ANY = st.text(st.characters() | st.characters(categories=["Cs"]))


@given(ANY)
def test_what_is_shown_commands_no_terminal(text: str) -> None:
    assert printable(text).isprintable()
    assert not any(c < " " and c not in "\t\n" or "\x7f" <= c < "\xa0" for c in harmless(text))


@given(ANY)
def test_well_formed_text_can_be_written(text: str) -> None:
    mended = well_formed(text)
    mended.encode()
    assert well_formed(mended) == mended


def test_halves_that_belong_together_become_one() -> None:
    assert well_formed("a\ud83d\ude00b") == "a\U0001f600b"
    assert well_formed("a\ud83db\udc00") == "a\ufffdb\ufffd"

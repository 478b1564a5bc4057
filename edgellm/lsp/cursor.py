"""What a model is shown of the text around a cursor. Knows no protocol and no model.

A model reads anew what comes after the first difference to the prompt before. So everything here
moves in steps: where the prefix begins, and where it ends. The last lines before the cursor are
the beginning of the answer, which comes after the suffix in a prompt; while one writes there, the
prefix and the suffix stay as they were, and a keystroke costs the tokens that it changed.

A model goes on with whole tokens: behind "ret" it would not write "urn". So the word that is being
written is left out of the prompt, and the answer must begin with it.
"""

import re
from collections.abc import Sequence
from dataclasses import replace

from edgellm.holes import Hole, SourceFile

_LINES_BEFORE, _LINES_AFTER = 128, 32
_START_STEP = 64  # lines by which the prefix's beginning moves
_END_STEP = 8  # lines by which its end does
_MAX_CHARACTERS = 16_000  # of the prefix, and of the suffix; a line may be very long
_FILE_CHARACTERS = 4_000  # of another file
_MAX_FILES = 3
_MAX_WORD = 80  # characters of a word that the answer begins with


def hole_at(text: str, offset: int, others: Sequence[SourceFile] = ()) -> Hole:
    """The hole at `offset` characters into `text`. others: open files, the nearest last."""
    before = text[:offset].split("\n")
    line = len(before) - 1
    end = line - line % _END_STEP
    start = max(0, end - _LINES_BEFORE)
    start += -start % _START_STEP
    prefix = "".join(f"{one}\n" for one in before[start:end])
    after = text[offset:].split("\n", _LINES_AFTER)
    return Hole(
        prefix[-_MAX_CHARACTERS:],
        "\n".join(after[:_LINES_AFTER])[:_MAX_CHARACTERS],
        "\n".join(before[end:])[-_MAX_CHARACTERS:],
        tuple(
            SourceFile(other.name, other.text[:_FILE_CHARACTERS]) for other in others[-_MAX_FILES:]
        ),
    )


def without_word(hole: Hole) -> tuple[Hole, str]:
    """The hole without the last word of its prompt and the blanks before it, and these."""
    word = re.search(r"[ \t]*\w*\Z", hole.prompt[-_MAX_WORD:])
    typed = word[0] if word else ""
    return replace(hole, prompt=hole.prompt.removesuffix(typed)), typed


def indent_at(text: str, offset: int) -> int:
    """Blanks that the cursor's line begins with."""
    line = text[:offset].rpartition("\n")[2]
    return len(line) - len(line.lstrip(" \t"))


def word_before(text: str, offset: int) -> str:
    """The part of a name that stands before the cursor."""
    found = re.search(r"\w*\Z", text[max(0, offset - 200) : offset])
    return found[0] if found else ""


def is_inside_line(text: str, offset: int) -> bool:
    """Whether something that is no blank follows in the cursor's line."""
    return bool(text[offset:].partition("\n")[0].strip())

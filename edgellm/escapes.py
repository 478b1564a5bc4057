"""Text from models and files, without what would command a terminal or cannot be written."""

import re

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline


def printable(text: str) -> str:
    """One line: whatever cannot be printed is shown escaped."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def harmless(text: str) -> str:
    """Any text: control characters but tab and newline are shown escaped, the rest is kept."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def well_formed(text: str) -> str:
    """Halves of surrogate pairs, as JSON's escapes give them, made whole; U+FFFD for a lone one."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

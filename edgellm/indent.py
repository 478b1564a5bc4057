"""Ends a text before a line that is indented less than wanted. Knows nothing of tokens."""


class IndentWatch:
    """Passes a text on, piece by piece, up to such a line; the first line is never one.

    The blanks that a line begins with are held back until it is known. 0 passes all.
    """

    def __init__(self, indent: int) -> None:
        self._indent = indent
        self._held: str | None = None  # the line end and blanks so far, inside a line's beginning
        self.is_over = False

    def push(self, text: str) -> str:
        if self._indent <= 0:
            return text
        passed = []
        for character in text:
            if self.is_over:
                break
            passed.append(self._take(character))
        return "".join(passed)

    def finish(self) -> str:
        """What was held back, when the text is over."""
        held, self._held = self._held or "", None
        return "" if self.is_over else held

    def _take(self, character: str) -> str:
        if character == "\n":
            held, self._held = self._held or "", "\n"
            return held
        if self._held is None:
            return character
        if character in " \t":
            self._held += character
            return ""
        held, self._held = self._held, None
        if len(held) - 1 < self._indent:
            self.is_over = True
            return ""
        return held + character

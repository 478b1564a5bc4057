"""Calls as Python writes them, between two markers: LFM 2, and Gemma's tool_code blocks."""

from dataclasses import dataclass

from edgellm.dialects.calls import python_calls
from edgellm.dialects.functions import Tools
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import Reader, Reading
from edgellm.errors import RequestError


@dataclass(frozen=True)
class Marks:
    """open, close: around a list of calls, or lines of them."""

    open: str
    close: str

    def read(self, reader: Reader) -> Reading[None]:
        while (yield from reader.say_until(self.open)) is not None:
            yield from reader.attempt(self._calls(reader), self.open)

    def _calls(self, reader: Reader) -> Reading[None]:
        source = yield from reader.until(self.close)
        reader.take(len(self.close))
        python_calls(reader, source)

    def write(self, lark: Lark, tools: Tools) -> str:
        """RequestError: what Python values may be is not written down as a grammar here."""
        raise RequestError(
            "tools: this model writes calls as Python code, which cannot be held to a schema: "
            "leave out strict, and let tool_choice be auto",
            "tools",
        )


LFM = Marks("<|tool_call_start|>", "<|tool_call_end|>")
GEMMA_CODE = Marks("```tool_code", "```")

"""How far a prompt is, as llama.cpp's `return_progress` asks and its streams tell."""

from dataclasses import replace
from typing import Any

from edgellm.server.answers import Prepared
from edgellm.server.fields import read
from edgellm.server.routes import Call
from edgellm.types import Progress

TAKES = ("return_progress",)


def with_progress(call: Call, prepared: Prepared) -> Prepared:
    """The same, with events about its prompt where the fields want them."""
    wanted = read(call.fields, "return_progress", bool, False)
    return replace(prepared, request=replace(prepared.request, tells_progress=wanted))


def prompt_progress(progress: Progress) -> dict[str, Any]:
    """What a part of a stream says of it: processed / total is the whole, (processed - cache) /
    (total - cache) what took the time."""
    return {
        "prompt_progress": {
            "total": progress.tokens,
            "cache": progress.cached,
            "processed": progress.computed,
            "time_ms": round(1000 * progress.seconds),
        }
    }

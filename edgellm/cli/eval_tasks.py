"""Task files of `edgellm eval`: the user's, or those that come with the package."""

from importlib.resources import files

from edgellm.cli import options

CHOICE, CALLS = "choice.jsonl", "calls.jsonl"


def lines(path: str | None, own: str) -> list[str]:
    """The lines of a file (- is standard input), or of one of ours. RequestError: no UTF-8."""
    if path is None:
        return options.lines_of((files("edgellm.eval") / "tasks" / own).read_text("utf-8"))
    return options.lines_of(options.read_text(path))

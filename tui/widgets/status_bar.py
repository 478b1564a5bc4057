"""One line at the bottom: the model, its context, its speed, its memory. Draws what it is told."""

from dataclasses import dataclass

from textual.content import Content
from textual.reactive import reactive
from textual.widgets import Static

_BAR = 12  # cells
_KEYS = "F1 help · Ctrl+P commands"


@dataclass(frozen=True)
class Status:
    """failure: why the model cannot be used. used, context: tokens. rate: tokens per second.
    first_token: seconds. acceptance: share of the tokens guessed ahead that were right. memory:
    bytes."""

    model: str = "no model"
    activity: str = ""
    failure: str = ""
    used: int = 0
    context: int = 0
    rate: float | None = None
    first_token: float | None = None
    acceptance: float | None = None
    memory: int | None = None
    others: int = 0  # answers under way in other conversations


class StatusBar(Static):
    """A Status."""

    status: reactive[Status] = reactive(Status())

    def render(self) -> Content:
        status = self.status
        parts = [Content.styled(status.model, "bold")]
        width = self.content_size.width
        if told := status.activity or status.failure.partition("\n")[0]:
            room = max(0, width - _joined([*parts, Content()]).cell_length)
            style = "$accent" if status.activity else "$error"
            parts.append(Content.styled(told, style).truncate(room, ellipsis=True))
        if status.context:
            parts.append(context_bar(status.used, status.context))
        if status.rate is not None:
            parts.append(Content(f"{status.rate:.1f} tokens/s"))
        if status.first_token is not None:
            parts.append(Content(f"first {seconds(status.first_token)}"))
        if status.acceptance is not None:
            parts.append(Content(f"{status.acceptance:.0%} guessed right"))
        if status.memory is not None:
            parts.append(Content(size(status.memory)))
        if status.others:
            parts.append(Content.styled(f"◌ {status.others} more", "$accent"))
        while len(parts) > 1 and _joined(parts).cell_length > width > 0:
            parts.pop()  # the last ones are missed least, and half of one says nothing
        line = _joined(parts)
        room = width - line.cell_length - len(_KEYS)
        return line + Content(" " * room + _KEYS) if room >= 3 else line


def _joined(parts: list[Content]) -> Content:
    return Content("   ").join(parts)


def context_bar(used: int, context: int) -> Content:
    """How full the context is: a bar and the numbers; in the warning colour when nearly full."""
    share = min(1.0, used / context)
    whole, half = divmod(round(share * _BAR * 2), 2)
    bar = "━" * whole + "╸" * half
    style = "$warning" if share > 0.9 else "$accent"
    return Content.assemble(
        (bar, style), ("─" * (_BAR - len(bar)), "$border"), f" {count(used)} of {count(context)}"
    )


def count(number: int) -> str:
    """A number of tokens, short: 812, 1.2k, 131k."""
    if number < 1000:
        return str(number)
    return f"{number / 1000:.1f}k" if number < 100_000 else f"{number / 1000:.0f}k"


def seconds(value: float) -> str:
    return f"{value:.2f} s" if value < 10 else f"{value:.0f} s"


def size(number: float) -> str:
    """Bytes in decimal units: 98 MB, 1.3 GB."""
    for unit in ("B", "kB", "MB"):
        if number < 1000:
            return f"{number:.0f} {unit}"
        number /= 1000
    return f"{number:.1f} GB"

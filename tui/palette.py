"""The command palette's entries: one per action, with its key."""

from typing import TYPE_CHECKING, cast

from textual.command import DiscoveryHit, Hit, Hits, Provider

from edgellm.tui.actions import ACTIONS, Action

if TYPE_CHECKING:
    from edgellm.tui.app import ChatApp


class Actions(Provider):
    async def discover(self) -> Hits:
        for action in ACTIONS:
            yield DiscoveryHit(_title(action), self._command(action), help=f"/{action.name}")

    async def search(self, query: str) -> Hits:
        matcher = self.matcher(query)
        for action in ACTIONS:
            score = max(matcher.match(action.title), matcher.match(action.name))
            if score > 0:
                shown = matcher.highlight(_title(action))
                yield Hit(score, shown, self._command(action), help=f"/{action.name}")

    def _command(self, action: Action) -> "Command":
        return Command(cast("ChatApp", self.app), action)


class Command:
    """Does an action."""

    def __init__(self, app: "ChatApp", action: Action) -> None:
        self._app = app
        self._action = action

    def __call__(self) -> None:
        self._app.do(self._action)


def _title(action: Action) -> str:
    return f"{action.title}  ({action.shown_key})"

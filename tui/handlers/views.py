"""Actions on what is shown: models, settings, the raw prompt, the engine, themes, help."""

from typing import TYPE_CHECKING

from edgellm.dialects.effort import has_switch
from edgellm.errors import RequestError
from edgellm.tui.first_model import first_model
from edgellm.tui.options import THINKING, parse, parse_assignment
from edgellm.tui.screens.engine import EngineScreen
from edgellm.tui.screens.help import HelpScreen
from edgellm.tui.screens.models import ModelScreen
from edgellm.tui.screens.raw_prompt import RawPromptScreen
from edgellm.tui.themes import THEMES

if TYPE_CHECKING:
    from edgellm.tui.app import ChatApp


async def choose_first_model(app: "ChatApp") -> None:
    """The one that the chat begins with; where none is stored, what the user chooses."""
    name = app.chat.conversation.model or await first_model(app.library, app.history)
    if name is None:
        screen = ModelScreen(app.library, None, first=True)
        app.ask(screen, lambda chosen: model(app, chosen))
    else:
        app.chat.change(model=name)  # a message tries again when it cannot be loaded now
        await model(app, name)


async def model(app: "ChatApp", name: str) -> None:
    """The conversation goes on with this model."""
    if not name:
        screen = ModelScreen(app.library, app.chat.conversation.model)
        app.ask(screen, lambda chosen: model(app, chosen))
        return
    info = await app.session.model(name)
    # A stored model keeps its name; a file of the user's own is found again by its path.
    await app.change(model=name if name == info.name else info.path)


async def settings(app: "ChatApp", argument: str) -> None:
    if argument:
        changed = {**app.chat.conversation.settings, **parse_assignment(argument)}
        await app.change(settings=changed)
        return
    await app.show_settings(not app.settings_panel.display)


async def think(app: "ChatApp", level: str) -> None:
    """Without a level: off, or the model's own way again."""
    current = app.chat.conversation.settings
    info = await app.session.model(app.chat.conversation.model)
    client = await app.session.client()
    if not has_switch((await client.details(info.name)).chat_template):
        raise RequestError(f"{info.name} has no switch for thinking in its chat template")
    without = {name: value for name, value in current.items() if name != THINKING.name}
    if level or without == current:
        without[THINKING.name] = parse(THINKING, level or "off")
    await app.change(settings=without)
    app.notify(f"thinking: {without.get(THINKING.name, 'as the model does')}")


async def chats(app: "ChatApp", _: str) -> None:
    app.sidebar.open(not app.sidebar.display)


async def raw(app: "ChatApp", _: str) -> None:
    info = await app.session.model(app.chat.conversation.model)
    client = await app.session.client()
    head = app.chat.head
    if head is None:
        raise RequestError("there is no prompt yet: ask something first")
    ids = await app.session.prompt_ids(
        app.chat, head.parent if head.role == "assistant" else head.id
    )
    await app.push_screen(RawPromptScreen(ids, await client.pieces(ids, info.name)))


async def thoughts(app: "ChatApp", _: str) -> None:
    """Of the answer that has the focus, or of the last one that has any."""
    focused = app.transcript.focused_view
    views = [focused] if focused else app.transcript.views[::-1]
    shown = next((view.thoughts for view in views if view.has_thoughts), None)
    if shown is None:
        raise RequestError("there are no thoughts here")
    await shown.action_unfold()


async def code_above(app: "ChatApp", _: str) -> None:
    _move_to_code(app, -1)


async def code_below(app: "ChatApp", _: str) -> None:
    _move_to_code(app, 1)


def _move_to_code(app: "ChatApp", step: int) -> None:
    if not app.transcript.focus_code(step):
        raise RequestError("there is no code block here")


async def engine(app: "ChatApp", _: str) -> None:
    await app.push_screen(EngineScreen(app.session))


async def theme(app: "ChatApp", name: str) -> None:
    names = [theme.name for theme in THEMES]
    if name and name not in names:
        raise RequestError(f"no theme {name!r}: there are {', '.join(names)}")
    following = names[(names.index(app.theme) + 1) % len(names)] if app.theme in names else names[0]
    app.theme = name or following
    app.notify(app.theme)


async def show_help(app: "ChatApp", _: str) -> None:
    await app.push_screen(HelpScreen(app.actions))


async def leave(app: "ChatApp", _: str) -> None:
    app.exit()

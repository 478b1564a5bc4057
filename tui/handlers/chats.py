"""Actions on conversations: new, search, fork, rename, pin, archive, remove, instructions."""

from dataclasses import replace
from typing import TYPE_CHECKING

from textual.widgets import Input

from edgellm.errors import RequestError
from edgellm.tui.chat import UNTITLED, Chat, Conversation, new_id
from edgellm.tui.screens.ask import AskScreen, ConfirmScreen

if TYPE_CHECKING:
    from edgellm.tui.app import ChatApp


async def new(app: "ChatApp", _: str) -> None:
    now = app.chat.conversation
    await app.open(Chat(Conversation(model=now.model, settings=now.settings, system=now.system)))
    app.editor.focus()


async def show(app: "ChatApp", conversation: int) -> None:
    """Opens a conversation of the list."""
    chat = await app.desk.find(conversation)
    if chat is None:
        app.notify("this chat has been deleted", severity="warning")
        await app.listing.draw()
        return
    await app.open(chat)
    app.sidebar.remove_class("-shown")  # on a narrow screen it lies over the chat
    app.editor.focus()


async def search(app: "ChatApp", text: str) -> None:
    app.sidebar.open(True)
    field = app.query_one("#search", Input)
    field.value = text
    field.focus()


async def fork(app: "ChatApp", _: str) -> None:
    """A conversation of its own with the messages up to this one."""
    last = app.selected or app.chat.head
    if last is None:
        raise RequestError("there is no message to fork from yet")
    now = app.chat.conversation
    chat = Chat(replace(now, id=new_id(), title=f"{now.title} (fork)", head=None, pinned=False))
    for message in app.chat.path(last.id):
        reason = message.finish_reason or "abort"
        chat.put(replace(message, id=new_id(), parent=chat.conversation.head, finish_reason=reason))
    app.desk.add(chat)
    await app.open(chat)
    app.notify("this is the copy")


async def rename(app: "ChatApp", title: str) -> None:
    if not title:
        screen = AskScreen("Rename the chat", app.chat.conversation.title)
        app.ask(screen, lambda text: rename(app, text.strip() or UNTITLED))
        return
    await app.change(title=title)


async def pin(app: "ChatApp", _: str) -> None:
    await app.change(pinned=not app.chat.conversation.pinned)


async def archive(app: "ChatApp", _: str) -> None:
    is_archived = not app.chat.conversation.archived
    await app.change(archived=is_archived)
    app.notify("archived: /archived shows it" if is_archived else "back in the list")


async def archived(app: "ChatApp", _: str) -> None:
    """All of them, whatever was searched for among the others."""
    app.listing.is_archived = not app.listing.is_archived
    app.query_one("#search", Input).value = ""
    await app.listing.search("")
    app.sidebar.open(True)


async def remove(app: "ChatApp", _: str) -> None:
    chat = app.chat
    question = f"“{chat.conversation.title}” and its {len(chat.messages)} messages are lost then."

    async def sure(yes: bool) -> None:
        if yes:
            await app.session.stop(chat)
            app.desk.remove()
            await new(app, "")

    app.ask(ConfirmScreen("Delete the chat?", question, "deletes it"), sure)


async def system(app: "ChatApp", text: str) -> None:
    if not text:
        screen = AskScreen(
            "Instructions for the model",
            app.chat.conversation.system,
            multiline=True,
            placeholder="for example: answer in one sentence",
        )
        app.ask(screen, lambda given: app.change(system=given.strip()))
        return
    await app.change(system=text)

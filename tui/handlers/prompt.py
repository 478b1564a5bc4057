"""What becomes of a prompt: a command, or a question that is answered."""

import asyncio
from typing import TYPE_CHECKING

from edgellm.errors import EdgeLLMError, RequestError
from edgellm.tui.actions import BY_NAME
from edgellm.tui.attachments import attach
from edgellm.tui.chat import UNTITLED, Message, title_of
from edgellm.tui.handlers.answers import answer
from edgellm.tui.history import Store

if TYPE_CHECKING:
    from edgellm.tui.app import ChatApp


def submit(app: "ChatApp", text: str) -> None:
    name, _, argument = text.strip()[1:].partition(" ")
    if not text.startswith("/"):
        app.run_worker(app.attempt(ask(app, text)), group="actions")
    elif name in BY_NAME:
        app.do(BY_NAME[name], argument.strip())
    else:
        app.editor.put(text)
        said = f"no command /{name}: / lists them; a blank before it makes it a message"
        app.notify(said, severity="warning", markup=False)


async def ask(app: "ChatApp", text: str) -> None:
    """Sends a question. What cannot be sent stays in the editor, before what was typed since."""
    try:
        content = await asyncio.to_thread(attach, text.strip())
        if app.chat.conversation.model is None:
            raise RequestError("choose a model first: Ctrl+L lists them")
    except EdgeLLMError:
        app.editor.put("\n".join(filter(None, (text, app.editor.text))))
        raise
    await app.session.stop(app.chat)
    app.history.tell(Store.say, text)
    if app.chat.conversation.title == UNTITLED and not app.chat.messages:
        app.chat.change(title=title_of(text))
    question = Message("user", content, parent=app.chat.conversation.head)
    app.desk.put(question)
    await answer(app, question.id)

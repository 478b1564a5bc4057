"""Actions on answers: stop, again, go on, edit, branches, comparisons, alternatives."""

import time
from dataclasses import replace
from typing import TYPE_CHECKING

from edgellm.errors import RequestError
from edgellm.tui.chat import Message, model_name, new_id
from edgellm.tui.options import parse_assignment, sampling_params
from edgellm.tui.reading import Begun, begun_by, manner_of
from edgellm.tui.screens.alternatives import AlternativesScreen
from edgellm.tui.screens.ask import AskScreen
from edgellm.tui.screens.compare import CompareScreen

if TYPE_CHECKING:
    from edgellm.tui.app import ChatApp


async def answer(app: "ChatApp", parent: int) -> None:
    """Begins an answer to a message."""
    model = app.chat.conversation.model
    message = Message("assistant", parent=parent, finish_reason=None, model=model)
    app.desk.put(message)
    app.session.begin(app.chat, message)
    app.transcript.anchor()
    await app.refresh_chat()


async def stop(app: "ChatApp", _: str) -> None:
    """Without anything under way: back to the prompt, and what lies over the chat goes."""
    is_loading = app.session.stop_loading()
    if not await app.session.stop(app.chat) and not is_loading:
        app.sidebar.remove_class("-shown")
        await app.show_settings(False)


async def regenerate(app: "ChatApp", _: str) -> None:
    """Another answer beside the one that is there."""
    parent = _question(app)
    await app.session.stop(app.chat)
    await answer(app, parent)


async def go_on(app: "ChatApp", _: str) -> None:
    """The answer goes on where it ended."""
    message = _answer(app)
    await app.session.stop(app.chat)
    message = replace(app.chat.messages[message.id], finish_reason=None)
    app.chat.put(message)
    app.session.begin(app.chat, message)
    await app.refresh_chat()


async def edit(app: "ChatApp", _: str) -> None:
    """A question is asked anew on a branch of its own; an answer is changed as it stands."""
    message = app.selected or app.chat.last("user")
    if message is None:
        raise RequestError("there is no message to edit yet")
    app.ask(
        AskScreen("Edit the message", message.content, multiline=True),
        lambda text: _edited(app, message, text),
    )


async def _edited(app: "ChatApp", message: Message, text: str) -> None:
    if not text.strip() or text == message.content:
        return
    await app.session.stop(app.chat)
    changed = replace(message, id=new_id(), content=text, created=time.time(), token_ids=())
    app.desk.put(changed)
    if message.role == "user":
        await answer(app, changed.id)
    else:
        await app.refresh_chat()


async def previous(app: "ChatApp", _: str) -> None:
    await _walk(app, -1)


async def following(app: "ChatApp", _: str) -> None:
    await _walk(app, 1)


async def _walk(app: "ChatApp", step: int) -> None:
    """To the branch beside the one of the message, or of the last one that has branches."""
    path = app.chat.path()
    chosen = [app.selected] if app.selected else path[::-1]
    for message in chosen:
        siblings = app.chat.siblings(message)
        if len(siblings) > 1:
            ids = [sibling.id for sibling in siblings]
            at = (ids.index(message.id) + step) % len(ids)
            app.chat.show_branch(siblings[at])
            app.desk.save()
            await app.refresh_chat()
            return
    raise RequestError("there are no branches here: answer again, or edit a message")


async def compare(app: "ChatApp", argument: str) -> None:
    """A second answer with another model or setting, beside the first."""
    parent = _question(app)
    conversation = app.chat.conversation
    if not argument:
        app.ask(
            AskScreen("Compare with", placeholder="a model, or a setting such as temperature=0"),
            lambda text: compare(app, text),
        )
        return
    settings = parse_assignment(argument) if "=" in argument else {}
    model = conversation.model if settings else argument
    await app.session.stop(app.chat)
    before = app.chat.conversation.head
    pair = [Message("assistant", parent=parent, finish_reason=None, model=conversation.model)]
    pair.append(Message("assistant", parent=parent, finish_reason=None, model=model))
    for message in pair:
        app.desk.put(message)
    titles = (model_name(conversation.model), argument)
    generations = (
        app.session.begin(app.chat, pair[0]),
        app.session.begin(app.chat, pair[1], model, **settings),
    )

    async def decided(chosen: int | None) -> None:
        """Without a choice both end, and are branches beside the answer that was there."""
        if chosen is None:
            await app.session.stop(app.chat)
        app.chat.change(head=before if chosen is None else generations[chosen].message.id)
        app.desk.save()
        await app.refresh_chat()

    app.push_screen(CompareScreen(generations, titles), decided)


async def alternatives(app: "ChatApp", _: str) -> None:
    """What else each token of the answer might have been, and the answer from there on."""
    message = _answer(app)
    if message.finish_reason is None and app.session.generation(app.chat, message.id):
        raise RequestError("the answer is still being written: stop it first")
    info = await app.session.model(app.chat.conversation.model)
    client = await app.session.client()
    prompt = await app.session.prompt_ids(app.chat, message.parent)
    params = sampling_params(app.chat.conversation.settings)
    manner = await manner_of(client, info.name, params, prompt)
    ids = (await begun_by(client, message, info.name, manner)).ids
    pieces = await client.pieces(ids, info.name)

    async def take(chosen: tuple[int, int]) -> None:
        place, token = chosen
        other = Message("assistant", parent=message.parent, finish_reason=None, model=info.name)
        app.desk.put(other)
        begun = (*ids[:place], token)
        text = "".join(await client.pieces(begun, info.name))
        app.session.begin(app.chat, other, begun=Begun(begun, text))
        await app.refresh_chat()

    app.ask(AlternativesScreen(client, info, prompt, ids, pieces), take)


async def delete(app: "ChatApp", _: str) -> None:
    """The message and all that follows it."""
    message = app.selected or app.chat.head
    if message is None:
        raise RequestError("there is no message to delete")
    await app.session.stop(app.chat)
    app.desk.forget(app.chat.remove(message))
    await app.refresh_chat()
    app.editor.focus()


def _answer(app: "ChatApp") -> Message:
    """The answer that is meant."""
    chosen = app.selected
    message = chosen if chosen and chosen.role == "assistant" else app.chat.last("assistant")
    if message is None:
        raise RequestError("there is no answer yet")
    return message


def _question(app: "ChatApp") -> int:
    """The message that is to be answered once more."""
    message = app.selected or app.chat.head
    if message is not None and message.role == "user":
        return message.id
    if message is None or message.parent is None:
        raise RequestError("there is no question to answer yet")
    return message.parent

"""Actions on files and the clipboard: attach, save, import, copy, schema."""

import asyncio
import json
import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgellm.errors import RequestError
from edgellm.paths import typed_path
from edgellm.tui.attachments import mention
from edgellm.tui.export import read_chats, to_json, to_markdown
from edgellm.tui.screens.ask import AskScreen

if TYPE_CHECKING:
    from edgellm.tui.app import ChatApp

_MAX_IMPORT = 256 << 20  # bytes
_CODE = re.compile(r"^(`{3,}|~{3,})[^\n]*\n(.*?)^\1[`~]*\s*$", re.DOTALL | re.MULTILINE)


async def attach(app: "ChatApp", path: str) -> None:
    if not path:
        screen = AskScreen("Attach a file or a folder", placeholder="path")
        app.ask(screen, lambda text: attach(app, text.strip() or "."))
        return
    if not typed_path(path).exists():
        raise RequestError(f"{path}: no such file or folder")
    app.editor.put(f"{app.editor.text.rstrip()} {mention(path)} ".lstrip())


async def save(app: "ChatApp", path: str) -> None:
    """As JSON when the name ends so, with all branches; else as Markdown, as it is shown."""
    if not path:
        title = re.sub(r"[^\w-]+", "-", app.chat.conversation.title.lower()).strip("-")
        screen = AskScreen("Save as", f"{title or 'chat'}.md", placeholder="name.md or name.json")
        app.ask(screen, lambda text: save(app, text.strip() or "chat.md"))
        return
    file = typed_path(path)
    text = to_json(app.chat) if file.suffix == ".json" else to_markdown(app.chat)
    try:
        await asyncio.to_thread(_write_new, file, text)
    except FileExistsError:
        raise RequestError(f"{file} is there already: give another name") from None
    except OSError as error:
        raise RequestError(f"{file}: it cannot be written: {error.strerror}") from None
    app.notify(f"saved as {file}", markup=False)


async def load(app: "ChatApp", path: str) -> None:
    if not path:
        screen = AskScreen("Open saved chats", placeholder="name.json")
        app.ask(screen, lambda text: load(app, text.strip() or "."))
        return
    text = await asyncio.to_thread(_read, typed_path(path))
    try:
        chats = await asyncio.to_thread(read_chats, text)
    except RequestError as error:
        raise RequestError(f"{path}: {error}") from None
    for chat in chats:
        if chat.conversation.model is None:
            chat.change(model=app.chat.conversation.model)
        app.desk.add(chat)
    await app.open(chats[-1])
    count = "1 chat" if len(chats) == 1 else f"{len(chats)} chats"
    app.notify(f"{count} from {path}", markup=False)


async def copy(app: "ChatApp", _: str) -> None:
    message = app.selected or app.chat.last("assistant")
    if message is None:
        raise RequestError("there is no answer to copy yet")
    app.copy_to_clipboard(app.chat.messages[message.id].content)
    app.notify("copied")


async def copy_code(app: "ChatApp", _: str) -> None:
    """The block that has the focus, or the last one."""
    focused = app.transcript.focused_code
    if focused is not None:
        app.copy_to_clipboard(focused.code.rstrip("\n") + "\n")
        app.notify("code copied")
        return
    message = app.selected or app.chat.last("assistant")
    blocks = code_blocks(app.chat.messages[message.id].content) if message else []
    if not blocks:
        raise RequestError("there is no code block to copy here")
    app.copy_to_clipboard(blocks[-1])
    app.notify("code copied")


def code_blocks(markdown: str) -> list[str]:
    """The text inside the fences."""
    return [code for _, code in _CODE.findall(markdown)]


async def schema(app: "ChatApp", path: str) -> None:
    """Answers have the form that a JSON schema describes; without a file, they are free again."""
    if not path:
        screen = AskScreen("Answers as a JSON schema says", placeholder="schema.json; empty: free")
        app.ask(screen, lambda text: _set_schema(app, text.strip()))
        return
    await _set_schema(app, path)


async def _set_schema(app: "ChatApp", path: str) -> None:
    settings = {k: v for k, v in app.chat.conversation.settings.items() if k != "json_schema"}
    if path:
        text = await asyncio.to_thread(_read, typed_path(path))
        settings["json_schema"] = _checked(path, text)
    await app.change(settings=settings)
    app.notify(f"answers follow {path}" if path else "answers are free again", markup=False)


def _checked(path: str, text: str) -> str:
    try:
        found: Any = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{path}: not a JSON file: {error}") from None
    if not isinstance(found, dict | bool):
        raise RequestError(f"{path}: a JSON schema is an object")
    return text


def _write_new(file: Path, text: str) -> None:
    """A file of somebody else's is not written over."""
    handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)


def _read(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            raw = stream.read(_MAX_IMPORT + 1)
        if len(raw) > _MAX_IMPORT:
            raise RequestError(f"{file}: larger than {_MAX_IMPORT >> 20} MiB")
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError(f"{file}: not UTF-8 text") from None
    except OSError as error:
        raise RequestError(f"{file}: it cannot be read: {error.strerror}") from None

"""A plain prompt loop, for terminals that cannot draw (TERM=dumb) and for input from a pipe.

The same engine and the same history as the screen; no colours, no cursor movement.
"""

import asyncio
import signal
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from edgellm.errors import EdgeLLMError
from edgellm.escapes import harmless
from edgellm.tui.attachments import attach
from edgellm.tui.chat import Chat, Conversation, Message, model_name, title_of
from edgellm.tui.doors import Engine
from edgellm.tui.generation import Generation
from edgellm.tui.history import History, Store
from edgellm.tui.session import Session
from edgellm.types import LoadOptions

_LOOK = 0.03  # seconds between two looks at a growing answer
_HELP = "/new begins another conversation, /quit ends; @file attaches; Ctrl-C stops an answer"


def can_draw(term: str | None, stdin: TextIO, stdout: TextIO) -> bool:
    """Whether the screen can be used, whose frames are no letters of every encoding."""
    try:
        "╭─●".encode(stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return stdin.isatty() and stdout.isatty() and term not in (None, "", "dumb", "unknown")


async def converse(
    engine: Engine,
    history: Path,
    model: str,
    load_options: LoadOptions | None = None,
    stdin: TextIO = sys.stdin,
    stdout: TextIO = sys.stdout,
) -> None:
    """Reads prompts until the end of the input or /quit, and writes the answers."""

    def note(text: str) -> None:
        print(f"({text})", file=stdout, flush=True)

    kept = History(history, lambda error: note(f"the history was not written: {error}"))
    if (aside := await kept.open()) is not None:
        note(f"the history was damaged and is kept as {aside}; a new one has begun")

    def save(conversation: int, message: Message) -> None:
        kept.tell(Store.save_message, conversation, message)

    session = Session(engine, save, note, lambda _: None, load_options)
    chat = Chat(Conversation(model=model))
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGINT, interrupted.set)
    try:
        info = await session.model(model)
        note(f"{model_name(model)}, context of {info.context_length} tokens; {_HELP}")
        while (line := await _line(stdin, stdout, interrupted)) is not None:
            match line.strip():
                case "":
                    continue
                case "/quit" | "/exit" | "/bye":
                    break
                case "/new":
                    chat = Chat(Conversation(model=model))
                case "/help":
                    note(_HELP)
                case word if word.startswith("/") and " " not in word:
                    note(f"no command {word}: {_HELP}")
                case prompt:
                    await _turn(session, kept, chat, prompt, interrupted, stdout)
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        await session.close()
        await kept.close()


async def _turn(
    session: Session,
    history: History,
    chat: Chat,
    prompt: str,
    interrupted: asyncio.Event,
    stdout: TextIO,
) -> None:
    """One question and its answer."""
    try:
        content = await asyncio.to_thread(attach, prompt)
    except EdgeLLMError as error:
        print(f"({error})", file=stdout)
        return
    if not chat.messages:
        chat.change(title=title_of(prompt))
    question = Message("user", content, parent=chat.conversation.head)
    answer = Message("assistant", parent=question.id, finish_reason=None)
    chat.put(question)
    chat.put(answer)
    history.tell(Store.save, chat.conversation, [question, answer])
    generation = session.begin(chat, answer)
    interrupted.clear()
    if not await _write(generation, interrupted, stdout):
        await session.stop(chat)
    if generation.error is not None:
        print(f"({generation.error})", file=stdout)
    print(file=stdout, flush=True)


async def _write(generation: Generation, interrupted: asyncio.Event, stdout: TextIO) -> bool:
    """Writes the answer as it grows; whether it came to its end."""
    shown = 0
    was_thinking = False
    while not interrupted.is_set():
        is_over = generation.message.finish_reason is not None
        text = generation.text
        if generation.is_thinking and not was_thinking:
            print("(thinking)", file=stdout, flush=True)
            was_thinking = True
        if len(text) > shown:
            stdout.write(harmless(text[shown:]))
            stdout.flush()
            shown = len(text)
        if is_over:
            return True
        await asyncio.sleep(_LOOK)
    return False


async def _line(stdin: TextIO, stdout: TextIO, interrupted: asyncio.Event) -> str | None:
    """The next line; None at the end or when interrupted. Read in a thread of its own, which
    nothing waits for."""
    interrupted.clear()
    if stdin.isatty():
        stdout.write("> ")
        stdout.flush()
    loop = asyncio.get_running_loop()
    line: asyncio.Future[str] = loop.create_future()
    stop = asyncio.ensure_future(interrupted.wait())

    def settle(text: str) -> None:
        if not line.done():
            line.set_result(text)

    def read() -> None:
        text = stdin.readline()
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, text)

    threading.Thread(target=read, daemon=True).start()
    await asyncio.wait((line, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    return (line.result() or None) if line.done() else None

"""The chat as a whole: several answers at once, what is kept, what goes wrong, the first start."""

import asyncio
import re
import sqlite3
import time
from pathlib import Path

import pytest
from textual.widgets import Button, Input, OptionList, ProgressBar, Static

from edgellm.errors import ConnectionFailed, DownloadError, EdgeLLMError
from edgellm.tui.actions import ACTIONS
from edgellm.tui.app import ChatApp
from edgellm.tui.chat import Chat, Message
from edgellm.tui.doors import Advance, Note
from edgellm.tui.history import Store
from edgellm.tui.screens.models import ModelScreen
from edgellm.tui.themes import THEMES
from edgellm.tui.widgets import message_view, transcript
from edgellm.tui.widgets.conversation_list import BUSY, DONE
from edgellm.tui.widgets.status_bar import Status, StatusBar
from tests.tui.piloted import (
    app_of,
    asynchronous,
    chatting,
    finished,
    notices,
    say,
    shown,
    texts,
    until,
)
from tests.tui.scripted import ScriptedClient, ScriptedEngine, ScriptedLibrary


def listed(app: ChatApp) -> list[str]:
    options = app.screen_stack[0].query_one("#conversations", OptionList)
    rows = [options.get_option_at_index(i) for i in range(options.option_count)]
    return [str(row.prompt) for row in rows if not row.disabled]


@asynchronous
async def test_several_conversations_are_answered_at_once(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "the answer to " + prompt.split("<user>")[1][:1])
    async with chatting(tmp_path, client) as pilot:
        app = app_of(pilot)
        client.gate.clear()
        for name in "abcd":
            await say(pilot, name, wait=False)
            if name != "d":
                await pilot.press("ctrl+n")
                await until(pilot, lambda: not app.chat.messages)
        await until(pilot, lambda: client.running == 4)
        await until(pilot, lambda: listed(app) == [f"{BUSY} {name}" for name in "dcba"])
        assert app.query_one(StatusBar).status.others == 3
        client.gate.set()
        await finished(pilot)
        assert texts(pilot) == ["d", "the answer to d<"[:-1]]
        await until(pilot, lambda: listed(app) == ["  d", f"{DONE} c", f"{DONE} b", f"{DONE} a"])
        app.post_message(app.sidebar.Chosen(app.chat.id))
        for name in "cba":
            found = await app.history.ask(Store.conversations, name)
            (conversation,) = (c for c in found if c.title == name)
            app.post_message(app.sidebar.Chosen(conversation.id))
            await until(pilot, lambda name=name: texts(pilot) == [name, f"the answer to {name}"])
        await until(pilot, lambda: listed(app) == [f"  {name}" for name in "dcba"])


@asynchronous
async def test_an_answer_is_picked_up_again_while_it_grows(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "one two")
    client.delay = 0.02
    async with chatting(tmp_path, client) as pilot:
        app = app_of(pilot)
        await say(pilot, "q", wait=False)
        first = app.chat.id
        await pilot.press("ctrl+n")
        await until(pilot, lambda: app.chat.id != first)
        app.post_message(app.sidebar.Chosen(first))
        await until(pilot, lambda: app.chat.id == first)
        await finished(pilot)
        assert app.transcript.views[-1].message.content == "one two"


@asynchronous
async def test_all_is_there_after_a_restart(tmp_path: Path) -> None:
    async with chatting(tmp_path) as pilot:
        await say(pilot, "hello")
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        await until(pilot, lambda: listed(app) == ["  hello"])
        await pilot.press("up")
        await until(pilot, lambda: app.editor.text == "hello")
        await pilot.press("down")
        await until(pilot, lambda: app.editor.text == "")
        (conversation,) = await app.history.ask(Store.conversations)
        app.post_message(app.sidebar.Chosen(conversation.id))
        await until(pilot, lambda: texts(pilot) == ["hello", "An *answer*."])


@asynchronous
async def test_what_another_program_adds_appears(tmp_path: Path) -> None:
    async with chatting(tmp_path) as pilot:
        chat = Chat()
        chat.put(Message("user", "elsewhere"))
        chat.change(title="elsewhere")
        with Store(tmp_path / "history.db") as store:
            store.save(chat.conversation, chat.messages.values())
        await until(pilot, lambda: listed(app_of(pilot)) == ["  elsewhere"])


@asynchronous
async def test_growing_text_is_on_disk_while_it_grows(tmp_path: Path) -> None:
    client = ScriptedClient(lambda prompt: "abc" * 10_000)
    client.delay = 0.001
    async with chatting(tmp_path, client) as pilot:
        await say(pilot, "hi", wait=False)
        app = app_of(pilot)
        await until(pilot, lambda: (g := app.session.generation(app.chat)) and g.text)
        client.gate.clear()
        generation = app.session.generation(app.chat)
        assert generation is not None
        with Store(tmp_path / "history.db") as store:

            def is_stored() -> bool:
                chat = store.load(app.chat.id)
                return bool(chat and chat.head and chat.head.content == generation.text)

            await until(pilot, is_stored)
        await pilot.press("escape")
        await finished(pilot)


@asynchronous
async def test_a_crash_of_the_engine(tmp_path: Path) -> None:
    first, second = ScriptedClient(), ScriptedClient(lambda prompt: " and more")
    engine = ScriptedEngine(first, second)
    async with chatting(tmp_path, engine=engine) as pilot:
        await say(pilot, "one")
        first.gate.clear()
        await say(pilot, "two", wait=False)
        await until(pilot, lambda: first.running)
        first.error = ConnectionFailed("the engine stopped: it was ended by SIGSEGV")
        first.gate.set()
        await finished(pilot)
        assert shown(app_of(pilot))[-1].finish_reason == "error"
        ending = app_of(pilot).transcript.views[-1].query_one(".ending", Static)
        assert "SIGSEGV" in str(ending.render())
        assert "ended unexpectedly" in notices(pilot)
        await pilot.press("ctrl+r")
        await until(pilot, lambda: texts(pilot)[-1] == " and more")
        assert engine.starts == 2


@asynchronous
async def test_an_engine_that_does_not_start_is_told_until_it_does(tmp_path: Path) -> None:
    said = "the engine did not start: it ended with code 1; it said:\nno [memory]"
    engine = ScriptedEngine(ScriptedClient(), error=EdgeLLMError(said))
    async with chatting(tmp_path, engine=engine, size=(60, 20)) as pilot:
        app = app_of(pilot)
        bar = app.query_one(StatusBar)
        await until(pilot, lambda: app.transcript.query(".placeholder"))
        welcome = app.transcript.query_one(".placeholder", Static)
        await until(pilot, lambda: said in str(welcome.render()))
        assert str(bar.render()) == "tiny   the engine did not start: it ended with code 1; …"
        assert "code 1" in notices(pilot) and "[memory]" not in notices(pilot)
        await say(pilot, "hi")
        assert "no [memory]" in str(app.transcript.query_one(".ending", Static).render())
        await until(pilot, lambda: "did not start" in str(bar.render()))
        engine.error = None
        await pilot.press("ctrl+r")
        await until(pilot, lambda: texts(pilot)[-1] == "An *answer*.")
        await until(pilot, lambda: "did not start" not in str(bar.render()))


@asynchronous
async def test_an_answer_that_could_not_begin_says_why(tmp_path: Path) -> None:
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        app.chat.change(model="broken")  # as a file that has been damaged or deleted since
        await say(pilot, "hi")
        failed = app.chat
        for _ in "at once", "when it is opened again":
            ending = app.transcript.views[-1].query_one(".ending", Static)
            await until(pilot, lambda shown=ending: "the file is broken" in str(shown.render()))
            await app.open(Chat())
            await app.open(failed)


@asynchronous
async def test_an_answer_that_dies_of_an_error_of_our_own_says_so(tmp_path: Path) -> None:
    def answer(prompt: str) -> str:
        return "fine" if "again" in prompt else str(1 / 0)

    async with chatting(tmp_path, ScriptedClient(answer)) as pilot:
        await say(pilot, "hi")
        assert shown(app_of(pilot))[-1].finish_reason == "error"
        ending = app_of(pilot).transcript.views[-1].query_one(".ending", Static)
        assert "ZeroDivisionError: division by zero" in str(ending.render())
        await say(pilot, "again")
        assert texts(pilot)[-1] == "fine"


def test_acceptance_is_in_the_status_bar() -> None:
    assert "guessed" not in str(StatusBar().render())
    bar = StatusBar()
    bar.status = Status(acceptance=0.625)
    assert "62% guessed right" in str(bar.render())


@asynchronous
async def test_a_damaged_history_is_told(tmp_path: Path) -> None:
    (tmp_path / "history.db").write_bytes(b"nonsense" * 1000)
    async with chatting(tmp_path) as pilot:
        assert "The history was damaged" in notices(pilot)
        await say(pilot, "hi")
    assert len(list(tmp_path.glob("history.damaged-*.db"))) == 1


@asynchronous
async def test_a_full_disk_is_told_once_and_nothing_is_lost_when_there_is_room_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        with monkeypatch.context() as patch:
            for method in ("save", "save_message", "say"):
                patch.setattr(Store, method, full)
            await say(pilot, "one")
            assert notices(pilot).count("database or disk is full") == 1
        await say(pilot, "two")
        await until(pilot, lambda: "written again" in notices(pilot))
        stored = await app.history.ask(Store.load, app.chat.id)
        assert stored is not None
        assert [message.content for message in stored.path()] == texts(pilot)


@asynchronous
async def test_the_first_start_offers_a_model_and_pulls_it(tmp_path: Path) -> None:
    library = ScriptedLibrary(stored=False)

    def stopped(advance: Advance, note: Note) -> None:
        while True:
            advance("tiny", 49_000_000, 98_362_432)
            time.sleep(0.05)

    def failing(advance: Advance, note: Note) -> None:
        raise DownloadError("no network")

    library.pulling = stopped
    async with chatting(tmp_path, library=library) as pilot:
        await until(pilot, lambda: isinstance(pilot.app.screen, ModelScreen))
        screen = pilot.app.screen
        stage = screen.query_one(".stage", Static)
        await until(pilot, lambda: screen.query_one(OptionList).option_count == 2)
        assert "Welcome" in str(screen.query_one(".welcome", Static).render())
        await pilot.press("enter")
        await until(pilot, lambda: "49 MB of 98 MB" in str(stage.render()))
        assert screen.query_one(ProgressBar).percentage == pytest.approx(0.498, abs=0.01)
        await pilot.press("escape")
        await until(pilot, lambda: "stopped" in str(stage.render()))
        library.pulling = failing
        await pilot.press("enter")
        await until(pilot, lambda: "no network" in str(stage.render()))
        library.pulling = lambda advance, note: None
        await pilot.press("enter")
        await until(pilot, lambda: app_of(pilot).session.known("tiny"))
        await say(pilot, "hi")


@pytest.mark.parametrize("typed", ["my.gguf", "hf:owner/repo/my.gguf"])
@asynchronous
async def test_a_model_that_is_not_listed_is_typed(
    typed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.gguf").touch()
    taken: list[str | None] = []
    async with chatting(tmp_path) as pilot:
        screen = ModelScreen(ScriptedLibrary(), None)
        await pilot.app.push_screen(screen, taken.append)
        await until(pilot, lambda: screen.query_one(OptionList).option_count == 2)
        screen.query_one(Input).value = typed
        stage = screen.query_one(".stage", Static)
        await until(pilot, lambda: "a file's path" in str(stage.render()))
        await pilot.press("enter")
        await until(pilot, lambda: taken == ["my.gguf"])


@asynchronous
async def test_nothing_else_is_chosen_during_a_download(tmp_path: Path) -> None:
    library = ScriptedLibrary()

    def endless(advance: Advance, note: Note) -> None:
        for _ in range(100):
            advance("large", 1, 1000)
            time.sleep(0.05)

    library.pulling = endless
    async with chatting(tmp_path, library=library) as pilot:
        await pilot.press("ctrl+l")
        await until(pilot, lambda: isinstance(pilot.app.screen, ModelScreen))
        screen = pilot.app.screen
        stage = screen.query_one(".stage", Static)
        await until(pilot, lambda: screen.query_one(OptionList).option_count == 2)
        await pilot.press("down", "enter")
        await until(pilot, lambda: "large: " in str(stage.render()))
        await pilot.press("up", "enter")
        await pilot.press("escape")
        await until(pilot, lambda: "stopped" in str(stage.render()))
        assert pilot.app.screen is screen
        await pilot.press("enter")
        await until(pilot, lambda: not isinstance(pilot.app.screen, ModelScreen))


@asynchronous
async def test_long_conversations_show_their_end_first(tmp_path: Path) -> None:
    chat = Chat()
    for number in range(60):
        role = "user" if number % 2 == 0 else "assistant"
        chat.put(Message(role, str(number), parent=chat.conversation.head))  # type: ignore[arg-type]
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        await app.open(chat)
        first = int(texts(pilot)[0])
        assert 30 < first and texts(pilot)[-1] == "59"
        app.query_one("#earlier", Button).press()
        await until(pilot, lambda: int(texts(pilot)[0]) < first)


def chat_of(texts: str) -> Chat:
    """A chat of messages of the user, each a letter."""
    chat = Chat()
    for text in texts:
        chat.put(Message("user", text, parent=chat.conversation.head))
    return chat


@asynchronous
async def test_a_message_is_deleted_while_the_chat_is_drawn(tmp_path: Path) -> None:
    chat = chat_of("abcd")
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        drawing = asyncio.create_task(app.open(chat))
        while not app.transcript.views:
            await asyncio.sleep(0)
        assert chat.head is not None
        chat.remove(chat.head)
        await drawing
        await app.refresh_chat()
        assert texts(pilot) == ["a", "b", "c"]


@asynchronous
async def test_the_program_ends_while_all_is_drawn(tmp_path: Path) -> None:
    chat = chat_of("abcd")
    async with chatting(tmp_path) as pilot:
        app = app_of(pilot)
        app.desk.show(chat)
        app.exit()
        await app.transcript.show(chat, app.session)
        await app.sidebar.remove_children()
        await app.listing.draw()


@asynchronous
async def test_loading_shows_how_far_it_is_and_can_be_stopped(tmp_path: Path) -> None:
    client = ScriptedClient()
    client.loads.clear()
    async with chatting(tmp_path, client) as pilot:
        app = app_of(pilot)
        await say(pilot, "/model large")
        status = app.query_one(StatusBar)
        await until(pilot, lambda: "compiling kernels: 3 of 7" in str(status.render()))
        await pilot.press("escape")
        await until(pilot, lambda: "you stopped it" in notices(pilot))
        assert "compiling" not in str(status.render())
        assert app.chat.conversation.model == "tiny"
        client.loads.set()
        await say(pilot, "/model large")
        await until(pilot, lambda: app.chat.conversation.model == "large")


@asynchronous
async def test_a_short_conversation_begins_at_the_top(tmp_path: Path) -> None:
    async with chatting(tmp_path, size=(80, 40)) as pilot:
        await say(pilot, "hi")
        shown = app_of(pilot).transcript
        assert shown.views[0].region.y == shown.region.y + 1


def test_hints_name_the_keys_of_the_actions() -> None:
    said = "\n".join((message_view.AGAIN, *message_view.ENDINGS.values(), *transcript.WELCOMES))
    known = {action.shown_key for action in ACTIONS}
    named = set(re.findall(r"Ctrl\+[A-Z]|F\d", said))
    assert named == {"Ctrl+G", "Ctrl+R", "Ctrl+L", "Ctrl+J", "F1"}
    assert named - {"Ctrl+J"} <= known


@asynchronous
async def test_without_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with chatting(tmp_path) as pilot:
        await say(pilot, "hi")
        drawn = pilot.app.export_screenshot()
    used = re.findall(r"(?:fill: |fill=\")#([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2})", drawn)
    window = {("ff", "5f", "57"), ("fe", "bc", "2e"), ("28", "c8", "40")}  # the frame's own
    channels = [[int(channel, 16) for channel in colour] for colour in {*used} - window]
    assert channels and all(max(colour) - min(colour) < 8 for colour in channels)


@asynchronous
async def test_every_theme_draws(tmp_path: Path) -> None:
    async with chatting(tmp_path, size=(60, 20)) as pilot:
        await say(pilot, "hi")
        drawn = set()
        for theme in THEMES:
            pilot.app.theme = theme.name
            await until(pilot, lambda: pilot.app.export_screenshot() not in drawn)
            drawn.add(pilot.app.export_screenshot())
        assert all("answer" in picture for picture in drawn)

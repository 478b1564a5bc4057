"""Thoughts apart from answers: read, written, gone on from, shown, kept."""

import asyncio
import re
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from textual.widgets import Static

from edgellm.tui.app import ChatApp
from edgellm.tui.chat import Message
from edgellm.tui.history import Store
from edgellm.tui.reading import Begun, Manner, Reading, begun_by, manner_of
from edgellm.types import SamplingParams
from tests.tui.piloted import (
    app_of,
    asked,
    asynchronous,
    chatting,
    finished,
    notices,
    say,
    shown,
    until,
)
from tests.tui.scripted import END, ScriptedClient

THOUGHT = "<think>\nhm,\nso\n</think>\n\nyes"


def thinking() -> ScriptedClient:
    client = ScriptedClient(lambda prompt: THOUGHT)
    client.template = "<think></think>"
    return client


def manner(prompt: str = "<assistant>", template: str = "<think></think>") -> Manner:
    client = ScriptedClient()
    client.template = template
    return asyncio.run(manner_of(client, "tiny", SamplingParams(), [*map(ord, prompt)]))


def begun(message: Message, manner: Manner) -> Begun:
    return asyncio.run(begun_by(ScriptedClient(), message, "tiny", manner))


def test_reading_piece_by_piece() -> None:
    reading = Reading(manner())
    assert reading.seconds is None and not reading.is_thinking
    for piece in ("<thi", "nk>\nhm", ",\nso"):
        reading.push(piece)
    assert (reading.thoughts, reading.text, reading.is_thinking) == ("hm,\nso", "", True)
    for piece in ("\n</thi", "nk>\n\ny", "es"):
        reading.push(piece)
    assert (reading.thoughts, reading.text, reading.is_thinking) == ("hm,\nso", "yes", False)
    assert reading.seconds is not None and reading.seconds >= 0


def test_thoughts_that_the_prompt_has_begun() -> None:
    assert manner("…<think>\n").read("hm</think>yes") == ("yes", "hm")
    assert manner().read("hm</think>yes") == ("hm</think>yes", "")


def test_other_models_text_is_left_as_it_is() -> None:
    assert manner(template="{{ messages }}").read(THOUGHT) == (THOUGHT, "")


WORDS = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs"])).map(str.strip)


@given(thoughts=WORDS, content=WORDS, is_open=st.booleans())
def test_what_is_written_is_read_again(thoughts: str, content: str, is_open: bool) -> None:
    known = manner("<think>" if is_open else "<assistant>")
    message = Message("assistant", content, thoughts=thoughts)
    assert known.read(known.written(message)) == (content, thoughts)


def test_an_answer_is_gone_on_from_its_own_tokens() -> None:
    ids = (*map(ord, THOUGHT), END)
    message = Message("assistant", "yes", model="tiny", token_ids=ids, thoughts="hm,\nso")
    assert begun(message, manner()) == Begun(ids[:-1], THOUGHT)
    half = Message("assistant", "", model="tiny", token_ids=ids[:12], thoughts="hm,")
    assert begun(half, manner()) == Begun(ids[:12], THOUGHT[:12])


@pytest.mark.parametrize(
    ("prompt", "text"),
    [("<assistant>", "<think>\nhm\n</think>\n\nno"), ("<think>", "hm\n</think>\n\nno")],
)
def test_an_edited_answer_is_gone_on_from_its_text(prompt: str, text: str) -> None:
    message = Message("assistant", "no", model="tiny", thoughts="hm")
    assert begun(message, manner(prompt)) == Begun((*map(ord, text),), text)


def line(app: ChatApp) -> str:
    return str(app.transcript.views[-1].thoughts.query_one(".line", Static).render())


@asynchronous
async def test_thoughts_are_folded_kept_and_offered_to_the_template(tmp_path: Path) -> None:
    client = thinking()
    async with chatting(tmp_path, client) as pilot:
        app = app_of(pilot)
        await say(pilot, "q")
        answer = shown(app)[-1]
        assert (answer.content, answer.thoughts) == ("yes", "hm,\nso")
        assert "".join(map(chr, answer.token_ids[:-1])) == THOUGHT
        assert re.match(r"▸ Thought for \d", line(app))
        body = app.transcript.views[-1].thoughts.query_one("Answer")
        assert not body.display
        await pilot.press("alt+h")
        await until(pilot, lambda: body.display and line(app).startswith("▾"))
        await pilot.press("alt+h")
        await until(pilot, lambda: not body.display)
        await say(pilot, "/copy")
        await until(pilot, lambda: app.clipboard == "yes")
        stored = await app.history.ask(Store.load, app.chat.id)
        assert stored is not None and stored.path()[-1] == answer
        await say(pilot, "more")
        assert [m.get("reasoning_content") for m in client.asked] == [None, "hm,\nso", None]
        assert client.asked[1]["content"] == "yes"
        await pilot.press("f4")
        await asked(pilot, "another question")
        await finished(pilot)


@asynchronous
async def test_thoughts_that_were_stopped_are_gone_on_with(tmp_path: Path) -> None:
    client = thinking()
    client.answer = lambda prompt: THOUGHT[12:] if prompt.endswith("hm,\n") else THOUGHT
    client.pause_at = 12
    async with chatting(tmp_path, client) as pilot:
        app = app_of(pilot)
        await say(pilot, "/thoughts")
        await until(pilot, lambda: "no thoughts here" in notices(pilot))
        await say(pilot, "q", wait=False)
        await until(pilot, lambda: line(app).startswith("▸ Thinking") and "hm," in line(app))
        await pilot.press("escape")
        await finished(pilot)
        answer = shown(app)[-1]
        assert (answer.content, answer.thoughts.strip()) == ("", "hm,")
        assert answer.thought_seconds is not None
        client.pause_at = None
        await pilot.press("ctrl+g")
        await until(pilot, lambda: shown(app)[-1].content == "yes")
        await finished(pilot)
        assert shown(app)[-1].thoughts == "hm,\nso"
        assert (shown(app)[-1].thought_seconds or 0) >= answer.thought_seconds

"""Conversations of other programs."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from edgellm.errors import RequestError
from edgellm.tui.chat import Chat
from edgellm.tui.export import read_chats
from edgellm.tui.foreign import read_foreign
from tests.odd_values import ODD, changed, places


def chatgpt() -> dict[str, Any]:
    def node(role: str, text: str, parent: str | None, created: float) -> dict[str, Any]:
        return {
            "message": {
                "author": {"role": role},
                "content": {"content_type": "text", "parts": [text, {"asset_pointer": "x"}]},
                "create_time": created,
                "metadata": {"model_slug": "gpt-4o"} if role == "assistant" else {},
            },
            "parent": parent,
        }

    return {
        "title": "Trains",
        "current_node": "d",
        "mapping": {
            "root": {"message": None, "parent": None, "children": ["s"]},
            "s": node("system", "", "root", 1.0),
            "a": node("user", "question", "s", 2.0),
            "b": node("assistant", "first", "a", 3.0),
            "t": node("tool", "searched", "a", 3.5),
            "d": node("assistant", "second", "t", 4.0),
        },
    }


def open_webui() -> dict[str, Any]:
    return {
        "id": "1",
        "chat": {
            "title": "Trains",
            "history": {
                "currentId": "d",
                "messages": {
                    "a": {"id": "a", "parentId": None, "role": "user", "content": "question"},
                    "b": {"id": "b", "parentId": "a", "role": "assistant", "content": "first"},
                    "d": {
                        "id": "d",
                        "parentId": "a",
                        "role": "assistant",
                        "content": "second",
                        "timestamp": 4_000_000_000,
                    },
                },
            },
        },
    }


def lm_studio() -> dict[str, Any]:
    def text(said: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": said}]

    def answer(said: str, *before: dict[str, Any]) -> dict[str, Any]:
        steps = [*before, {"type": "contentBlock", "content": text(said)}]
        return {"type": "multiStep", "role": "assistant", "steps": steps}

    thought = {"type": "contentBlock", "style": {"type": "thinking"}, "content": text("hm")}
    question = {"type": "singleStep", "role": "user", "content": text("question")}
    return {
        "name": "Trains",
        "systemPrompt": "be brief",
        "messages": [
            {"versions": [question], "currentlySelected": 0},
            {"versions": [answer("first"), answer("second", thought)], "currentlySelected": 1},
        ],
    }


def only(body: Any) -> Chat:
    (chat,) = read_chats(json.dumps(body))
    return chat


@pytest.mark.parametrize("body", [chatgpt(), open_webui(), lm_studio()])
def test_branches_and_the_one_that_was_shown(body: dict[str, Any]) -> None:
    chat = only(body)
    assert chat.conversation.title == "Trains"
    assert [message.content for message in chat.path()] == ["question", "second"]
    answers = [message.content for message in chat.siblings(chat.path()[-1])]
    assert sorted(answers) == ["first", "second"]


def test_what_else_is_kept() -> None:
    assert [m.model for m in only(chatgpt()).path()] == [None, "gpt-4o"]
    chat = only(lm_studio())
    assert chat.conversation.system == "be brief"
    assert [message.thoughts for message in chat.path()] == ["", "hm"]


@pytest.mark.parametrize("odd", [10**400, -1, 0, 1.7e12, float("nan"), float("inf"), "1", None])
def test_what_is_no_time_is_now(odd: Any) -> None:
    body, begun = chatgpt(), time.time()
    body["mapping"]["a"]["message"]["create_time"] = odd
    asked = only(body).path()[0]
    assert asked.content == "question" and begun <= asked.created < begun + 60


def test_a_file_of_many() -> None:
    chats = read_chats(json.dumps([chatgpt(), {**chatgpt(), "title": "Birds"}]))
    assert [chat.conversation.title for chat in chats] == ["Trains", "Birds"]


def test_circles_end() -> None:
    body = chatgpt()
    body["mapping"]["a"]["parent"] = "t"
    body["mapping"]["t"]["parent"] = "a"
    with pytest.raises(RequestError, match="circle"):
        read_chats(json.dumps(body))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
)


@given(st.sampled_from([chatgpt, open_webui, lm_studio]), st.data())
def test_no_value_in_any_place_breaks_it(make: Any, data: st.DataObject) -> None:
    body = make()
    place = data.draw(st.sampled_from(list(places(body))))
    body = changed(body, place, data.draw(JSON | st.sampled_from(ODD)))
    for chat in read_foreign(body) or []:
        assert isinstance(chat.conversation.title, str)

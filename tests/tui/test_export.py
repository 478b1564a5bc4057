"""Conversations out and in again."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from edgellm.errors import RequestError
from edgellm.tui.chat import Chat, Message
from edgellm.tui.export import read_chats, to_json, to_markdown


def from_json(text: str) -> Chat:
    (chat,) = read_chats(text)
    return chat


def branched() -> Chat:
    chat = Chat()
    question = Message("user", "q\u200f", created=1)
    one = Message("assistant", "1", parent=question.id, token_ids=(5,), created=2)
    two = replace(one, id=one.id + 1, content="2", created=3)
    for message in (question, one, two):
        chat.put(message)
    chat.change(title="t", system="s\ns", settings={"top_k": 3}, model="tiny")
    return chat


def test_json_keeps_every_branch() -> None:
    chat = branched()
    back = from_json(to_json(chat))
    assert back.id != chat.id and not set(back.messages) & set(chat.messages)
    assert [m.content for m in back.path()] == ["q\u200f", "2"]
    assert [m.content for m in back.siblings(back.path()[1])] == ["1", "2"]
    kept = ("title", "system", "settings", "model")
    assert all(
        getattr(back.conversation, name) == getattr(chat.conversation, name) for name in kept
    )


def test_markdown_shows_the_branch() -> None:
    chat = branched()
    assert to_markdown(chat) == "# t\n\n> s\n> s\n\n## You\n\nq\u200f\n\n## no model\n\n2\n"


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(st.data())
def test_any_conversation_comes_back(data: st.DataObject) -> None:
    chat = Chat()
    for _ in range(data.draw(st.integers(0, 6))):
        role: Any = data.draw(st.sampled_from(["user", "assistant"]))
        chat.put(
            Message(
                role,
                data.draw(TEXT),
                parent=data.draw(st.sampled_from([None, *chat.messages])),
                finish_reason=data.draw(st.sampled_from([None, "stop", "abort"])),
                token_ids=tuple(data.draw(st.lists(st.integers(0, 2**31)))),
                first_token=data.draw(st.none() | st.floats(0, 1e6)),
                thoughts=data.draw(TEXT),
                thought_seconds=data.draw(st.none() | st.floats(0, 1e6)),
            )
        )
    chat.change(title=data.draw(TEXT) or "t", system=data.draw(TEXT), settings={"top_k": 3})
    back = from_json(to_json(chat))
    for one, other in zip(chat.messages.values(), back.messages.values(), strict=True):
        assert replace(one, id=0, parent=None) == replace(other, id=0, parent=None)
    assert [m.content for m in back.path()] == [m.content for m in chat.path()]
    kept = {"id": 0, "head": None, "created": 0.0, "updated": 0.0}
    assert replace(chat.conversation, **kept) == replace(back.conversation, **kept)


def test_files_of_the_first_version_are_read() -> None:
    body = json.loads(to_json(branched()))
    body["version"] = 1
    for message in body["messages"]:
        del message["thoughts"], message["thought_seconds"]
    assert [m.content for m in from_json(json.dumps(body)).path()] == ["q\u200f", "2"]


def test_thoughts_are_quoted_in_markdown() -> None:
    chat = Chat()
    chat.put(Message("assistant", "yes", thoughts="hm,\n\nso", model="tiny"))
    assert "## tiny\n\n> **Thoughts**\n>\n> hm,\n>\n> so\n\nyes\n" in to_markdown(chat)


def test_openai_messages_are_taken() -> None:
    messages = [
        {"role": "system", "content": "be"},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": "ho", "reasoning_content": "hm"},
    ]
    for text in (json.dumps(messages), json.dumps({"messages": messages})):
        chat = from_json(text)
        assert [(m.content, m.thoughts) for m in chat.path()] == [("hi", ""), ("ho", "hm")]
        assert (chat.conversation.system, chat.conversation.title) == ("be", "hi")


def test_text_that_is_none_is_mended() -> None:
    """Half of a surrogate pair, which JSON may hold, and neither a file nor a terminal."""
    chat = from_json(
        r"""{"title": "a\ud800", "messages": [{"role": "user", "content": "\udc00"}]}"""
    )
    assert (chat.conversation.title, chat.path()[0].content) == ("a\ufffd", "\ufffd")
    assert from_json(r"""[{"role": "user", "content": "\ud83d\ude00"}]""").path()[0].content == "😀"


def changed(**changes: Any) -> str:
    body = json.loads(to_json(branched()))
    body["messages"][1].update(changes)
    return json.dumps(body)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not a JSON file"),
        ("[" * 100_000, "not a JSON file"),
        ("{}", "neither"),
        ("[]", "neither"),
        ('[{"role": "tool", "content": "x"}]', "neither"),
        ('{"format": "edgellm-chat", "version": 99}', "version 99"),
        ('{"format": "edgellm-chat", "version": 1}', "no conversation"),
        (changed(content=5), "content '5'"),
        (changed(role="king"), "unknown role"),
        (changed(prompt_tokens=2**63), "prompt_tokens '9223372036854775808'"),
        (changed(created=10**400), "created '1000"),
        (changed(first_token=float("nan")), "first_token 'nan'"),
        (changed(thought_seconds=float("inf")), "thought_seconds 'inf'"),
        (changed(surplus=1), "other fields"),
    ],
)
def test_bad_files_are_refused(text: str, says: str) -> None:
    with pytest.raises(RequestError, match=says):
        from_json(text)


def test_circles_are_refused() -> None:
    body = json.loads(to_json(branched()))
    first, second, _ = body["messages"]
    first["parent"] = second["id"]
    with pytest.raises(RequestError, match="circle"):
        from_json(json.dumps(body))


@given(st.recursive(st.none() | st.integers() | st.text(), st.lists))
def test_no_json_breaks_it(value: Any) -> None:
    body = {"format": "edgellm-chat", "version": 1, "conversation": {}, "messages": value}
    try:
        from_json(json.dumps(body))
    except RequestError:
        pass

"""The tree of messages: whatever is done, the branch that is shown is a path of it."""

from hypothesis import given, strategies as st

from edgellm.tui.chat import UNTITLED, Chat, Conversation, Message, as_openai, model_name, title_of


def test_branches() -> None:
    chat = Chat()
    question = Message("user", "q", created=1)
    one = Message("assistant", "1", parent=question.id, created=2)
    two = Message("assistant", "2", parent=question.id, created=3)
    more = Message("user", "more", parent=one.id, created=4)
    for message in (question, one, two, more):
        chat.put(message)
    assert [m.content for m in chat.path()] == ["q", "1", "more"]
    assert chat.siblings(one) == [one, two]
    chat.show_branch(two)
    assert [m.content for m in chat.path()] == ["q", "2"]
    chat.show_branch(question)  # the newest leaf below it
    assert chat.head == two
    assert sorted(chat.remove(one)) == sorted([one.id, more.id])
    assert chat.head == two and chat.siblings(two) == [two]


def test_a_head_that_is_missing_is_replaced() -> None:
    message = Message("user", "hi")
    chat = Chat(Conversation(head=12345), [message])
    assert chat.head == message


@given(st.data())
def test_the_path_is_always_one(data: st.DataObject) -> None:
    chat = Chat()
    for _ in range(data.draw(st.integers(0, 20))):
        known = [None, *chat.messages]
        if len(known) > 1 and data.draw(st.booleans()):
            chat.remove(chat.messages[data.draw(st.sampled_from(known[1:]))])
        else:
            chat.put(Message("user", parent=data.draw(st.sampled_from(known))))
        path = chat.path()
        assert (path[-1] if path else None) == chat.head
        assert [m.parent for m in path] == [None, *(m.id for m in path)][: len(path)]


def test_messages_for_the_template() -> None:
    said = [Message("user", "hi")]
    assert as_openai("", said) == [{"role": "user", "content": "hi"}]
    assert as_openai("be", said)[0] == {"role": "system", "content": "be"}


def test_titles_and_names() -> None:
    assert title_of("\n  hello there \nmore") == "hello there"
    assert title_of(" \n ") == UNTITLED
    long = title_of("word " * 40)
    assert len(long) < 50 and long.endswith("word…")
    assert model_name("/a/b.gguf") == "b" and model_name("tiny") == "tiny"

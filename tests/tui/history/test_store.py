"""The history on disk: what is written is there again, whatever happens to the program."""

import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.tui.chat import Chat, Conversation, Message
from edgellm.tui.history import HistoryError, Store
from edgellm.tui.history.schema import MIGRATIONS

WORDS = "שלום Käse 東京タワー \u202eabc"


def chat_of(*texts: str, title: str = "a title") -> Chat:
    """A conversation of questions and answers in turn."""
    chat = Chat(Conversation(title=title, settings={"temperature": 0.5}))
    for number, text in enumerate(texts):
        role = "user" if number % 2 == 0 else "assistant"
        chat.put(Message(role, text, parent=chat.conversation.head, token_ids=(1, 2)))  # type: ignore[arg-type]
    return chat


def save(store: Store, chat: Chat) -> None:
    store.save(chat.conversation, chat.messages.values())


def test_a_conversation_comes_back_whole(tmp_path: Path) -> None:
    chat = chat_of("hi", WORDS, "more", "x" * 100_000)
    with Store(tmp_path / "h.db") as store:
        save(store, chat)
    with Store(tmp_path / "h.db") as store:
        loaded = store.load(chat.id)
        assert loaded is not None
        assert loaded.conversation == chat.conversation and loaded.messages == chat.messages
        assert store.load(1) is None
        store.remove(chat.id)
        assert store.load(chat.id) is None and store.conversations("Käse") == []


def test_files_are_private(tmp_path: Path) -> None:
    with Store(tmp_path / "new" / "h.db") as store:
        save(store, chat_of("hi"))
        modes = {path.name: path.stat().st_mode & 0o777 for path in store.path.parent.iterdir()}
    assert set(modes) >= {"h.db", "h.db-wal"} and set(modes.values()) == {0o600}


def test_search_finds_pieces_of_any_script(tmp_path: Path) -> None:
    with Store(tmp_path / "h.db") as store:
        one, two = chat_of("hi", WORDS, title="one"), chat_of("100%_sure", title="two")
        save(store, one)
        save(store, two)
        found = {
            query: [c.title for c in store.conversations(query)]
            for query in ("1\x0000%", "京タワ", "äse", "שלום", "100%", "wo", "%", 'a"b*', "absent")
        }
    assert found == {
        "1\x0000%": ["two"],
        "京タワ": ["one"],
        "äse": ["one"],
        "שלום": ["one"],
        "100%": ["two"],
        "wo": ["two"],
        "%": [],
        'a"b*': [],
        "absent": [],
    }


def test_growing_text_is_found_once_it_is_finished(tmp_path: Path) -> None:
    chat = chat_of("question")
    answer = Message("assistant", "begun", parent=chat.conversation.head, finish_reason=None)
    chat.put(answer)
    with Store(tmp_path / "h.db") as store:
        save(store, chat)
        assert store.conversations("begun") == []
        store.save_message(chat.id, replace(answer, content="begun well", finish_reason="stop"))
        store.save_message(chat.id, replace(answer, content="all new", finish_reason="stop"))
        assert store.conversations("begun") == [] and len(store.conversations("all new")) == 1
        store.remove_messages([answer.id])
        assert store.conversations("all new") == []
        check = "INSERT INTO message_text (message_text) VALUES ('integrity-check')"
        store._db.execute(check)  # raises when the index and the messages differ


def test_order_and_archive(tmp_path: Path) -> None:
    with Store(tmp_path / "h.db") as store:
        for title, changes in (
            ("old", {"updated": 1.0}),
            ("new", {"updated": 2.0}),
            ("pinned", {"updated": 0.0, "pinned": True}),
            ("gone", {"archived": True}),
        ):
            store.save(replace(Conversation(title=title), **changes))  # type: ignore[arg-type]
        assert [c.title for c in store.conversations()] == ["pinned", "new", "old"]
        assert [c.title for c in store.conversations(archived=True)] == ["gone"]


def test_what_was_typed_is_kept_once(tmp_path: Path) -> None:
    with Store(tmp_path / "h.db") as store:
        for text in ("a", "b", "a"):
            store.say(text)
        assert store.said() == ["b", "a"]


def test_a_deleted_conversation_is_not_written_to(tmp_path: Path) -> None:
    with Store(tmp_path / "h.db") as store:
        store.save_message(7, Message("assistant", "late"))
        assert store.load(7) is None


WRITER = """
import sys
from pathlib import Path
from edgellm.tui.chat import Chat, Message
from edgellm.tui.history import Store

chat = Chat()
chat.put(Message("assistant", finish_reason=None, id=1))
with Store(Path(sys.argv[1])) as store:
    store.save(chat.conversation, chat.messages.values())
    for count in range(1, 1000000):
        store.save_message(chat.id, Message("assistant", "x" * count, finish_reason=None, id=1))
        print(count, flush=True)
"""


def test_a_killed_program_loses_nothing_it_has_written(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WRITER, str(tmp_path / "h.db")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    written = [int(process.stdout.readline()) for _ in range(20)]
    process.send_signal(signal.SIGKILL)
    written += [int(line) for line in process.stdout]
    process.wait()
    process.stdout.close()
    with Store(tmp_path / "h.db") as store:
        assert store.moved_aside is None
        (conversation,) = store.conversations()
        chat = store.load(conversation.id)
    assert chat is not None and len(chat.messages[1].content) >= written[-1]


def test_two_programs_write_at_once(tmp_path: Path) -> None:
    failures: list[BaseException] = []

    def write(number: int) -> None:
        try:
            with Store(tmp_path / "h.db") as store:
                for count in range(20):
                    save(store, chat_of(f"{number} {count}", title=f"{number}"))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with Store(tmp_path / "h.db") as store:
        assert not failures and len(store.conversations()) == 60


def test_others_changes_are_noticed(tmp_path: Path) -> None:
    with Store(tmp_path / "h.db") as one, Store(tmp_path / "h.db") as two:
        before = one.version()
        save(two, chat_of("hi"))
        assert one.version() != before and len(one.conversations()) == 1


@pytest.mark.parametrize("damage", ["no database", "a torn page"])
def test_a_damaged_file_is_moved_aside(tmp_path: Path, damage: str) -> None:
    path = tmp_path / "h.db"
    if damage == "no database":
        path.write_bytes(b"no database at all" * 1000)
    else:
        with Store(path) as store:
            save(store, chat_of(*map(str, range(400))))
            store._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        raw = bytearray(path.read_bytes())
        raw[4096 * 3 : -4096] = os.urandom(len(raw) - 4096 * 4)
        path.write_bytes(raw)
    before = path.read_bytes()
    with Store(path) as store:
        assert store.moved_aside is not None and store.moved_aside.read_bytes() == before
        save(store, chat_of("hi"))
        assert len(store.conversations()) == 1


def test_a_newer_history_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with Store(path) as store:
        store._db.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(HistoryError, match="newer edgellm"):
        Store(path)
    assert [file.name for file in tmp_path.glob("*damaged*")] == []


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(HistoryError, match="cannot be opened"):
        Store(tmp_path / "file" / "h.db")


def test_a_locked_file_is_not_taken_for_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgellm.tui.history.store._PATIENCE", 0.2)
    path = tmp_path / "h.db"
    Store(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    begun = time.monotonic()
    with pytest.raises(HistoryError, match="locked"):
        Store(path)
    assert time.monotonic() - begun < 5 and path.exists()
    other.close()


def test_a_write_that_fails_leaves_room_for_the_next(tmp_path: Path) -> None:
    def no_commits(action: int, what: str | None, *_: object) -> int:
        is_commit = action == sqlite3.SQLITE_TRANSACTION and what == "COMMIT"
        return sqlite3.SQLITE_DENY if is_commit else sqlite3.SQLITE_OK

    with Store(tmp_path / "h.db") as store:
        store._db.set_authorizer(no_commits)
        with pytest.raises(sqlite3.DatabaseError, match="not authorized"):
            save(store, chat_of("x", title="first"))
        store._db.set_authorizer(None)
        save(store, chat_of("x", title="second"))
        assert [c.title for c in store.conversations()] == ["second"]


@settings(max_examples=15, deadline=None)
@given(text=st.text(), query=st.text(min_size=1, max_size=10))
def test_no_text_breaks_the_search(
    tmp_path_factory: pytest.TempPathFactory, text: str, query: str
) -> None:
    clean = text.encode("utf-8", "replace").decode("utf-8", "replace")
    with Store(tmp_path_factory.mktemp("h") / "h.db") as store:
        save(store, chat_of(clean))
        store.conversations(query.encode("utf-8", "replace").decode("utf-8", "replace"))


def test_a_history_of_the_first_version_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "h.db"
    with sqlite3.connect(path) as old:
        old.executescript(f"BEGIN; {MIGRATIONS[0]} PRAGMA user_version = 1; COMMIT;")
        old.execute("INSERT INTO conversation VALUES (1, 't', NULL, '', '{}', 0, 0, 1, 1, 2)")
        old.execute(
            "INSERT INTO message VALUES (2, 1, NULL, 'user', 'old text', 1, 'stop', NULL, '[]', 0,"
            " NULL, NULL)"
        )
    old.close()
    with Store(path) as store:
        chat = store.load(1)
        assert chat is not None and [m.content for m in chat.path()] == ["old text"]
        store.save(chat.conversation, [replace(chat.path()[0], thoughts="hm", content="new text")])
        assert store.load(1) is not None and len(store.conversations("new text")) == 1
        assert store.conversations("old text") == []

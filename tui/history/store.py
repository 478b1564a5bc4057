"""The history as a SQLite file: conversations, their messages, what was typed.

One Store belongs to one thread; any number of programs may have the file open. Knows nothing of
asyncio or screens.
"""

import json
import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, fields
from pathlib import Path
from typing import Any, Self

from filelock import FileLock

from edgellm.errors import EdgeLLMError
from edgellm.tui.chat import Chat, Conversation, Message
from edgellm.tui.history.schema import MIGRATIONS

_PATIENCE = 10.0  # seconds to wait for another program's write
_BESIDE = ("", "-wal", "-shm")  # the files of one database
_MAX_SAID = 1000

_CONVERSATION = [field.name for field in fields(Conversation)]
_MESSAGE = [field.name for field in fields(Message)]


class HistoryError(EdgeLLMError):
    """The history cannot be used."""


class Store:
    """An open history. moved_aside: where a damaged file now is, for the user to be told."""

    def __init__(self, path: Path) -> None:
        """HistoryError when the folder cannot be written, or a newer program made the file."""
        self.path = path
        self.moved_aside: Path | None = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            # Two programs must not both decide that the file is damaged.
            with FileLock(path.with_name(path.name + ".lock"), timeout=_PATIENCE, mode=0o600):
                try:
                    self._db = _open(path)
                except sqlite3.DatabaseError as error:
                    if isinstance(error, sqlite3.OperationalError):
                        raise  # a lock, a full disk: the file is not to blame
                    self.moved_aside = _move_aside(path)
                    self._db = _open(path)
        except (OSError, sqlite3.Error) as error:
            raise HistoryError(f"{path}: the history cannot be opened: {error}") from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()

    def version(self) -> int:
        """A number that changes when another program has written."""
        version: int = self._db.execute("PRAGMA data_version").fetchone()[0]
        return version

    def conversations(self, query: str = "", archived: bool = False) -> list[Conversation]:
        """Those whose title or messages hold the query: pinned ones first, then the newest."""
        sql = f"SELECT {', '.join(_CONVERSATION)} FROM conversation WHERE archived = ?"
        arguments: list[Any] = [archived]
        query = query.replace("\0", "")  # which would end the text that SQLite reads
        if query:
            sql += " AND (title LIKE ? ESCAPE '\\'"
            arguments.append(f"%{_escaped(query)}%")
            if len(query) >= 3:  # shorter ones have no trigram
                sql += """ OR id IN (SELECT conversation FROM message WHERE id IN
                    (SELECT rowid FROM message_text WHERE message_text MATCH ?))"""
                arguments.append('"' + query.replace('"', '""') + '"')
            sql += ")"
        rows = self._db.execute(sql + " ORDER BY pinned DESC, updated DESC, id", arguments)
        return [_conversation(row) for row in rows]

    def load(self, conversation: int) -> Chat | None:
        """A conversation with all of its messages; None when it is gone."""
        row = self._db.execute(
            f"SELECT {', '.join(_CONVERSATION)} FROM conversation WHERE id = ?", (conversation,)
        ).fetchone()
        if row is None:
            return None
        rows = self._db.execute(
            f"SELECT {', '.join(_MESSAGE)} FROM message WHERE conversation = ?", (conversation,)
        )
        return Chat(_conversation(row), map(_message, rows))

    def save(self, conversation: Conversation, messages: Iterable[Message] = ()) -> None:
        """Writes a conversation and those of its messages that are new or have changed."""
        with self._writing():
            _upsert(self._db, "conversation", _CONVERSATION, [_conversation_row(conversation)])
            rows = [(*_message_row(message), conversation.id) for message in messages]
            _upsert(self._db, "message", [*_MESSAGE, "conversation"], rows)

    def save_message(self, conversation: int, message: Message) -> None:
        """Writes one message of a conversation that is there; nothing when it has been deleted."""
        with self._writing(), suppress(sqlite3.IntegrityError):
            row = (*_message_row(message), conversation)
            _upsert(self._db, "message", [*_MESSAGE, "conversation"], [row])

    def remove(self, conversation: int) -> None:
        """Deletes a conversation with its messages."""
        with self._writing():
            self._db.execute("DELETE FROM conversation WHERE id = ?", (conversation,))

    def remove_messages(self, messages: Iterable[int]) -> None:
        with self._writing():
            ids = [(message,) for message in messages]
            self._db.executemany("DELETE FROM message WHERE id = ?", ids)

    def said(self) -> list[str]:
        """What was typed into the prompt, oldest first."""
        return [row[0] for row in self._db.execute("SELECT text FROM said ORDER BY id")]

    def say(self, text: str) -> None:
        """Remembers a prompt as the newest."""
        with self._writing():
            self._db.execute("DELETE FROM said WHERE text = ?", (text,))
            self._db.execute("INSERT INTO said (text) VALUES (?)", (text,))
            newest = "SELECT id FROM said ORDER BY id DESC LIMIT ?"
            self._db.execute(f"DELETE FROM said WHERE id NOT IN ({newest})", (_MAX_SAID,))

    def _writing(self) -> "_Transaction":
        return _Transaction(self._db)


class _Transaction:
    """Takes the write lock at once: one that reads first could not wait for it later."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db

    def __enter__(self) -> None:
        self._db.execute("BEGIN IMMEDIATE")

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self._db.execute("COMMIT")
        finally:
            if self._db.in_transaction:  # SQLite may have ended it by itself
                self._db.execute("ROLLBACK")


def _open(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    db = sqlite3.connect(path, timeout=_PATIENCE, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA foreign_keys = ON")
        if (found := db.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
            raise sqlite3.DatabaseError(found)
        _migrate(db, path)
    except BaseException:
        db.close()
        raise
    return db


def _migrate(db: sqlite3.Connection, path: Path) -> None:
    version = db.execute("PRAGMA user_version").fetchone()[0]
    if version > len(MIGRATIONS):
        raise HistoryError(
            f"{path}: made by a newer edgellm (version {version}, this one knows "
            f"{len(MIGRATIONS)}): install that one, or set EDGELLM_HOME to another folder"
        )
    for number, step in enumerate(MIGRATIONS[version:], version + 1):
        db.executescript(f"BEGIN IMMEDIATE; {step} PRAGMA user_version = {number}; COMMIT;")


def _move_aside(path: Path) -> Path:
    stamp = time.strftime("%Y%m%d-%H%M%S")
    aside = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    for end in _BESIDE:
        with suppress(FileNotFoundError):
            os.rename(f"{path}{end}", f"{aside}{end}")
    return aside


def _upsert(
    db: sqlite3.Connection, table: str, columns: list[str], rows: list[tuple[Any, ...]]
) -> None:
    changes = ", ".join(f"{name} = excluded.{name}" for name in columns if name != "id")
    places = ", ".join("?" * len(columns))
    db.executemany(
        f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})"
        f" ON CONFLICT (id) DO UPDATE SET {changes}",
        rows,
    )


def _conversation_row(conversation: Conversation) -> tuple[Any, ...]:
    row = dict(zip(_CONVERSATION, astuple(conversation), strict=True))
    return tuple({**row, "settings": json.dumps(dict(conversation.settings))}.values())


def _conversation(row: tuple[Any, ...]) -> Conversation:
    found = dict(zip(_CONVERSATION, row, strict=True))
    flags = {name: bool(found[name]) for name in ("pinned", "archived")}
    return Conversation(**{**found, **flags, "settings": json.loads(found["settings"])})


def _message_row(message: Message) -> tuple[Any, ...]:
    row = {name: getattr(message, name) for name in _MESSAGE}
    return tuple({**row, "token_ids": json.dumps(message.token_ids)}.values())


def _message(row: tuple[Any, ...]) -> Message:
    found = dict(zip(_MESSAGE, row, strict=True))
    return Message(**{**found, "token_ids": tuple(json.loads(found["token_ids"]))})


def _escaped(text: str) -> str:
    for special in ("\\", "%", "_"):
        text = text.replace(special, "\\" + special)
    return text

"""Saved conversations: the part of the cache that stores them, on disk under a name.

What is restored lands in the prefix tree, where a prompt that begins with it finds it. A session
is refused, and nothing changed, unless it is whole and everything that its bits depend on is the
same. Knows nothing of what blocks store. Works in the caller's thread; only books are kept in the
engine's.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence as Seq
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from edgellm import session_file
from edgellm.config import sessions_dir
from edgellm.engine import Engine
from edgellm.errors import NoSession, RequestError, SessionError
from edgellm.pins import Pin
from edgellm.types import Messages, Session, SessionInfo
from edgellm.version import __version__

T = TypeVar("T")
Key = Mapping[str, str | int]

FORMAT = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_SUFFIX = ".session"
_SAMPLES, _SAMPLE = 64, 1 << 14  # pieces of a model file that tell it from others, bytes of each


class Ask(Protocol):
    """Has the engine's thread do something and gives what comes of it."""

    def __call__(self, action: Callable[[], T]) -> T: ...


@dataclass(frozen=True)
class SavedModel:
    """A loaded model whose sessions are saved. key: everything that the bits depend on.

    scales: of its adapters, those that it was loaded with.
    """

    name: str
    engine: Engine
    key: Key
    vocab_size: int
    scales: tuple[float, ...]
    ask: Ask


def save(model: SavedModel, name: str, ids: Seq[int], messages: Messages = ()) -> SessionInfo:
    """Saves what the cache has of `ids` under a name, in place of what had it before."""
    path = _path(name)
    pin = model.ask(lambda: model.engine.pin(ids, model.scales))
    try:
        header = {
            "format": FORMAT,
            "model": model.name,
            "key": dict(model.key),
            "token_ids": list(ids),
            "num_cached": len(pin.token_ids),
            "messages": [dict(message) for message in messages],
        }
        session_file.write(path, header, _contents(model.engine, pin))
    finally:
        model.ask(lambda: model.engine.unpin(pin))
    return _info(path, header)


def restore(model: SavedModel, name: str) -> Session:
    """Puts a saved session into the cache. SessionError: it cannot be, and nothing has changed."""
    path = _path(name)
    header, data = session_file.read(path)
    _check(path, header, model)
    ids = tuple(header["token_ids"])
    known = ids[: header["num_cached"]]
    pin = model.ask(lambda: model.engine.make_room(known, model.scales))
    if pin is None:
        raise SessionError(
            f"the cache has no room for the {len(known)} tokens of the session: wait until other "
            "answers have ended, or load the model with more memory"
        )
    try:
        _fill(path, model.engine, pin, data)
        model.ask(lambda: model.engine.adopt(pin))
    finally:
        model.ask(lambda: model.engine.unpin(pin))
    return Session(name, ids, len(known), tuple(header["messages"]))


def saved_sessions() -> tuple[SessionInfo, ...]:
    """All sessions that can be read, by name; a damaged one is left out."""
    found = []
    for path in sorted(sessions_dir().glob(f"*{_SUFFIX}")):
        try:
            found.append(_info(path, session_file.read_header(path)))
        except (SessionError, KeyError, TypeError, FileNotFoundError):  # damaged, or deleted now
            continue
    return tuple(found)


def delete(name: str) -> None:
    """Forgets a saved session. SessionError when there is none."""
    try:
        _path(name).unlink()
    except FileNotFoundError:
        raise NoSession(name) from None


def fingerprint(paths: Seq[Path]) -> str:
    """What tells model files from others: their sizes, ends and pieces between, 32 hex digits."""
    digest = hashlib.blake2b(digest_size=16)
    for path in paths:
        size = path.stat().st_size
        digest.update(size.to_bytes(8, "little"))
        with path.open("rb") as stream:
            for piece in range(_SAMPLES):
                stream.seek(max(0, size - _SAMPLE) * piece // (_SAMPLES - 1))
                digest.update(stream.read(_SAMPLE))
    return digest.hexdigest()


def session_key(model_files: Seq[Path], **numerics: str | int) -> Key:
    """Everything that the bits in a cache depend on; numerics: backend, types, context."""
    return {"model": fingerprint(model_files), "edgellm": __version__, **numerics}


def _path(name: str) -> Path:
    if not _NAME.fullmatch(name):
        raise RequestError(
            f"{name!r} is no name of a session: use letters, digits, '.', '_' and '-', at most 100",
            "session",
        )
    return sessions_dir() / f"{name}{_SUFFIX}"


def _info(path: Path, header: Mapping[str, Any]) -> SessionInfo:
    stat = path.stat()
    num_tokens = len(header["token_ids"])
    return SessionInfo(path.stem, header["model"], num_tokens, stat.st_size, stat.st_mtime)


def _places(pin: Pin) -> Iterator[tuple[int | None, int]]:
    """Every block of a pin, as (group, block), in the order in which they are saved."""
    for group, blocks in enumerate(pin.blocks):
        for block in blocks:
            yield group, block
    if pin.state is not None:
        yield None, pin.state


def _contents(engine: Engine, pin: Pin) -> Iterator[bytes]:
    for group, block in _places(pin):
        yield engine.store.read(group, block)


def _fill(path: Path, engine: Engine, pin: Pin, data: memoryview) -> None:
    """Writes the saved blocks into those of `pin`, which nobody else reads."""
    places = list(_places(pin))
    sizes = {group: engine.store.block_bytes(group) for group, _ in places}
    if sum(sizes[group] for group, _ in places) != len(data):
        raise SessionError(f"{path}: does not hold what its header says: delete the session")
    start = 0
    for group, block in places:
        engine.store.write(group, block, bytes(data[start : start + sizes[group]]))
        start += sizes[group]


def _check(path: Path, header: Mapping[str, Any], model: SavedModel) -> None:
    """SessionError unless the session is this model's, and its header makes sense."""
    if header.get("format") != FORMAT:
        raise SessionError(
            f"{path}: has format {header.get('format')!r} and this version reads {FORMAT}: "
            "delete the session"
        )
    key = header.get("key")
    if key != dict(model.key):
        found = key if isinstance(key, dict) else {}
        other = [what for what, value in model.key.items() if found.get(what) != value]
        raise SessionError(
            f"the session {path.stem!r} was saved with another {', '.join(other) or 'setting'}: "
            "load the model as it was then, or delete the session"
        )
    if not _makes_sense(header, model):
        raise SessionError(f"{path}: has a header that makes no sense: delete the session")


def _makes_sense(header: Mapping[str, Any], model: SavedModel) -> bool:
    ids, messages = header.get("token_ids"), header.get("messages")
    if not isinstance(ids, list) or not _are_counts(ids, model.vocab_size):
        return False
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        return False
    return _are_counts([header.get("num_cached")], len(ids) + 1)


def _are_counts(values: Any, end: int) -> bool:
    """Whether these are whole numbers from 0 below `end`."""
    return all(type(value) is int and 0 <= value < end for value in values)

"""Files that a prompt names with @: found, read and put into the message. Knows no screen.

`@notes.txt`, `@src/` (a folder: the text files in it) and `@"name with spaces"`. A message carries
a file as `<file path="...">` with its text and `</file>`, which models read well and which the
screen shows as one line.
"""

import html
import mimetypes
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from edgellm.errors import RequestError
from edgellm.escapes import well_formed
from edgellm.paths import typed_path

MAX_BYTES = 1 << 20  # of all files of one message; more fits no context
_MAX_FILES = 200

_MENTION = re.compile(r'(?<![\w@])@(?:"([^"\n]+)"|([\w~./\\-][^\s,;:!?)\]}"\']*))')
_BLOCK = re.compile(r'\n*<file path="([^"]*)">\n(.*?)\n</file>', re.DOTALL)


@dataclass(frozen=True)
class Attachment:
    """One text file. path: as it is written in the message."""

    path: str
    text: str


def mentions(text: str) -> list[str]:
    """The paths named that are there, in order. A word such as @home that is no file is text."""
    named = (quoted or plain.rstrip(".") for quoted, plain in _MENTION.findall(text))
    return list(dict.fromkeys(path for path in named if is_there(path)))


def is_there(path: str) -> bool:
    """Whether a file or a folder is meant; text that can be no path means none."""
    return os.path.exists(os.path.expanduser(path))


def read(path: str) -> list[Attachment]:
    """The file, or the text files in the folder, hidden ones left out.

    RequestError when it cannot be read, is no text, or is more than MAX_BYTES.
    """
    where = typed_path(path)
    if not where.is_dir():
        try:
            return [Attachment(path, _text(where, path))]
        except UnicodeDecodeError:
            kind = (mimetypes.guess_type(where.name)[0] or "no UTF-8 text").replace("/", " ", 1)
            raise RequestError(f"@{path}: {kind}, but only text can be attached") from None
    found: list[Attachment] = []
    size = 0
    for file in _files(where):
        if len(found) == _MAX_FILES:
            raise RequestError(f"@{path}: more than {_MAX_FILES} files: name a folder below it")
        try:
            text = _text(file, path)
        except UnicodeDecodeError:
            continue  # pictures and programs lie among the texts
        size += len(text)
        if size > MAX_BYTES:
            raise RequestError(_too_large(path))
        found.append(Attachment(well_formed(str(Path(path) / file.relative_to(where))), text))
    if not found:
        raise RequestError(f"@{path}: no text files are in this folder")
    return found


def attach(text: str) -> str:
    """The prompt with the files it names. RequestError as `read`'s."""
    files = [file for path in mentions(text) for file in _read_all(path)]
    if sum(len(file.text) for file in files) > MAX_BYTES:
        raise RequestError(_too_large(", @".join(mentions(text))))
    blocks = (
        f'<file path="{html.escape(file.path)}">\n{file.text.rstrip()}\n</file>' for file in files
    )
    return "\n\n".join([text, *blocks])


def detach(content: str) -> tuple[str, list[Attachment]]:
    """A message's own words, and the files it carries."""
    files = [Attachment(html.unescape(path), text) for path, text in _BLOCK.findall(content)]
    return _BLOCK.sub("", content), files


def mention(path: str) -> str:
    """How a path is named in a prompt."""
    return f"@{path}" if _MENTION.fullmatch(f"@{path}") else f'@"{path}"'


def pasted_path(text: str) -> str | None:
    """The path, when what was pasted is that of a file; terminals paste what is dropped on them."""
    path = text.strip().removeprefix("file://").strip("'\"").replace("\\ ", " ")
    if not path or "\n" in path or not path.startswith(("/", "~", ".")):
        return None
    return path if is_there(path) else None


def _read_all(path: str) -> list[Attachment]:
    try:
        return read(path)
    except OSError as error:
        raise RequestError(f"@{path}: it cannot be read: {error.strerror}") from None


def _files(folder: Path) -> Iterator[Path]:
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(where) / name for name in sorted(files) if not name.startswith("."))


def _text(file: Path, named: str) -> str:
    if not file.is_file():
        raise RequestError(f"@{named}: {file} is no plain file")
    with file.open("rb") as stream:
        raw = stream.read(MAX_BYTES + 1)
    if len(raw) > MAX_BYTES:
        raise RequestError(_too_large(named))
    text = raw.decode("utf-8")
    if "\0" in text:
        raise UnicodeDecodeError("utf-8", raw, 0, 1, "a null character")
    return text


def _too_large(path: str) -> str:
    return f"@{path}: more than {MAX_BYTES >> 20} MiB of text: attach less"

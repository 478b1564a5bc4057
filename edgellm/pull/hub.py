"""Files of the Hugging Face hub.

huggingface_hub finds the file, its sha256 and the user's token; the bytes come through our own
download, because its own (2.4) starts over after an interruption.
"""

import re
import threading
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from edgellm.pull.report import Report, SourceFailed
from edgellm.pull.url import download
from edgellm.sources import HubSource

TIMEOUT = 5.0  # seconds for one answer of the hub
DEADLINE = 12.0  # seconds for finding the file, name look-up included


@dataclass(frozen=True)
class HubFile:
    """Where the bytes are, what to send along, and the digest the hub gives (None for a small
    file, which the hub identifies otherwise)."""

    url: str
    headers: dict[str, str]
    sha256: str | None


def fetch_hub(source: HubSource, target: Path, report: Report) -> str | None:
    """Downloads into `target` and returns the sha256 that the hub vouches for."""
    found = _within(DEADLINE, source)
    download(found.url, found.headers, target, report)
    return found.sha256


def find(source: HubSource) -> HubFile:
    """Asks the hub for one file. Raises whatever huggingface_hub raises."""
    from huggingface_hub import constants, get_hf_file_metadata, get_token, hf_hub_url

    url = hf_hub_url(source.repo, source.file, revision=source.revision)
    about = get_hf_file_metadata(url, timeout=TIMEOUT)
    etag = about.etag or ""
    # The token is for the hub alone, never for the store that it points to.
    at_hub = urlsplit(about.location).netloc == urlsplit(constants.ENDPOINT).netloc
    token = get_token() if at_hub else None
    return HubFile(
        url=about.location,
        headers={"Authorization": f"Bearer {token}"} if token else {},
        sha256=etag if re.fullmatch(r"[0-9a-f]{64}", etag) else None,
    )


def _within(seconds: float, source: HubSource) -> HubFile:
    """find() with a deadline: a name look-up without a network can hang longer than any timeout."""
    outcome: list[HubFile | BaseException] = []

    def ask() -> None:
        try:
            outcome.append(find(source))
        except BaseException as error:  # the thread's only way to tell
            outcome.append(error)

    thread = threading.Thread(target=ask, daemon=True, name="edgellm-hub")
    thread.start()
    thread.join(seconds)
    if not outcome:
        raise SourceFailed(f"the hub gives no answer within {seconds:g} seconds")
    if isinstance(outcome[0], BaseException):
        raise SourceFailed(_first_line(outcome[0])) from outcome[0]
    return outcome[0]


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"the hub cannot give it: {lines[0] if lines else type(error).__name__}"

"""A saved file is whole or not there, whatever happens to the process or to the file."""

import os
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from edgellm import session_file
from edgellm.errors import NoSession, SessionError

HEADER = {"name": "é", "numbers": [1, 2]}


def save(path: Path, data: bytes = b"abcdefgh") -> None:
    session_file.write(path, HEADER, [data[:3], data[3:]])


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "a.session"
    save(path)
    header, data = session_file.read(path)
    assert (header, bytes(data)) == (HEADER, b"abcdefgh")
    assert session_file.read_header(path) == HEADER
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    save(path, b"")
    assert bytes(session_file.read(path)[1]) == b""
    assert os.listdir(path.parent) == ["a.session"]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_damage_is_noticed(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "a.session"
    save(path)
    whole = bytearray(path.read_bytes())
    place = data.draw(st.integers(0, len(whole) - 1))
    if data.draw(st.booleans()):
        whole[place] ^= data.draw(st.integers(1, 255))
    else:
        del whole[place:]
    path.write_bytes(whole)
    with pytest.raises(SessionError):
        session_file.read(path)


def test_a_missing_file_is_no_session(tmp_path: Path) -> None:
    with pytest.raises(NoSession, match="no saved session 'a'"):
        session_file.read(tmp_path / "a.session")


def test_a_save_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    save(path)

    def data() -> object:
        yield b"new"
        raise OSError(28, "No space left on device")

    with pytest.raises(SessionError, match="No space left"):
        session_file.write(path, HEADER, data())  # type: ignore[arg-type]
    assert bytes(session_file.read(path)[1]) == b"abcdefgh"
    assert os.listdir(tmp_path) == ["a.session"]


SAVER = """
import itertools, sys
from pathlib import Path
from edgellm import session_file
for number in itertools.count():
    part = bytes([number % 256]) * 50_000
    session_file.write(Path(sys.argv[1]), {"number": number}, [part] * 20)
    print(number, flush=True)
"""


def test_killing_the_process_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "a.session"
    for wait in (0.0, 0.003, 0.011):
        saver = subprocess.Popen([sys.executable, "-c", SAVER, path], stdout=subprocess.PIPE)
        assert saver.stdout is not None
        saver.stdout.readline()
        time.sleep(wait)
        saver.send_signal(signal.SIGKILL)
        saver.communicate()
        header, data = session_file.read(path)
        assert bytes(data) == bytes([header["number"] % 256]) * 1_000_000
    save(path)  # which sweeps what they left
    assert os.listdir(tmp_path) == ["a.session"]

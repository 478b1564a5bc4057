"""Processes that answer on pipes: what they are given, and that they go."""

import pytest

from edgellm.piped_process import end, start

ECHO = "import edgellm; [sys.stdout.buffer.write(line) for line in sys.stdin.buffer]"


def test_it_imports_what_this_process_does_and_answers() -> None:
    process = start(ECHO)
    try:
        assert process.communicate(b"\x00\xff\n") == (b"\x00\xff\n", None)
        assert process.returncode == 0
    finally:
        end(process)


@pytest.mark.parametrize("unwritten", [b"", b"a line"])
def test_it_is_gone_at_its_end(unwritten: bytes) -> None:
    process = start("raise SystemExit" if unwritten else ECHO)
    assert process.stdin is not None and process.stdout is not None
    if unwritten:
        assert process.stdout.read() == b""  # it has ended: nobody will read what it is sent
        process.stdin.write(unwritten)
    end(process)
    assert process.returncode is not None
    assert process.stdin.closed and process.stdout.closed

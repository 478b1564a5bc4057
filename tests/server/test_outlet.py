"""The way of a stream's parts out: in order, whole, whatever the connection takes at once."""

import asyncio

import pytest
from hypothesis import given, strategies as st

from edgellm.server.outlet import Outlet


class Connection:
    """Takes pieces at once as often as `moods` says; else it must be waited for."""

    def __init__(self, moods: list[bool]) -> None:
        self.read = b""
        self.writes = 0
        self._moods = moods

    def write(self, data: bytes) -> bool:
        takes = self._moods.pop() if self._moods else True
        self.writes += 1
        self.read += data if takes else b""
        return takes

    async def send(self, data: bytes) -> None:
        for _ in range(3):
            await asyncio.sleep(0)
        self.read += data


def outlet_to(connection: Connection) -> Outlet:
    return Outlet(connection.write, connection.send, asyncio.get_running_loop().call_soon)


@given(pauses=st.lists(st.integers(0, 4)), moods=st.lists(st.booleans()))
def test_all_goes_out_in_order(pauses: list[int], moods: list[bool]) -> None:
    connection = Connection(moods)
    pieces = [b"%d " % i for i in range(len(pauses))]

    async def main() -> None:
        async with outlet_to(connection) as outlet:
            for piece, pause in zip(pieces, pauses, strict=True):
                outlet.put(piece)
                for _ in range(pause):
                    await asyncio.sleep(0)

    asyncio.run(main())
    assert connection.read == b"".join(pieces)


def test_what_comes_together_goes_out_together() -> None:
    connection = Connection([])

    async def main() -> None:
        async with outlet_to(connection) as outlet:
            for step in range(3):
                for piece in range(4):
                    outlet.put(b"%d.%d " % (step, piece))
                assert connection.writes == step
                await asyncio.sleep(0)
            outlet.put(b"end")

    asyncio.run(main())
    assert connection.writes == 4
    assert connection.read == b"0.0 0.1 0.2 0.3 1.0 1.1 1.2 1.3 2.0 2.1 2.2 2.3 end"


def test_what_was_said_before_an_error_goes_out() -> None:
    connection = Connection([False, False])

    async def main() -> None:
        async with outlet_to(connection) as outlet:
            outlet.put(b"a")
            outlet.put(b"b")
            raise ValueError("broken")

    with pytest.raises(ValueError, match="broken"):
        asyncio.run(main())
    assert connection.read == b"ab"


def test_who_has_gone_is_sent_nothing_more() -> None:
    connection = Connection([False])

    async def main() -> None:
        async with outlet_to(connection) as outlet:
            outlet.put(b"a")
            await asyncio.sleep(0)
            outlet.put(b"b")
            raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(main())
    assert connection.read == b""


def test_what_was_never_sent_is_not_sent_later() -> None:
    connection = Connection([])

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            async with outlet_to(connection) as outlet:
                outlet.put(b"a")
                raise asyncio.CancelledError
        await asyncio.sleep(0)

    asyncio.run(main())
    assert connection.writes == 0

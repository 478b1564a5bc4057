"""The engine in a child process, behind the asynchronous door.

A crash in native code ends the child, not this process: what runs then fails with an error that
says so, and `restart` brings the engine back. The child ends with this process, however that ends.
Knows nothing of what the engine does.
"""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import AsyncGenerator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from edgellm.client.http import Address, exchange
from edgellm.client.socket import SocketClient
from edgellm.errors import ConnectionFailed, EdgeLLMError
from edgellm.linux import step_back
from edgellm.signals import signal_name
from edgellm.types import LoadOptions, ModelInfo

if TYPE_CHECKING:
    from edgellm.pull import Report

_COMMAND = (sys.executable, "-P", "-m", "edgellm", "serve", "--private")
_SOCKET = "engine.sock"
_START_SECONDS = 60.0
_STOP_SECONDS = 10.0
_POLL_SECONDS = 0.02
_BEHIND = 5  # steps of niceness: keys are answered while all cores compute
_LAST_WORDS = 2000  # bytes of what a crashed engine wrote last


class ChildClient(SocketClient):
    """A Client whose engine is a child process; `start` makes one. An asynchronous context manager.

    command: what serves the private socket whose path is added to it; tests give their own. The
    socket's folder is the child's: when its parent has gone, it takes it along.
    """

    def __init__(self, command: tuple[str, ...] = _COMMAND) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="edgellm-"))
        super().__init__(str(self._folder / _SOCKET))
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._loaded: dict[str, tuple[str, LoadOptions | None]] = {}

    @classmethod
    async def start(cls, command: tuple[str, ...] = _COMMAND) -> Self:
        """A child that is ready to load models. EdgeLLMError when it does not come up."""
        client = cls(command)
        try:
            await client._spawn()
        except BaseException:
            await client.close()
            raise
        return client

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int | None:
        """The child's process id while there is one."""
        return self._process.pid if self._process else None

    async def restart(self) -> None:
        """Ends the child, if it still lives, starts another, and loads what had been loaded."""
        await asyncio.to_thread(self._end)
        self._folder = Path(tempfile.mkdtemp(prefix="edgellm-"))
        self.address = Address(path=self._folder / _SOCKET)
        await self._spawn()
        for name_or_path, options in list(self._loaded.values()):
            await super().load(name_or_path, options)

    async def load(
        self,
        name_or_path: str,
        options: LoadOptions | None = None,
        report: "Report | None" = None,
    ) -> ModelInfo:
        info = await super().load(name_or_path, options, report)
        self._loaded[info.name] = name_or_path, options
        return info

    async def unload(self, name: str) -> None:
        await super().unload(name)
        self._loaded.pop(name, None)

    async def close(self) -> None:
        """Ends the child: it aborts what runs. It is killed when that takes too long."""
        await asyncio.to_thread(self._end)

    async def _ask(self, route: str, fields: Mapping[str, Any] | None = None) -> Any:
        try:
            return await super()._ask(route, fields)
        except ConnectionFailed as error:
            raise await self._story(error) from None

    async def _lines(self, route: str, fields: Any) -> AsyncGenerator[Any, None]:
        try:
            async for line in super()._lines(route, fields):
                yield line
        except ConnectionFailed as error:
            raise await self._story(error) from None

    async def _spawn(self) -> None:
        """Starts the child and waits until it listens."""
        # Our own package and no folder that merely happens to be the current one.
        paths = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
        with self._stderr.open("wb") as stderr:
            self._process = subprocess.Popen(
                [*self._command, "--socket", str(self.address)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
                start_new_session=True,  # Ctrl-C is for this process
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # Windows' way
            )
        step_back(self._process.pid, _BEHIND)
        try:
            async with asyncio.timeout(_START_SECONDS):
                while not await self._listens():
                    if not self.is_alive:
                        raise EdgeLLMError(f"the engine did not start{self._ending()}")
                    await asyncio.sleep(_POLL_SECONDS)
        except TimeoutError:
            raise EdgeLLMError(
                f"the engine did not start within {_START_SECONDS:.0f} seconds{self._ending()}"
            ) from None

    async def _listens(self) -> bool:
        try:
            async with exchange(self.address, "GET", "/health") as response:
                return response.status == 200
        except ConnectionFailed:
            return False

    async def _story(self, error: ConnectionFailed) -> EdgeLLMError:
        """What became of the connection, told by what became of the child."""
        for _ in range(50):  # the connection may break a moment before the process is over
            if not self.is_alive:
                return ConnectionFailed(f"the engine stopped{self._ending()}")
            await asyncio.sleep(_POLL_SECONDS)
        return error

    def _ending(self) -> str:
        """`: killed by SIGSEGV` and what the child wrote last."""
        code = self._process.returncode if self._process else None
        how = "" if code is None else f": it ended with code {code}"
        if code is not None and code < 0:
            how = f": it was ended by {signal_name(-code)}"
        try:
            said = self._stderr.read_bytes()[-_LAST_WORDS:].decode(errors="replace").strip()
        except OSError:
            said = ""
        return how + (f"; it said:\n{said}" if said else "")

    @property
    def _stderr(self) -> Path:
        return self._folder / "stderr"

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            if process.stdin:
                process.stdin.close()  # tells it to end
            try:
                process.wait(_STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)

"""A running server's model, whose calls wait for what they give, as those of `llm.Model` do."""

import argparse
import asyncio
from collections.abc import Coroutine, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from edgellm.cli.running_server import find_server
from edgellm.client.naming import Served
from edgellm.types import (
    LoadOptions,
    Messages,
    ModelDetails,
    Request,
    Session,
    SessionInfo,
    TokenEvent,
)

T = TypeVar("T")


@contextmanager
def served_model(args: argparse.Namespace, load: LoadOptions) -> Iterator["ServedModel | None"]:
    """The model of the server that --server means; None when it is to be loaded here."""
    with asyncio.Runner() as runner:
        served = runner.run(find_server(args, load))
        yield None if served is None else ServedModel(served, runner)


class ServedModel:
    """One model of a server. Errors are those of Client."""

    def __init__(self, served: Served, runner: asyncio.Runner) -> None:
        self._client, self._name, self._runner = served.client, served.model, runner

    def details(self) -> ModelDetails:
        return self._wait(self._client.details(self._name))

    def chat_ids(
        self, messages: Messages, variables: Mapping[str, Any] | None = None
    ) -> tuple[int, ...]:
        return self._wait(self._client.chat_ids(messages, model=self._name, variables=variables))

    def detokenize(self, ids: Sequence[int]) -> str:
        return self._wait(self._client.detokenize(ids, self._name))

    def submit(self, request: Request) -> Generator[TokenEvent, None, None]:
        stream = self._client.submit(replace(request, model=self._name))

        async def following() -> TokenEvent | None:
            return await anext(stream, None)

        try:
            while (event := self._wait(following())) is not None:
                yield event
        finally:
            self._wait(stream.aclose())

    def restore_session(self, name: str) -> Session:
        return self._wait(self._client.restore_session(name, self._name))

    def save_session(self, name: str, ids: Sequence[int], messages: Messages) -> SessionInfo:
        return self._wait(self._client.save_session(name, ids, messages, self._name))

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(work)

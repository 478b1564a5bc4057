"""Every route of our own OpenAPI document takes anything: an answer or a clear error, at once."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from edgellm.client import LocalClient
from edgellm.manager import Manager
from edgellm.server.app import FAMILIES, make_app
from edgellm.server.openapi import FIELDS, document
from edgellm.server.service import Service
from tests.mock_model import MockModel, make_manager, says
from tests.waiting import PATIENCE

DOCUMENT = document(FAMILIES)
ROUTES = [
    (method.upper(), path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
    if not path.endswith(("/load", "/unload"))  # they change the model
]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 2**70) | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def fitting(schema: Any) -> st.SearchStrategy[Any]:
    """Values of a JSON Schema of the document."""
    if "anyOf" in schema:
        return st.one_of([fitting(each) for each in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema.get("type"):
        case "string":
            return st.sampled_from(["user", "assistant", "hi", "", "\ud800", "é" * 40]) | st.text()
        case "boolean":
            return st.booleans()
        case "integer":
            return st.integers(-1, 9)
        case "number":
            return st.floats(0, 1)
        case "array":
            return st.lists(fitting(schema["items"]), max_size=3)
        case "object":
            known = {name: fitting(each) for name, each in schema.get("properties", {}).items()}
            return st.fixed_dictionaries({}, optional=known) if known else json_values
    return json_values


def bodies(operation: Any) -> st.SearchStrategy[Any]:
    """Objects whose fields mostly fit."""
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
    properties = body.get("schema", {}).get("properties", {})
    fields = {name: fitting(schema) for name, schema in properties.items()}
    few = st.fixed_dictionaries({}, optional={name: fields[name] for name in fields})
    wild = st.dictionaries(st.sampled_from([*fields, "x"]), json_values, max_size=4)
    return st.builds(lambda a, b: {**a, **b}, few, st.just({}) | wild)


class Wire:
    """Asks the application itself, without sockets."""

    def __init__(self, manager: Manager) -> None:
        self.loop = asyncio.new_event_loop()
        self.service = Service(LocalClient(manager))
        self.app = make_app(self.service)
        self.headers: dict[bytes, bytes] = {}

    def ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        return self.loop.run_until_complete(
            asyncio.wait_for(self._ask(method, path, body), PATIENCE)
        )

    async def _ask(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        sent: list[dict[str, Any]] = []
        unread = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive() -> dict[str, Any]:
            if unread:
                return unread.pop()
            await asyncio.Event().wait()
            raise AssertionError

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {
            "type": "http",
            "method": method,
            "path": path,
            "query_string": b"",
            "headers": [(b"host", b"localhost")],
            "server": ("127.0.0.1", 1),
            "root_path": "",
        }
        await self.app(scope, receive, send)
        self.headers = dict(sent[0]["headers"])
        return sent[0]["status"], b"".join(part.get("body", b"") for part in sent[1:])


@pytest.fixture(scope="module")
def wire() -> Iterator[Wire]:
    manager = make_manager(MockModel(says("ok\nso")))
    found = Wire(manager)
    yield found
    manager.close()
    found.loop.close()


@pytest.mark.parametrize(
    ("method", "path", "operation"), ROUTES, ids=[f"{m} {p}" for m, p, _ in ROUTES]
)
def test_any_object(wire: Wire, method: str, path: str, operation: Any) -> None:
    target = path.replace("{model}", "x")
    tries = 15 if "requestBody" in operation else 1

    @settings(
        max_examples=tries,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        derandomize=True,
        database=None,
    )
    @given(bodies(operation))
    def check(fields: Any) -> None:
        status, body = wire.ask(method, target, json.dumps(fields).encode())
        assert status in (200, 400, 404, 413, 501, 503), (status, fields, body)
        assert wire.service.in_flight == 0
        if status != 200:
            assert b"error" in body

    check()


def test_operations_have_names_of_their_own() -> None:
    names = [operation["operationId"] for _, _, operation in ROUTES]
    assert len(names) == len(set(names)) and "post_v1_chat_completions" in names
    for _, path, operation in ROUTES:
        body = operation.get("requestBody", {}).get("content", {}).get("application/json", {})
        schema = body.get("schema", {"properties": {}})
        assert schema["properties"].keys() >= set(schema.get("required", ())), path


def test_another_method(wire: Wire) -> None:
    status, body = wire.ask("PUT", "/v1/responses/x", b"")
    assert status == 405 and b"PUT is not allowed: use DELETE or GET" in body
    assert wire.headers[b"allow"] == b"DELETE, GET, HEAD, OPTIONS"


def test_the_document_tells_every_field_once() -> None:
    told = {name for family in FAMILIES for route in family.routes for name in route.takes}
    assert told == FIELDS.keys() | told
    assert told <= FIELDS.keys()
    chat = DOCUMENT["paths"]["/v1/chat/completions"]["post"]
    properties = chat["requestBody"]["content"]["application/json"]["schema"]["properties"]
    assert properties["temperature"]["maximum"] == 1000.0

"""SmolLM2 behind the server: the same text as without it, alone and beside others."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from edgellm.llm import Model
from edgellm.manager import Manager
from edgellm.types import LoadOptions, SamplingParams
from tests.server.serving import Running, running

pytestmark = pytest.mark.weights
ASKED = [{"role": "user", "content": "Name three colours."}]


@pytest.fixture(scope="module")
def manager(smollm2: Path) -> Manager:
    manager = Manager()
    manager.load(smollm2, LoadOptions(context_length=512))
    return manager


@pytest.fixture(scope="module")
def server(manager: Manager, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(manager, tmp_path_factory.mktemp("socket")) as found:
        yield found


def chat(server: Running, **fields: Any) -> str:
    status, answer = server.ask("POST", "/v1/chat/completions", {"messages": ASKED, **fields})
    assert status == 200, answer
    return str(answer["choices"][0]["message"]["content"])


def test_the_text_is_the_engines_own(server: Running, manager: Manager) -> None:
    (info,) = manager.models()
    params = SamplingParams(seed=3, max_tokens=12)
    alone = Model(manager, info).chat(ASKED, params).text
    asked = {"seed": 3, "max_tokens": 12}
    assert chat(server, **asked) == alone
    with ThreadPoolExecutor(4) as pool:
        beside = pool.map(lambda _: chat(server, **asked), range(4))
        assert [*beside] == [alone] * 4


def test_an_answer_of_a_schema(server: Running) -> None:
    schema = {
        "type": "object",
        "properties": {"warm": {"type": "boolean"}, "name": {"enum": ["red", "blue"]}},
        "required": ["warm", "name"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "colour", "schema": schema}}
    colour = json.loads(chat(server, response_format=form, max_tokens=40, temperature=0))
    assert colour["name"] in ("red", "blue") and isinstance(colour["warm"], bool)
    grammar = 'root ::= "yes" | "no"'
    assert chat(server, grammar=grammar, temperature=0) in ("yes", "no")


def test_a_model_without_a_hole(server: Running) -> None:
    status, answer = server.ask("POST", "/infill", {"input_prefix": "a", "input_suffix": "b"})
    assert status == 501 and "trained for code completion" in answer["error"]["message"]

"""Heavier clients, each where it is installed: litellm, LangChain, instructor, llm.

They are the extra `clients`: large, and often at odds about the versions of what they share.
"""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.mock_model import MockModel, make_manager, says
from tests.server.conftest import SAID
from tests.server.serving import Running, running

ASKED = [{"role": "user", "content": "Why?"}]

pytestmark = pytest.mark.filterwarnings("default")  # those libraries' warnings are their own


@pytest.fixture(autouse=True, scope="module")
def collected() -> Iterator[None]:
    """Connections that those libraries keep end here, where their warnings are their own."""
    yield
    if (litellm := sys.modules.get("litellm")) is not None:
        litellm.in_memory_llm_clients_cache.flush_cache()
        litellm.module_level_client.close()
    gc.collect()


@pytest.mark.parametrize("model", ["openai/mock", "ollama_chat/mock", "anthropic/mock"])
def test_litellm(server: Running, model: str) -> None:
    litellm = pytest.importorskip("litellm")
    base = f"{server.tcp}/v1" if model.startswith("openai/") else server.tcp
    asked = {"model": model, "messages": ASKED, "api_base": base, "api_key": "k", "temperature": 0}
    done = litellm.completion(**asked, max_tokens=40)
    assert done.choices[0].message.content == SAID and done.usage.completion_tokens > 5
    chunks = list(litellm.completion(**asked, max_tokens=40, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == SAID


def test_langchain(server: Running) -> None:
    langchain_openai = pytest.importorskip("langchain_openai")
    chat = langchain_openai.ChatOpenAI(
        model="mock", base_url=f"{server.tcp}/v1", api_key="k", temperature=0, stream_usage=True
    )
    assert chat.invoke("Why?").content == SAID
    assert "".join(str(chunk.content) for chunk in chat.stream("Why?")) == SAID


def test_litellm_knows_what_went_wrong(server: Running) -> None:
    litellm = pytest.importorskip("litellm")
    asked = {"model": "openai/mock", "api_base": f"{server.tcp}/v1", "api_key": "k"}
    with pytest.raises(litellm.ContextWindowExceededError):
        litellm.completion(**asked, messages=[{"role": "user", "content": "x" * 99}])
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    with pytest.raises(litellm.BadRequestError, match="only text can be read"):
        litellm.completion(**asked, messages=[{"role": "user", "content": [image]}])


@pytest.fixture(scope="module")
def colour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    model = MockModel(says('{"colour": "blue"}'))
    manager = make_manager(model, context_length=4096, num_blocks=1100, token_budget=512)
    with running(manager, tmp_path_factory.mktemp("socket")) as found:
        yield found


def test_instructor(colour: Running) -> None:
    instructor = pytest.importorskip("instructor")
    openai = pytest.importorskip("openai")
    pydantic = pytest.importorskip("pydantic")
    answer = pydantic.create_model("Answer", colour=(str, ...))
    with openai.OpenAI(base_url=f"{colour.tcp}/v1", api_key="k") as plain:
        client = instructor.from_openai(plain, mode=instructor.Mode.JSON)
        done = client.chat.completions.create(
            model="mock", messages=ASKED, response_model=answer, temperature=0
        )
    assert done.colour == "blue"


@pytest.mark.parametrize("mode", ["TOOLS", "RESPONSES_TOOLS"])
def test_instructor_by_calls(tmp_path: Path, mode: str) -> None:
    instructor = pytest.importorskip("instructor")
    openai = pytest.importorskip("openai")
    pydantic = pytest.importorskip("pydantic")
    answer = pydantic.create_model("Answer", colour=(str, ...))
    model = MockModel(says('{"name": "Answer", "arguments": {"colour": "blue"}}'))
    manager = make_manager(model, context_length=4096, num_blocks=1100, token_budget=512)
    with (
        running(manager, tmp_path) as server,
        openai.OpenAI(base_url=f"{server.tcp}/v1", api_key="k") as plain,
    ):
        client = instructor.from_openai(plain, mode=instructor.Mode[mode])
        made = client.responses if mode == "RESPONSES_TOOLS" else client.chat.completions
        given = {"input" if mode == "RESPONSES_TOOLS" else "messages": ASKED}
        done = made.create(model="mock", response_model=answer, temperature=0, **given)
    assert done.colour == "blue"


def test_langchain_structures(colour: Running) -> None:
    langchain_openai = pytest.importorskip("langchain_openai")
    pydantic = pytest.importorskip("pydantic")
    answer = pydantic.create_model("Answer", colour=(str, ...))
    chat = langchain_openai.ChatOpenAI(
        model="mock", base_url=f"{colour.tcp}/v1", api_key="k", temperature=0, max_tokens=99
    )
    assert chat.with_structured_output(answer, method="json_schema").invoke("?").colour == "blue"


def test_llm(server: Running, tmp_path: Path) -> None:
    pytest.importorskip("llm")
    (tmp_path / "extra-openai-models.yaml").write_text(
        json.dumps([{"model_id": "ours", "model_name": "mock", "api_base": f"{server.tcp}/v1"}])
    )
    for more in ([], ["--no-stream"]):
        done = subprocess.run(
            [sys.executable, "-m", "llm", "-m", "ours", "-o", "temperature", "0", *more, "Why?"],
            env={**os.environ, "LLM_USER_PATH": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.stdout.rstrip("\n") == SAID, done.stderr

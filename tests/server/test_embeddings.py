"""Embeddings and reranking in every API's shape, and with the APIs' own clients."""

import asyncio
import base64
import struct
from collections.abc import Iterator
from typing import Any

import ollama
import openai
import pytest

from edgellm.client import LocalClient, SocketClient
from edgellm.errors import RequestError
from edgellm.manager import Manager
from edgellm.types import LoadOptions
from tests.models.recipes.parts import CONTEXT, HIDDEN
from tests.models.tiny import write_tiny
from tests.server.serving import Running, running
from tests.test_embeddings import reranker, vocabulary


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """An encoder, and a reranker."""
    folder = tmp_path_factory.mktemp("embeddings")
    manager, options = Manager(), LoadOptions(backend="reference")
    encoder = write_tiny(folder, "bert", lambda keys, _: vocabulary(keys))
    manager.load(encoder.rename(folder / "encoder.gguf"), options)
    manager.load(write_tiny(folder, "bert", reranker).rename(folder / "scorer.gguf"), options)
    with running(manager, folder) as found:
        yield found


def asked(server: Running, target: str, **fields: Any) -> Any:
    status, answer = server.ask("POST", target, {"model": "encoder", **fields})
    assert status == 200, answer
    return answer


def refused(server: Running, target: str, **fields: Any) -> str:
    status, answer = server.ask("POST", target, {"model": "encoder", **fields})
    assert status == 400, answer
    return str(answer)


def vectors(server: Running, texts: list[Any]) -> list[list[float]]:
    return [e["embedding"] for e in asked(server, "/v1/embeddings", input=texts)["data"]]


def test_openai(server: Running) -> None:
    answer = asked(server, "/v1/embeddings", input=["ab", "c"])
    assert answer["object"] == "list" and answer["model"] == "encoder"
    assert [entry["index"] for entry in answer["data"]] == [0, 1]
    assert answer["usage"] == {"prompt_tokens": 7, "total_tokens": 7}
    one, two = (entry["embedding"] for entry in answer["data"])
    assert len(one) == len(two) == HIDDEN and one != two
    assert sum(x * x for x in one) == pytest.approx(1)
    assert vectors(server, "ab") == [one]  # type: ignore[arg-type]
    ids = server.ask(
        "POST", "/tokenize", {"model": "encoder", "content": "ab", "add_special": True}
    )
    assert vectors(server, ids[1]["tokens"]) == vectors(server, [ids[1]["tokens"]]) == [one]
    (coded,) = asked(server, "/v1/embeddings", input="ab", encoding_format="base64")["data"]
    assert list(struct.unpack(f"<{HIDDEN}f", base64.b64decode(coded["embedding"]))) == one
    (short,) = asked(server, "/v1/embeddings", input="ab", dimensions=5)["data"]
    assert sum(x * x for x in short["embedding"]) == pytest.approx(1)
    assert short["embedding"][0] / short["embedding"][1] == pytest.approx(one[0] / one[1])


def test_what_openai_s_route_refuses(server: Running) -> None:
    assert "input is missing" in refused(server, "/v1/embeddings")
    assert "input is missing" in refused(server, "/v1/embeddings", input=[])
    assert "float or base64" in refused(server, "/v1/embeddings", input="a", encoding_format="x")
    assert "dimensions is 999" in refused(server, "/v1/embeddings", input="a", dimensions=999)
    assert "at most 2048" in refused(server, "/v1/embeddings", input=["a"] * 2049)
    assert "context" in refused(server, "/v1/embeddings", input="a " * CONTEXT)
    assert "vocabulary" in refused(server, "/v1/embeddings", input=[99999])
    assert "no text" in refused(server, "/v1/chat/completions", messages=[{"role": "user"}])


def test_llama_cpp(server: Running) -> None:
    one, two = vectors(server, ["ab", "c"])
    want = [{"index": 0, "embedding": [one]}, {"index": 1, "embedding": [two]}]
    assert asked(server, "/embedding", content=["ab", "c"]) == want
    assert asked(server, "/embeddings", content=["ab", "c"]) == want
    assert asked(server, "/embedding", input="c") == [{"index": 0, "embedding": [two]}]


def test_ollama(server: Running) -> None:
    one, two = vectors(server, ["ab", "c"])
    answer = asked(server, "/api/embed", input=["ab", "c"])
    assert answer["embeddings"] == [one, two] and answer["prompt_eval_count"] == 7
    assert asked(server, "/api/embed", input=[])["embeddings"] == []
    assert asked(server, "/api/embeddings", prompt="ab") == {"embedding": one}
    assert asked(server, "/api/embeddings", prompt="") == {"embedding": []}
    long = asked(server, "/api/embed", input="a " * CONTEXT)
    assert long["prompt_eval_count"] == CONTEXT
    assert long["embeddings"] == vectors(server, ["a " * (CONTEXT - 2)])
    assert "context" in refused(server, "/api/embed", input="a " * CONTEXT, truncate=False)
    longer = "a " * (1 << 20)  # of which most is never made tokens
    assert asked(server, "/api/embed", input=longer)["embeddings"] == long["embeddings"]
    assert "at least" in refused(server, "/api/embed", input=longer, truncate=False)
    assert asked(server, "/api/show")["capabilities"] == ["embedding"]


def test_rerank(server: Running) -> None:
    documents = ["a b", "c", "d e f", "a b"]
    answer = asked(server, "/v1/rerank", model="scorer", query="a", documents=documents)
    scores = [result["relevance_score"] for result in answer["results"]]
    places = [result["index"] for result in answer["results"]]
    assert scores == sorted(scores, reverse=True) and sorted(places) == [0, 1, 2, 3]
    assert places.index(0) + 1 == places.index(3)  # the same text, in the order given
    assert answer["object"] == "list" and answer["usage"]["prompt_tokens"] > 12
    longer = ["a " * (1 << 20)]
    assert "at least" in refused(server, "/rerank", model="scorer", query="a", documents=longer)
    best = asked(server, "/rerank", model="scorer", query="a", documents=documents, top_n=2)
    assert best["results"] == answer["results"][:2]
    tei = asked(
        server, "/rerank", model="scorer", query="a", texts=documents, return_text=True, top_n=1
    )
    assert tei == [{"index": places[0], "score": scores[0], "text": documents[places[0]]}]
    assert "no classifier" in refused(server, "/rerank", query="a", documents=["b"])
    assert "expected" in refused(server, "/rerank", model="scorer", documents=["b"])
    assert "expected" in refused(server, "/rerank", model="scorer", query="a")


def test_the_apis_own_clients(server: Running) -> None:
    (one,) = vectors(server, ["ab"])
    with openai.OpenAI(base_url=f"{server.tcp}/v1", api_key="none") as client:
        found = client.embeddings.create(model="encoder", input=["ab"])  # asks for base64
    assert found.data[0].embedding == pytest.approx(one, abs=1e-7)
    with ollama.Client(server.tcp) as other:
        assert other.embed("encoder", "ab").embeddings[0] == pytest.approx(one)


def test_the_socket_gives_what_the_engine_gives(server: Running) -> None:
    local = server.service.client
    assert isinstance(local, LocalClient)

    async def main() -> None:
        client = SocketClient(server.unix)
        found = await client.embed(["ab", (2, 5, 3)], "none", model="encoder")
        assert [(e.num_tokens, len(e.rows)) for e in found] == [(4, 4), (3, 3)]
        here = asyncio.run_coroutine_threadsafe(
            local.embed(["ab", (2, 5, 3)], "none", model="encoder"), server.loop
        )
        assert found == here.result(20)
        with pytest.raises(RequestError, match="no classifier"):
            await client.rerank("a", ["b"], "encoder")
        (score,) = await client.rerank("a", ["b"], "scorer")
        assert len(score.rows[0]) == 1

    asyncio.run(main())


@pytest.mark.parametrize(
    ("target", "name", "value"),
    [
        ("/v1/embeddings", "input", {"a": 1}),
        ("/v1/embeddings", "input", ["a"] * 2049),
        ("/embedding", "content", 5),
        ("/completion", "prompt", {"a": 1}),
        ("/completion", "prompt", []),
    ],
)
def test_errors_name_the_field_that_was_sent(
    server: Running, target: str, name: str, value: object
) -> None:
    status, answer = server.ask("POST", target, {"model": "encoder", name: value})
    assert status == 400 and answer["error"]["param"] == name
    assert answer["error"]["message"].startswith(name)

"""Embeddings and rerankings in the shapes of OpenAI, llama.cpp, Ollama, Jina and TEI.

Vectors have length 1, as the APIs' own have; a scorer's classifier makes one number.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from edgellm.errors import RequestError
from edgellm.server import fields as f
from edgellm.server.openai import embedding_as
from edgellm.server.prompts import read_prompts
from edgellm.server.routes import Call, Reply, Route
from edgellm.types import Embedding, ModelInfo

MAX_TEXTS = 2048  # of one request, as OpenAI has it


async def openai_embeddings(call: Call) -> Reply:
    """One vector for each text. llama.cpp's own form is told by its field `content`."""
    if call.fields.get("input") is None and call.fields.get("content") is not None:
        return await llama_cpp_embeddings(call)
    form = f.read(call.fields, "encoding_format", str, "float")
    if form not in ("float", "base64"):
        raise RequestError(
            f"encoding_format is {form!r}: float or base64 is expected", "encoding_format"
        )
    info, found = await _embedded(call, "input", _given(call, "input"))
    named = {"encoding_format": form} if form == "base64" else {}
    data = [
        {
            "object": "embedding",
            "index": i,
            "embedding": embedding_as(_vector(call, embedding), form),
            **named,
        }
        for i, embedding in enumerate(found)
    ]
    return {"object": "list", "model": info.name, "data": data, "usage": _usage(found)}


async def llama_cpp_embeddings(call: Call) -> Reply:
    """A list of vectors for each text: of its tokens where the model does not pool."""
    name = "content" if call.fields.get("content") is not None else "input"
    _, found = await _embedded(call, name, _given(call, name))
    return [
        {"index": i, "embedding": [list(row) for row in embedding.rows]}
        for i, embedding in enumerate(found)
    ]


async def ollama_embed(call: Call) -> Reply:
    """Texts that are too long are cut, unless `truncate` is false."""
    begun = time.monotonic_ns()
    given = call.fields.get("input")
    texts = [] if given is None else given
    truncate = f.read(call.fields, "truncate", bool, True)
    info, found = await _embedded(call, "input", texts, truncate)
    return {
        "model": info.name,
        "embeddings": [list(_vector(call, embedding)) for embedding in found],
        "total_duration": time.monotonic_ns() - begun,
        "load_duration": 0,
        "prompt_eval_count": sum(embedding.num_tokens for embedding in found),
    }


async def ollama_embeddings(call: Call) -> Reply:
    """Ollama's older route: one text, one vector."""
    text = f.read(call.fields, "prompt", str, "")
    _, found = await _embedded(call, "prompt", [text] if text else [], truncate=True)
    return {"embedding": list(_vector(call, found[0])) if found else []}


async def rerank(call: Call) -> Reply:
    """Documents by falling score. TEI's form is told by its field `texts`."""
    is_tei = call.fields.get("texts") is not None
    name = "texts" if is_tei else "documents"
    query = f.read(call.fields, "query", str)
    documents = f.read(call.fields, name, tuple[str, ...], ())
    if query is None or not documents:
        raise RequestError(f"a query and {name} are expected", "query" if query is None else name)
    _check_count(documents)
    info = await call.service.model(f.read(call.fields, "model", str))
    found = await call.service.rerank(query, documents, info.name)
    scores = [embedding.rows[0][0] for embedding in found]
    most = f.read(call.fields, "top_n", int, len(scores))
    best = sorted(range(len(scores)), key=lambda i: (-scores[i], i))[: max(0, most)]
    if is_tei:
        shows = f.read(call.fields, "return_text", bool, False)
        texts = [{"text": documents[i]} if shows else {} for i in best]
        return [{"index": i, "score": scores[i], **t} for i, t in zip(best, texts, strict=True)]
    results = [{"index": i, "relevance_score": scores[i]} for i in best]
    return {"model": info.name, "object": "list", "usage": _usage(found), "results": results}


async def _embedded(
    call: Call, name: str, value: Any, truncate: bool = False
) -> tuple[ModelInfo, tuple[Embedding, ...]]:
    """What the texts in the field of this name become."""
    info = await call.service.model(f.read(call.fields, "model", str))
    if value == []:
        return info, ()
    texts = await read_prompts(call.service.client, value, info.name, MAX_TEXTS, name)
    return info, await call.service.embed(texts, None, truncate, info.name)


def _given(call: Call, name: str) -> Any:
    value = call.fields.get(name)
    if value is None or value == []:
        raise RequestError(f"{name} is missing: a text or a list of texts is expected", name)
    return value


def _vector(call: Call, embedding: Embedding) -> Sequence[float]:
    """The one row there is, or its first `dimensions` numbers brought back to length 1."""
    if len(embedding.rows) != 1:
        raise RequestError(
            "the model does not pool: ask /embedding for the vectors of tokens", "model"
        )
    (row,) = embedding.rows
    wanted = f.read(call.fields, "dimensions", int)
    if wanted is None or wanted == len(row):
        return row
    if not 0 < wanted < len(row):
        raise RequestError(f"dimensions is {wanted}: 1 to {len(row)} is expected", "dimensions")
    length = sum(number * number for number in row[:wanted]) ** 0.5
    return [number / length if length else 0.0 for number in row[:wanted]]


def _usage(found: Sequence[Embedding]) -> Mapping[str, int]:
    tokens = sum(embedding.num_tokens for embedding in found)
    return {"prompt_tokens": tokens, "total_tokens": tokens}


def _check_count(texts: Sequence[str]) -> None:
    if len(texts) > MAX_TEXTS:
        raise RequestError(f"{len(texts)} documents: at most {MAX_TEXTS} are read", "documents")


_OPENAI = ("model", "input_texts", "encoding_format", "dimensions")
_RERANK = ("model", "query", "documents", "top_n")
OPENAI_ROUTES = (
    Route("POST", "/v1/embeddings", openai_embeddings, takes=_OPENAI, needs=("input_texts",)),
    Route("POST", "/embeddings", openai_embeddings, takes=_OPENAI, needs=("input_texts",)),
)
LLAMA_CPP_ROUTES = (
    Route(
        "POST", "/embedding", llama_cpp_embeddings, takes=("model", "content"), needs=("content",)
    ),
    *(
        Route("POST", path, rerank, takes=_RERANK, needs=("query", "documents"))
        for path in ("/rerank", "/reranking", "/v1/rerank", "/v1/reranking")
    ),
)
_OLLAMA = ("model", "input_texts", "truncate", "dimensions")
OLLAMA_ROUTES = (
    Route("POST", "/api/embed", ollama_embed, takes=_OLLAMA),
    Route("POST", "/api/embeddings", ollama_embeddings, takes=("model", "prompt_text")),
)

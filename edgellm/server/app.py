"""All route families as one ASGI application. Knows nothing of sockets."""

from collections import defaultdict

from starlette.routing import Route as PathRoute, Router
from starlette.types import ASGIApp

from edgellm.server import (
    anthropic,
    embeddings,
    llama_completion,
    llama_cpp,
    llama_props,
    llama_slots,
    native,
    ollama,
    openai,
    openai_chat,
    openai_text,
    responses,
    status,
)
from edgellm.server.endpoint import Endpoint
from edgellm.server.openapi import document
from edgellm.server.routes import Call, Family, Reply, Route
from edgellm.server.service import Service
from edgellm.server.target import takes_absolute

_OPENAI = Family(
    (
        *openai.ROUTES,
        *embeddings.OPENAI_ROUTES,
        *openai_chat.ROUTES,
        *openai_text.ROUTES,
        *responses.ROUTES,
    ),
    openai.openai_error,
)
_LLAMA_CPP = Family(
    (
        *llama_cpp.ROUTES,
        *llama_props.ROUTES,
        *embeddings.LLAMA_CPP_ROUTES,
        *llama_completion.ROUTES,
        *llama_slots.ROUTES,
        *status.ROUTES,
    ),
    llama_cpp.llama_cpp_error,
)
FAMILIES: tuple[Family, ...] = (  # those asked most go first, as paths are tried in order
    _OPENAI,
    anthropic.FAMILY,
    _LLAMA_CPP,
    ollama.FAMILY,
    native.FAMILY,
)


def make_app(service: Service) -> ASGIApp:
    """The application that answers every route of every family."""
    paths: list[PathRoute] = []
    for family in (*FAMILIES, _described(FAMILIES)):
        by_path: dict[str, dict[str, Route]] = defaultdict(dict)
        for route in family.routes:
            by_path[route.path][route.method] = route
        for path, methods in by_path.items():
            paths.append(PathRoute(path, Endpoint(service, family, methods)))
    nowhere = Endpoint(service, _OPENAI, {})
    return takes_absolute(Router(paths, default=nowhere, redirect_slashes=False))


def _described(families: tuple[Family, ...]) -> Family:
    """The route that tells of all others."""
    told = document(families)

    async def openapi(call: Call) -> Reply:
        return told

    return Family((Route("GET", "/openapi.json", openapi, public=True),), openai.openai_error)

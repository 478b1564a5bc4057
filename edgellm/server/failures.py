"""What went wrong with a request, as HTTP says it. Knows no API's way of writing it down."""

from dataclasses import dataclass

from edgellm.errors import (
    BackendError,
    CatalogError,
    ContextOverflow,
    DeviceLost,
    DownloadError,
    EdgeLLMError,
    GGUFError,
    ModelsBusy,
    NoModel,
    NoSession,
    RequestError,
    SessionError,
)


class Refusal(EdgeLLMError):
    """The server itself says no. kind: the name OpenAI and llama.cpp give this in `type`."""

    def __init__(
        self, status: int, kind: str, message: str, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.retry_after = retry_after


@dataclass(frozen=True)
class Failure:
    """status: of HTTP. retry_after: seconds."""

    status: int
    kind: str
    message: str
    field: str | None
    retry_after: int | None
    error: Exception


# The first class that fits decides.
_KINDS: tuple[tuple[type[Exception], int, str], ...] = (
    (ContextOverflow, 400, "exceed_context_size_error"),
    (NoModel, 404, "not_found_error"),
    (RequestError, 400, "invalid_request_error"),
    (ModelsBusy, 503, "unavailable_error"),
    (DownloadError, 503, "unavailable_error"),
    (CatalogError, 404, "not_found_error"),
    (NoSession, 404, "not_found_error"),
    (SessionError, 400, "invalid_request_error"),
    (DeviceLost, 503, "unavailable_error"),
    (BackendError, 501, "not_supported_error"),
    (GGUFError, 501, "not_supported_error"),
    (TimeoutError, 408, "timeout_error"),
    (RecursionError, 400, "invalid_request_error"),
    (Exception, 500, "server_error"),
)


def failure_of(error: Exception) -> Failure:
    """How an error is told to whoever asked. What is not an error of our own tells no details."""
    if isinstance(error, Refusal):
        return Failure(error.status, error.kind, str(error), None, error.retry_after, error)
    status, kind = next((s, k) for found, s, k in _KINDS if isinstance(error, found))
    field = error.field if isinstance(error, RequestError) else None
    return Failure(status, kind, _message(error), field, None, error)


def _message(error: Exception) -> str:
    if isinstance(error, EdgeLLMError):
        return str(error)
    if isinstance(error, TimeoutError):
        return "the request took longer than it may"
    if isinstance(error, RecursionError):
        return "the request is nested too deeply: flatten it"
    return "an error of the server itself: its log tells more"

"""Every exception a caller of edgellm may see. Knows nothing of the rest of the package.

A message says what was found, what was expected and what to do.
"""


class EdgeLLMError(Exception):
    """Base of all errors raised on purpose."""


class GGUFError(EdgeLLMError):
    """A model file is damaged, unsupported or not a GGUF file."""


class CatalogError(EdgeLLMError):
    """A model name, source or download cannot be used."""


class DownloadError(CatalogError):
    """A download failed for a reason outside this program: trying again later may help."""


class RequestError(EdgeLLMError):
    """A request asks for something that cannot be done; `field` names the part that is wrong."""

    def __init__(self, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


class NoModel(RequestError):
    """No model is meant by the name, or by none."""

    def __init__(self, message: str) -> None:
        super().__init__(message, field="model")


class ContextOverflow(RequestError):
    """The prompt does not fit the context. Both numbers are in tokens.

    at_least: it was so long that its tokens were not counted.
    """

    def __init__(self, prompt_tokens: int, context_length: int, at_least: bool = False) -> None:
        has = "has at least" if at_least else "has"
        super().__init__(
            f"the prompt {has} {prompt_tokens} tokens, which exceeds the available context size of "
            f"{context_length} tokens: shorten it, or load the model with a larger context",
            field="prompt",
        )
        self.prompt_tokens = prompt_tokens
        self.context_length = context_length


class BackendError(EdgeLLMError):
    """A backend cannot run this program on this machine."""


class OutOfDeviceMemory(BackendError):
    """A device has no memory for what it was given: less of it may fit."""


class DriverFault(BackendError):
    """A driver does not build a kernel, or computes something else with it than it says."""


class DeviceLost(BackendError):
    """A device answers no more, and what lay there is lost: the model must be loaded again."""


class ModelsBusy(EdgeLLMError):
    """A model does not fit beside those that are at work: trying again later may help."""


class ConnectionFailed(EdgeLLMError):
    """No server listens there, or it went away before it had answered."""


class SessionError(EdgeLLMError):
    """A saved session is damaged, of another model, or cannot be saved."""


class NoSession(SessionError):
    """There is no saved session of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no saved session {name!r}")
        self.name = name

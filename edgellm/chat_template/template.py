"""A model's chat template: which one, and the prompt it makes. Knows nothing of Jinja itself.

A known template (see `defaults`) is rendered in this process; any other in a worker process.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from edgellm.chat_template.defaults import NAMED, default_family, is_known
from edgellm.chat_template.failure import TemplateFailure
from edgellm.chat_template.messages import read_traits, shape_messages, shape_tools
from edgellm.errors import RequestError

if TYPE_CHECKING:
    from edgellm.chat_template.sandbox import Renderer
    from edgellm.chat_template.worker import Worker
    from edgellm.gguf_loader import GGUFFile

FROM_FILE = "the model file"
MAX_SOURCE = 1_000_000  # characters; the longest template known has 30,000


class ChatTemplate:
    """The template of one model.

    source: the Jinja text. origin: "the model file", or the name of the default that stands in.
    variants: further templates by name, such as "tool_use", used when a request calls for them.
    """

    def __init__(
        self,
        source: str,
        origin: str = FROM_FILE,
        *,
        variants: Mapping[str, str] | None = None,
        bos_text: str = "",
        eos_text: str = "",
    ) -> None:
        self.source = source
        self.origin = origin
        self.variants = dict(variants or {})
        self._special = {"bos_token": bos_text, "eos_token": eos_text}
        self._renderer: Renderer | None = None
        self._worker: Worker | None = None

    @property
    def is_default(self) -> bool:
        """Whether the file brought no template and a default stands in."""
        return self.origin != FROM_FILE

    def render(
        self,
        messages: Any,
        tools: Any = None,
        add_generation_prompt: bool = True,
        **variables: Any,
    ) -> str:
        """The prompt of a conversation, in the text form the tokenizer parses.

        messages: as in the OpenAI chat API. variables: anything more that the template reads, such
        as `documents` or `enable_thinking`; JSON data only.
        Raises RequestError with the field that is wrong; a template's own complaint is "messages".
        Blocks for some milliseconds, and at most a few seconds: call it from a thread, never on an
        event loop.
        """
        tools = shape_tools(tools)
        source = self._choose(tools, variables.get("documents"))
        if len(source) > MAX_SOURCE:
            raise RequestError(
                f"the chat template has {len(source):,} characters; {MAX_SOURCE:,} is the most",
                field="messages",
            )
        traits = read_traits(source)
        values = {"documents": None, **self._special, **variables}
        values["messages"] = shape_messages(messages, traits)
        values["add_generation_prompt"] = bool(add_generation_prompt)
        if tools is not None or not traits.undefined_tools:
            values["tools"] = tools
        try:
            return self._render(source, _as_json(values))
        except TemplateFailure as failure:
            raise RequestError(str(failure), field="messages") from failure

    def close(self) -> None:
        """End the worker process, if one was started."""
        if self._worker is not None:
            self._worker.close()

    def _choose(self, tools: Any, documents: Any) -> str:
        if tools and "tool_use" in self.variants:
            return self.variants["tool_use"]
        if documents and "rag" in self.variants:
            return self.variants["rag"]
        return self.source

    def _render(self, source: str, values: Mapping[str, Any]) -> str:
        if is_known(source):
            if self._renderer is None:
                # Not at the top: jinja2 is slow to load, and most of a program needs none of it.
                from edgellm.chat_template.sandbox import Renderer

                self._renderer = Renderer()
            return self._renderer.render(source, values)
        if self._worker is None:
            from edgellm.chat_template.worker import Worker  # with subprocess: for unknown ones

            self._worker = Worker()
        return self._worker.render(source, values)


def load_chat_template(file: "GGUFFile", bos_text: str, eos_text: str) -> ChatTemplate:
    """The template of a model file, or the default of its family.

    bos_text, eos_text: the text of the tokens that templates call bos_token and eos_token.
    Raises GGUFError when a template's key has the wrong type.
    """
    variants = {}
    for name in file.strings("tokenizer.chat_templates") or ():
        text = file.string(f"tokenizer.chat_template.{name}")
        if text is not None:
            variants[name] = text
    source = file.string("tokenizer.chat_template") or variants.pop("default", None)
    if source is not None and source not in NAMED:
        return ChatTemplate(source, variants=variants, bos_text=bos_text, eos_text=eos_text)
    named = NAMED.get(source or "")
    family = named or default_family(file.strings("tokenizer.ggml.tokens") or ())
    origin = f"the default for {family.name}"
    return ChatTemplate(family.template, origin, bos_text=bos_text, eos_text=eos_text)


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as plain data: what a worker would receive, and nothing a template can reach into.

    Raises RequestError when they are not JSON.
    """
    try:
        plain = json.loads(json.dumps(values))
    except (TypeError, ValueError, RecursionError) as error:
        raise RequestError(
            f"messages, tools and template variables must be JSON data: {error}", field="messages"
        ) from error
    assert isinstance(plain, dict)
    return plain

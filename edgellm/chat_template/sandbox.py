"""Renders one Jinja chat template with every growth capped. Knows nothing of models or processes.

Imports only jinja2 and the standard library: the worker process starts with nothing else.
The environment is the one Hugging Face documents for chat templates ("Writing a chat template" in
the transformers guide): trim_blocks, lstrip_blocks, loop controls, `generation` blocks, `tojson`
without HTML escaping, `raise_exception`, `strftime_now`.

A template is code from a stranger. jinja2's sandbox keeps it from reaching Python; the caps here
keep it from filling memory or running for ever: text and containers have a largest size that is
checked before they are made, loop passes and calls are counted.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import wraps
from threading import Lock
from typing import Any, NoReturn

from jinja2 import TemplateError, TemplateSyntaxError, nodes, pass_context
from jinja2.compiler import CodeGenerator, Frame
from jinja2.environment import Template
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgellm.chat_template.failure import TemplateFailure
from edgellm.chat_template.growth import FILTERS, METHODS, formatted, power, product, weigh

MAX_SIZE = 8_000_000  # characters of any text, and what `weigh` finds of any value
MAX_STEPS = 2_000_000  # loop passes and calls of one render
MAX_ERROR = 2_000  # characters of a message

_STEP = " step"  # a filter name that no template can spell
_HIDDEN = ("_loop_vars", "_block_vars")  # what compiled templates add to the arguments of calls


class Refusal(TemplateError):
    """The template called `raise_exception`."""


class LimitExceeded(TemplateError):
    """A template asked for more than a chat template can need."""


class _Generation(Extension):
    """`{% generation %}...{% endgeneration %}` marks the assistant's own text; it prints it."""

    tags = {"generation"}

    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


class _CodeGenerator(CodeGenerator):
    """Sends `a ~ b`, which jinja2 lets no environment intercept, through the environment."""

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:
        self.write("environment.join_text((")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one template. `steps` counts the render in progress: one at a time."""

    code_generator_class = _CodeGenerator
    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[loopcontrols, _Generation],
            finalize=self.bounded,
        )
        self.steps = 0
        self.filters["tojson"] = tojson
        for name, function in self.filters.items():
            self.filters[name] = self._guarded(function, FILTERS.get(name))
        self.filters[_STEP] = pass_context(lambda context, value: self.step(1))
        del self.globals["lipsum"]
        self.globals.update(
            range=self._range, raise_exception=raise_exception, strftime_now=strftime_now
        )

    def step(self, count: int) -> None:
        """Count loop passes or calls. Raises LimitExceeded when the render had enough of them."""
        self.steps += count
        if self.steps > MAX_STEPS:
            raise LimitExceeded(f"it takes more than {MAX_STEPS:,} loop passes")

    def bounded(self, value: Any) -> Any:
        """`value`, if its text is within MAX_SIZE."""
        check(weigh(value, MAX_SIZE))
        return value

    def concat(self, parts: Iterable[str]) -> str:
        """Join the pieces of a template, block or macro."""
        kept, size = [], 0
        for part in parts:
            size += len(part)
            check(size)
            kept.append(part)
        return "".join(kept)

    def join_text(self, values: Iterable[Any]) -> str:
        """`a ~ b ~ c`."""
        return self.concat(str(self.bounded(value)) for value in values)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        match operator:
            case "*":
                check(product(left, right))
            case "**":
                check(power(left, right))
            case "%" if isinstance(left, (str, bytes)):
                check(formatted(left, right, limit=MAX_SIZE))
            case "+" if hasattr(left, "__len__") and hasattr(right, "__len__"):
                check(len(left) + len(right))
        return super().call_binop(context, operator, left, right)

    def call(  # the names keep clear of the template's own keyword arguments
        self, _context: Context, _function: Any, /, *args: Any, **kwargs: Any
    ) -> Any:
        self.step(1)
        args = tuple(self._collected(value) for value in args)
        owner = getattr(_function, "__self__", None)
        bound = METHODS.get(getattr(_function, "__name__", ""))
        if bound is not None and isinstance(owner, (str, bytes, int)):
            named = {name: value for name, value in kwargs.items() if name not in _HIDDEN}
            check(bound(owner, *args, **named))
        return super().call(_context, _function, *args, **kwargs)

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        inner = super().wrap_str_format(value)
        if inner is None:
            return None

        @wraps(inner)
        def bounded_format(*args: Any, **kwargs: Any) -> str:
            check(formatted(value.__self__, (args, kwargs), limit=MAX_SIZE))
            return inner(*args, **kwargs)

        return bounded_format

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            step = nodes.Filter(nodes.Const(None), _STEP, [], [], None, None)
            loop.body.insert(0, nodes.ExprStmt(step).set_lineno(loop.lineno))
            step.set_lineno(loop.lineno).set_environment(self)
        return tree

    def _range(self, *args: int) -> range:
        numbers = range(*args)
        self.step(len(numbers))
        return numbers

    def _collected(self, value: Any) -> Any:
        """A list in place of a lazy filter's iterator, so that its size can be known."""
        if not isinstance(value, Iterator):
            return value
        items, size = [], 0
        for item in value:
            self.step(1)
            size += weigh(item, MAX_SIZE)
            check(size)
            items.append(item)
        return items

    def _guarded(
        self, function: Callable[..., Any], bound: Callable[..., int] | None
    ) -> Callable[..., Any]:
        """The filter with its input and, where it can grow, its output checked first."""
        hidden = 1 if hasattr(function, "jinja_pass_arg") else 0  # jinja2's own first argument

        @wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self.step(1)
            given = tuple(self._collected(value) for value in args[hidden:])
            check(weigh(given, MAX_SIZE))
            if bound is not None:
                check(bound(*given, **kwargs))
            result = function(*args[:hidden], *given, **kwargs)
            if isinstance(result, str):
                check(len(result))
            return result

        return guarded


def check(size: int) -> None:
    """Raise LimitExceeded when a value of that size would be too large."""
    if size > MAX_SIZE:
        raise LimitExceeded(f"it makes a value larger than {MAX_SIZE:,} characters")


def tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON as Hugging Face's filter writes it: not escaped for HTML."""
    encoder = json.JSONEncoder(
        ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )
    if indent is None and separators is None:
        return encoder.encode(value)
    pieces, size = [], 0
    check(product(" ", indent) if isinstance(indent, int) else 0)
    for piece in encoder.iterencode(value):
        size += len(piece)
        check(size)
        pieces.append(piece)
    return "".join(pieces)


def raise_exception(message: object) -> NoReturn:
    """What a template calls to refuse a conversation."""
    raise Refusal(str(message)[:MAX_ERROR])


def strftime_now(pattern: str) -> str:
    """The local time in strftime's notation."""
    if len(pattern) > 200:
        raise LimitExceeded("it asks strftime_now for more than a date")
    return datetime.now().strftime(pattern)


class Renderer:
    """Renders templates by their source; each is compiled once. Threads take turns."""

    def __init__(self) -> None:
        self._compiled: dict[str, tuple[Sandbox, Template]] = {}
        self._lock = Lock()

    def render(self, source: str, variables: Mapping[str, Any]) -> str:
        """The prompt that `source` makes of `variables`, which are plain JSON data.

        Raises TemplateFailure.
        """
        try:
            with self._lock:
                sandbox, template = self._compile(source)
                sandbox.steps = 0
                return sandbox.concat(template.generate(variables))
        except TemplateSyntaxError as error:
            reason = f"is not valid Jinja: line {error.lineno}: {error.message}"
        except Refusal as error:
            reason = f"says: {error}"
        except LimitExceeded as error:
            reason = f"was stopped: {error}"
        except MemoryError:
            reason = "was stopped: it needs too much memory"
        except RecursionError:
            reason = "was stopped: it is nested too deep"
        except Exception as error:  # whatever a template makes Python raise
            reason = f"failed: {type(error).__name__}: {error}"
        raise TemplateFailure(f"the chat template {reason[:MAX_ERROR]}")

    def _compile(self, source: str) -> tuple[Sandbox, Template]:
        if source not in self._compiled:
            sandbox = Sandbox()
            self._compiled[source] = sandbox, sandbox.from_string(source)
        return self._compiled[source]

"""Which dialect a model has: its chat template's own markers tell. One row each."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Protocol

from edgellm.dialects import (
    apertus,
    bare_json,
    deepseek,
    functionary,
    gemma,
    gigachat,
    glm,
    harmony,
    hermes,
    invoke_xml,
    mistral,
    pythonic,
    qwen_xml,
    tagged_json,
)
from edgellm.dialects.functions import Tools
from edgellm.dialects.lark import Lark
from edgellm.dialects.reader import Reader, Reading


@dataclass(frozen=True)
class Dialect:
    """A way of writing calls. told_by: texts that are all in the templates of its models.

    read: takes the content of an answer apart. write: the grammar of an answer that calls, for
    `Lark`. say: that of one whose content is an expression. choose: that of a call or content of a
    schema, where those cannot be told apart by how they begin. marks: what it reads that may be
    control tokens. has_channels: reasoning is its business too, and it is read even without tools.
    is_taught: the model must be told how to write calls, its template does not.
    """

    name: str
    told_by: tuple[str, ...]
    read: Callable[[Reader], Reading[None]]
    write: Callable[[Lark, Tools], str]
    marks: tuple[str, ...] = ()
    has_channels: bool = False
    is_taught: bool = False
    say: Callable[[Lark, str], str] = lambda _, said: said
    choose: Callable[[Lark, Tools, Any], str] | None = None


_V3, _V31, _KIMI = deepseek.V3, deepseek.V31, deepseek.KIMI
_GEMMA4, _FUNCTION_GEMMA, _LFM = gemma.GEMMA4, gemma.FUNCTION_GEMMA, pythonic.LFM
_CODE, _OLMO = pythonic.GEMMA_CODE, pythonic.OLMO
_MISTRAL = (mistral.OPEN, mistral.ARGS, "[CALL_ID]")
_TAGS = (hermes.OPEN, hermes.CLOSE)
_QWEN, _DSML = qwen_xml.QWEN, invoke_xml.DSML
_PHI, _GRANITE = tagged_json.PHI, tagged_json.GRANITE
_GLM = (*_TAGS, "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>")
_PYTHON = bare_json.PYTHON_TAG


_TEMPLATES = 16  # whose dialect is remembered: every request asks


class _Marks(Protocol):
    """The markers of a family."""

    @property
    def open(self) -> str: ...
    @property
    def all(self) -> tuple[str, ...]: ...
    def read(self, reader: Reader) -> Reading[None]: ...
    def write(self, lark: Lark, tools: Tools) -> str: ...


def _marked(name: str, marks: _Marks) -> Dialect:
    """One that is told by what opens its calls."""
    return Dialect(name, (marks.open,), marks.read, marks.write, marks.all)


def _llama(*told_by: str) -> Dialect:
    read, write, choose = bare_json.read, bare_json.write_llama, bare_json.choose_llama
    return Dialect("llama", told_by, read, write, (_PYTHON,), choose=choose)


# The first whose texts are all in the template is taken, so the narrower one goes first.
DIALECTS = (
    Dialect(
        "harmony",
        (harmony.CHANNEL, harmony.MESSAGE),
        harmony.read,
        harmony.write,
        harmony.MARKS,
        has_channels=True,
        say=harmony.say,
    ),
    Dialect("deepseek v3", (_V3.begin, "```json"), _V3.read, _V3.write, _V3.all),
    Dialect("deepseek v3.1", (_V31.begin,), _V31.read, _V31.write, _V31.all),
    Dialect("kimi", (_KIMI.begin,), _KIMI.read, _KIMI.write, _KIMI.all),
    Dialect("mistral", _MISTRAL[:2], mistral.read, mistral.write_named, _MISTRAL),
    Dialect("mistral json", _MISTRAL[:1], mistral.read, mistral.write_array, _MISTRAL),
    Dialect("gemma 4", (_GEMMA4.open,), _GEMMA4.read, _GEMMA4.write, _GEMMA4.all),
    Dialect(
        "function gemma",
        (_FUNCTION_GEMMA.open,),
        _FUNCTION_GEMMA.read,
        _FUNCTION_GEMMA.write,
        _FUNCTION_GEMMA.all,
    ),
    Dialect("lfm", (_LFM.open,), _LFM.read, _LFM.write, (_LFM.open, _LFM.close)),
    Dialect("lfm", ("<|tool_list_start|>",), _LFM.read, _LFM.write, (_LFM.open, _LFM.close)),
    _marked("minimax", invoke_xml.MINIMAX),
    Dialect("dsml", ("｜DSML｜",), _DSML.read, _DSML.write, _DSML.all),
    _marked("seed", qwen_xml.SEED),
    _marked("command", tagged_json.COMMAND),
    Dialect(
        "gigachat", (gigachat.CALL, gigachat.ROLE), gigachat.read, gigachat.write, gigachat.MARKS
    ),
    Dialect("apertus", (apertus.OPEN,), apertus.read, apertus.write, apertus.MARKS),
    Dialect("phi", ("<|/tool_call|>",), _PHI.read, _PHI.write, _PHI.all),
    _marked("granite", _GRANITE),
    _marked("nemotron", tagged_json.NEMOTRON),
    _marked("fire function", tagged_json.FIRE_FUNCTION),
    Dialect("olmo", (_OLMO.open,), _OLMO.read, _OLMO.write),
    Dialect("glm", ("<arg_key>",), glm.read, glm.write, _GLM),
    _marked("tool calls", tagged_json.TOOL_CALLS),
    Dialect("qwen xml", ("<function=", "<parameter="), _QWEN.read, _QWEN.write, _QWEN.all),
    Dialect("hermes", (hermes.OPEN,), hermes.read, hermes.write, _TAGS),
    Dialect("granite", ("tools<|end_of_role|>",), _GRANITE.read, _GRANITE.write, _GRANITE.all),
    Dialect(
        "functionary",
        (functionary.ALL,),
        functionary.read,
        functionary.write,
        has_channels=True,
        say=functionary.say,
    ),
    Dialect("function tags", ("<function=",), functionary.read_tags, functionary.write_tags),
    Dialect("python list", ("[func_name1(",), pythonic.read_bare, pythonic.write_bare),
    _llama('"parameters": dictionary of'),
    _llama(_PYTHON),
    Dialect("gemma code", ("tool_code",), _CODE.read, _CODE.write),
)
TAUGHT = Dialect(
    "json", (), bare_json.read, bare_json.write, is_taught=True, choose=bare_json.choose
)


@dataclass(frozen=True)
class Thinking:
    """Markers around reasoning, which comes before all else in an answer. label: follows open."""

    open: str
    close: str
    label: str = ""


THINKING = (
    Thinking("<think>", "</think>"),
    Thinking("[THINK]", "[/THINK]"),
    Thinking("<|channel>", "<channel|>", "thought"),
    Thinking("<seed:think>", "</seed:think>"),
    Thinking("<|START_THINKING|>", "<|END_THINKING|>"),
    Thinking("<|inner_prefix|>", "<|inner_suffix|>"),
)
MARKS = frozenset(
    mark
    for marks in (*(d.marks for d in DIALECTS), *((t.open, t.close) for t in THINKING))
    for mark in marks
)


@lru_cache(_TEMPLATES)
def dialect_of(template: str) -> Dialect:
    """The dialect of a model with this chat template."""
    for dialect in DIALECTS:
        if all(text in template for text in dialect.told_by):
            return dialect
    return TAUGHT


def can_think(template: str) -> bool:
    """Whether a model with this chat template writes its reasoning apart."""
    return thinking_of(template) is not None or dialect_of(template).has_channels


@lru_cache(_TEMPLATES)
def thinking_of(template: str) -> Thinking | None:
    """The markers around reasoning, of a model whose template has such."""
    # Some templates only take reasoning away, and so have its end alone.
    return next((thinking for thinking in THINKING if thinking.close in template), None)

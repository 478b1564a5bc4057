"""Answers that must have a form: JSON Schema, regular expression, GBNF, Lark, a list of choices.

llguidance says which tokens may come next; it is loaded when a constraint is first used. Knows
nothing of logits' origin or of sampling. The names load on first use: most answers have no form,
and need nothing of what reads grammars.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from edgellm.constraints.compiled import compile_constraint
    from edgellm.constraints.constraint import Constraint
    from edgellm.constraints.schema import embedded, schema_text
    from edgellm.constraints.words import Words

_HOMES = {
    "Constraint": "edgellm.constraints.constraint",
    "Words": "edgellm.constraints.words",
    "compile_constraint": "edgellm.constraints.compiled",
    "embedded": "edgellm.constraints.schema",
    "schema_text": "edgellm.constraints.schema",
}

__all__ = ["Constraint", "Words", "compile_constraint", "embedded", "schema_text"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'edgellm.constraints' has no attribute {name!r}")
    return getattr(import_module(home), name)

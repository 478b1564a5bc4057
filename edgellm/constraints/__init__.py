"""Answers that must have a form: JSON Schema, regular expression, GBNF, Lark, a list of choices.

llguidance says which tokens may come next; it is loaded when a constraint is first used. Knows
nothing of logits' origin or of sampling.
"""

from edgellm.constraints.constraint import Constraint, compile_constraint
from edgellm.constraints.schema import embedded, schema_text
from edgellm.constraints.words import Words

__all__ = ["Constraint", "Words", "compile_constraint", "embedded", "schema_text"]

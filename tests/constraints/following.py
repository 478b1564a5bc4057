"""Lets a constraint follow a text byte by byte."""

from functools import cache
from typing import Any

import pytest

from edgellm.constraints import Constraint, Words, compile_constraint
from edgellm.errors import RequestError
from edgellm.sampling_params import SamplingParams
from tests.mock_model import EOG, VOCAB_SIZE, ByteTokenizer


@cache
def words() -> Words:
    return Words(ByteTokenizer())  # type: ignore[arg-type]


def compiled(**params: Any) -> Constraint:
    made = compile_constraint(SamplingParams(**params), words)
    assert made is not None
    return made


def matches(text: str, **params: Any) -> bool:
    """Whether each byte is allowed in turn, and the end after them."""
    constraint = compiled(**params)
    for byte in text.encode():
        if constraint.is_complete or not constraint.allowed(VOCAB_SIZE)[byte]:
            return False
        constraint.accept(byte)
    return constraint.is_complete or bool(constraint.allowed(VOCAB_SIZE)[EOG])


def refused(**params: Any) -> str:
    """The message of the error that names the only parameter."""
    with pytest.raises(RequestError) as found:
        compiled(**params)
    assert found.value.field in params
    return str(found.value)

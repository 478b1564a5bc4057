"""Prompts in all forms that completion routes take."""

import asyncio
from typing import Any

import pytest

from edgellm.errors import RequestError
from edgellm.server.prompts import read_prompts

BOS = 300


class Characters:
    """A client whose tokens are characters."""

    async def tokenize(self, text: str, add_special: bool, model: str) -> list[int]:
        return [BOS] * add_special + [ord(c) for c in text]


def read(value: Any) -> list[Any]:
    client: Any = Characters()
    return asyncio.run(read_prompts(client, value, "model", most=3))


@pytest.mark.parametrize(
    ("value", "prompts"),
    [
        (None, [""]),
        ("a", ["a"]),
        ({"prompt_string": "a", "multimodal_data": []}, ["a"]),
        (["a", "b", "c"], ["a", "b", "c"]),
        ([1, 2, 3, 4], [(1, 2, 3, 4)]),
        ([[1], "a", [2, "bc"]], [(1,), "a", (2, 98, 99)]),
        (["a", 1, "b"], [(BOS, 97, 1, 98)]),
    ],
)
def test_forms(value: Any, prompts: list[Any]) -> None:
    assert read(value) == prompts


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ([], "empty list"),
        (["a"] * 4, "4 texts: at most 3"),
        ({"prompt_string": "a", "multimodal_data": ["x"]}, "only text"),
        ([1, True], "neither text nor a list"),
        ([[1, None]], "neither text nor a list"),
        (5, "neither text nor a list"),
    ],
)
def test_what_is_no_prompt(value: Any, said: str) -> None:
    with pytest.raises(RequestError, match=said) as refused:
        read(value)
    assert refused.value.field == "prompt"

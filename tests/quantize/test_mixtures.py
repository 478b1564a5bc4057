"""Mixtures give tensors the types that llama.cpp b11434's `llama_model_quantize` gives them.

`mixtures.json` has what it said of the outlines: for each mixture, kinds of tensors and the types
of theirs over the layers.
"""

import json
from pathlib import Path

import pytest

from edgellm.gguf_loader import open_gguf
from edgellm.quantize.plan import make_plan
from tests.quantize.outlines import OUTLINES, runs, write_outline

WANT = json.loads((Path(__file__).parent / "mixtures.json").read_text())


@pytest.mark.parametrize("name", OUTLINES)
def test_types_are_those_of_llama_cpp(tmp_path: Path, name: str) -> None:
    with open_gguf(write_outline(tmp_path / "outline.gguf", OUTLINES[name])) as file:
        for mixture, want in WANT[name].items():
            plan = make_plan(file, mixture)
            got = runs({planned.tensor.name: planned.type for planned in plan.tensors})
            kinds = {kind: text for both, text in want.items() for kind in both.split()}
            assert got == kinds, mixture


def test_every_outline_is_there() -> None:
    assert WANT.keys() == OUTLINES.keys()
    assert min(map(len, WANT.values())) > 30

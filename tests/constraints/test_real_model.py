"""Answers of SmolLM2 under random JSON Schemas, judged by the package `jsonschema`."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import edgellm

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "schemas.py"


@pytest.mark.weights
def test_what_ends_by_itself_is_valid(smollm2: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_from_file_location("schemas", SCRIPT)
    assert spec is not None and spec.loader is not None
    script = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "schemas", script)  # its dataclasses look themselves up
    spec.loader.exec_module(script)
    with edgellm.load(smollm2, max_num_seqs=8) as model:
        done = list(script.runs(model, range(100, 108), max_tokens=100))
    ended = [run for run in done if run.finish_reason == "stop"]
    assert all(run.is_valid for run in ended), ended
    assert len(ended) >= 5

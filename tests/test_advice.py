"""What files advise on sampling."""

from types import SimpleNamespace
from typing import Any

import pytest

from edgellm.advice import advised_by


def advice(**keys: Any) -> tuple[dict[str, Any], list[str]]:
    notes: list[str] = []
    metadata = {f"general.sampling.{key}": value for key, value in keys.items()}
    return dict(advised_by(SimpleNamespace(metadata=metadata), notes.append)), notes  # type: ignore[arg-type]


def test_the_keys_of_llama_cpp() -> None:
    found, notes = advice(
        temp=0.6, top_k=20, penalty_last_n=32, penalty_repeat=1.1, sequence="top_k;temperature"
    )
    assert not notes
    assert found == {
        "temperature": 0.6,
        "top_k": 20,
        "repeat_last_n": 32,
        "repeat_penalty": 1.1,
        "samplers": ("top_k", "temperature"),
    }


@pytest.mark.parametrize("bad", [float("nan"), -3.0, "hot", True, b"x", [1.0]])
def test_a_value_of_no_use_is_left_out_and_said(bad: Any) -> None:
    found, notes = advice(temp=bad, top_p=0.5)
    assert found == {"top_p": 0.5}
    assert len(notes) == 1 and "general.sampling.temp" in notes[0]

"""What errors cost: the divergence of the whole model over the errors made, kind by kind."""

from pathlib import Path

import numpy as np
import pytest

from edgellm.backends import Backends
from edgellm.gguf_loader import open_gguf
from edgellm.quantize.plan import plan_of
from edgellm.quantize.probes import costs
from edgellm.quantize.sensitivity import measure
from edgellm.quantize.write import write_quantized
from tests.models.running import logits_of
from tests.models.tiny import write_tiny

IDS = [1, 5, 3, 7, 2, 9, 11, 4, 8, 6, 10, 12, 5, 9, 3, 2]


def log_softmax(rows: np.ndarray) -> np.ndarray:
    rows = rows.astype(np.float64)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("name", ["llama", "qwen3moe"])
def test_cost_times_error_is_the_divergence(tmp_path: Path, name: str) -> None:
    path = write_tiny(tmp_path, name, format_name="F16")
    backends = Backends(print)
    seen: list[tuple[int, int, str]] = []
    try:
        with open_gguf(path) as file:
            found = costs(file, [IDS], {}, backends, watch=lambda *done: seen.append(done))
            names = [n for n in file.tensors if "attn_v.weight" in n]
            plan = plan_of(file, dict.fromkeys(names, "Q4_0"))
            out = tmp_path / "out.gguf"
            write_quantized(file, plan, out, 1)
            tensors = [file.tensors[n] for n in names]
            errors = measure(file, tensors, ["Q4_0"], {}, 1)
        load = backends.get("cpu").load
        half = len(IDS) // 2
        truth = log_softmax(logits_of(path, IDS, load)[half:])
        moved = log_softmax(logits_of(out, IDS, load)[half:])
    finally:
        backends.close()
    assert {"attn_q", "attn_v", "token_embd"} <= found.keys()
    assert seen[0][0] == 0 and seen[-1][:2] == (len(found), len(found))
    divergence = (np.exp(truth) * (truth - moved)).sum(axis=1).mean()
    error = sum(choices[1].error for choices in errors.values())
    assert found["attn_v"] == pytest.approx(divergence / error, rel=0.1)

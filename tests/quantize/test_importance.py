"""Importance matrices: what is written is read, and what cannot be is refused."""

from pathlib import Path

import numpy as np
import pytest
from gguf import GGUFReader

from edgellm.errors import GGUFError
from edgellm.quantize.importance import Driven, read_importance, write_importance
from tests.gguf_writer import F16, F32, Tensor, write_gguf

KEYS = {"general.type": "imatrix", "imatrix.datasets": ["text"], "imatrix.chunk_count": 3}


def pair(sums: list[list[float]], counts: list[float]) -> list[Tensor]:
    values = np.array(sums, np.float32)
    return [
        ("w.in_sum2", values.shape[::-1], F32, values),
        ("w.counts", (1, len(counts)), F32, np.array(counts, np.float32)),
    ]


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "i.gguf"
    driven = {
        "blk.0.ffn_up.weight": Driven(np.array([[2.0, 8, 0]]), np.array([4])),
        "blk.0.ffn_up_exps.weight": Driven(np.array([[2.0], [3.0]]), np.array([2, 0])),
    }
    write_importance(path, driven, ["a.txt"], 5, 512)
    found = read_importance(path)
    assert found.datasets == ("a.txt",) and found.chunks == 5
    assert found.means["blk.0.ffn_up.weight"].tolist() == [[0.5, 2, 0]]
    assert found.means["blk.0.ffn_up_exps.weight"].tolist() == [[1], [1]]  # no token: all alike
    reader = GGUFReader(path)
    assert {t.name: t.shape.tolist() for t in reader.tensors} == {
        "blk.0.ffn_up.weight.in_sum2": [3, 1],
        "blk.0.ffn_up.weight.counts": [1, 1],
        "blk.0.ffn_up_exps.weight.in_sum2": [1, 2],
        "blk.0.ffn_up_exps.weight.counts": [1, 2],
    }


def test_a_file_as_llama_cpp_writes_it(tmp_path: Path) -> None:
    path = write_gguf(tmp_path / "i.gguf", KEYS, pair([[3, 6, 9]], [3]))
    assert read_importance(path).means["w"].tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("keys", "tensors", "message"),
    [
        ({"general.type": "model"}, pair([[1]], [1]), "no importance matrix"),
        (KEYS, pair([[1]], [1])[:1], "no tensor 'w.counts'"),
        (KEYS, pair([[1], [2]], [1]), "2 rows of sums and 1 counts"),
        (KEYS, pair([[np.nan]], [1]), "negative or not finite"),
        (KEYS, pair([[-1]], [1]), "negative or not finite"),
        (KEYS, pair([[1]], [np.inf]), "negative or not finite"),
        (KEYS, [("w.in_sum2", (1,), F16, bytes(2)), *pair([[1]], [1])[1:]], "F16, expected F32"),
    ],
)
def test_what_cannot_be_is_refused(
    tmp_path: Path, keys: dict[str, object], tensors: list[Tensor], message: str
) -> None:
    path = write_gguf(tmp_path / "i.gguf", keys, tensors)
    with pytest.raises(GGUFError, match=message):
        read_importance(path)

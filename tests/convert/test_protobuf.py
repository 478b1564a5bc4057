"""SentencePiece's files: what they hold, and that no damage hangs or is overlooked."""

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from edgellm.convert.tokenizers.protobuf import BPE, read_pieces
from edgellm.errors import GGUFError
from tests.convert.tokenizers import FOLDER

MODEL = FOLDER / "sentencepiece-bpe" / "tokenizer.model"


def test_pieces_and_settings() -> None:
    found = read_pieces(MODEL)
    assert found.model_type == BPE and found.add_dummy_prefix
    assert not found.remove_extra_whitespaces and found.charsmap == b""
    assert found.ids == {"unk": 0, "bos": 1, "eos": 2, "pad": 3}
    assert [piece.text for piece in found.pieces[:5]] == ["<unk>", "<s>", "</s>", "<pad>", "<tool>"]
    assert [piece.type for piece in found.pieces[:6]] == [2, 3, 3, 3, 4, 6]


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff" * 20, b"\x0a\x7f", b"\x0a", b"\x0f", b"\x12\x00", b"\x0a\x02\x18\x09", b"\x09ab"],
)
def test_damage_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tokenizer.model").write_bytes(content)
    with pytest.raises(GGUFError, match="is no SentencePiece model"):
        read_pieces(tmp_path / "tokenizer.model")


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_any_change_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = tmp_path_factory.getbasetemp() / "changed.model"
    content = bytearray(MODEL.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(content[: data.draw(st.integers(1, len(content)))]))
    try:
        found = read_pieces(path)
    except GGUFError:
        return
    assert all(1 <= piece.type <= 6 for piece in found.pieces)

"""Split models: opened whole from any part, and refused when a part is missing or wrong."""

import re
from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from tests import gguf_writer as w

COUNT = 3
TENSORS: list[w.Tensor] = [(f"t{i}", (8,), w.F32, bytes([i]) * 32) for i in range(4)]
SHARES = (TENSORS[:1], TENSORS[1:3], TENSORS[3:])


def name(number: int, count: int = COUNT) -> str:
    return f"model-{number:05}-of-{count:05}.gguf"


def keys(number: int) -> dict[str, Any]:
    """The split keys of part `number`, from 1."""
    return {
        "split.no": w.uint16(number - 1),
        "split.count": w.uint16(COUNT),
        "split.tensors.count": w.int32(len(TENSORS)),
    }


def write_part(
    folder: Path, number: int, tensors: list[w.Tensor] | None = None, **options: Any
) -> None:
    changed = options.pop("metadata", {})
    metadata = {**({"general.name": "m"} if number == 1 else {}), **keys(number), **changed}
    metadata = {key: value for key, value in metadata.items() if value is not None}
    share = SHARES[number - 1] if tensors is None else tensors
    w.write_gguf(folder / name(number), metadata, share, **options)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a model in three parts, the second with an alignment of its own."""
    for number in range(1, COUNT + 1):
        write_part(tmp_path, number, alignment=64 if number == 2 else 32)
    return tmp_path


@pytest.mark.parametrize("number", [1, 2, 3])
def test_opens_from_any_part(folder: Path, number: int) -> None:
    with open_gguf(folder / name(number)) as file:
        assert file.path == folder / name(number)
        assert file.parts == tuple(folder / name(i) for i in (1, 2, 3))
        assert file.string("general.name") == "m"
        assert list(file.tensors) == ["t0", "t1", "t2", "t3"]
        assert [file.tensors[f"t{i}"].part for i in range(4)] == [0, 1, 1, 2]
        assert [file.data(f"t{i}").tobytes() for i in range(4)] == [d for *_, d in TENSORS]
        assert file.num_parameters == 32


def test_first_part_without_tensors(folder: Path) -> None:
    write_part(folder, 1, [])
    write_part(folder, 2, TENSORS[:3])
    assert list(open_gguf(folder / name(3)).tensors) == ["t0", "t1", "t2", "t3"]


@pytest.mark.parametrize("missing", [1, 2, 3])
@pytest.mark.parametrize("opened", [1, 2, 3])
def test_a_missing_part_is_named(folder: Path, missing: int, opened: int) -> None:
    gone = folder / name(missing)
    gone.unlink()
    said = f"part {missing} of 3 is missing, expected {gone}"
    if missing == opened:
        said = f"{gone}: there is no such file"
    with pytest.raises(GGUFError, match=re.escape(said)):
        open_gguf(folder / name(opened))


WRONG: dict[str, tuple[int, dict[str, Any], str]] = {
    "no of another": (2, {"split.no": w.uint16(2)}, "'split.no' is 2, expected 1"),
    "no missing": (3, {"split.no": None}, "the key 'split.no' is missing, expected 2"),
    "no as text": (1, {"split.no": "0"}, "'split.no' is the string '0', expected an integer"),
    "no as bool": (1, {"split.no": False}, "'split.no' is a bool, expected an integer"),
    "count": (2, {"split.count": w.uint16(2)}, "'split.count' is 2, expected 3"),
    "count missing": (1, {"split.count": None}, "the key 'split.count' is missing, expected 3"),
    "tensors": (1, {"split.tensors.count": w.int32(5)}, "is 5, expected 4"),
    "tensors of a later part": (3, {"split.tensors.count": w.int32(1)}, "1, expected 4"),
    "tensors missing": (1, {"split.tensors.count": None}, "'split.tensors.count' is missing"),
}


@pytest.mark.parametrize("case", WRONG)
def test_split_keys_are_checked(folder: Path, case: str) -> None:
    number, metadata, said = WRONG[case]
    write_part(folder, number, metadata=metadata)
    with pytest.raises(GGUFError, match=re.escape(said)) as caught:
        open_gguf(folder / name(1))
    assert str(caught.value).startswith(str(folder / name(number)))


def test_a_tensor_in_two_parts(folder: Path) -> None:
    write_part(folder, 3, TENSORS[:1])
    with pytest.raises(GGUFError, match="the tensor 't0' is also in"):
        open_gguf(folder / name(1))


def test_parts_in_two_byte_orders(folder: Path) -> None:
    write_part(folder, 2, byte_order="big")
    with pytest.raises(GGUFError, match="is big-endian and the first part is not"):
        open_gguf(folder / name(1))


def test_a_part_under_another_name(folder: Path) -> None:
    path = folder / "model.gguf"
    (folder / name(1)).rename(path)
    with pytest.raises(GGUFError, match="'split.count' is 3, expected 1: open the"):
        open_gguf(path)


def test_parts_joined_to_one(folder: Path) -> None:
    path = folder / "model.gguf"
    path.write_bytes(b"".join((folder / name(i)).read_bytes() for i in (1, 2, 3)))
    with pytest.raises(GGUFError, match="the parts of a split were joined"):
        open_gguf(path)


def test_parts_swapped(folder: Path) -> None:
    one, two = folder / name(1), folder / name(2)
    one.rename(folder / "x")
    two.rename(one)
    (folder / "x").rename(two)
    with pytest.raises(GGUFError, match="'split.no' is 1, expected 0"):
        open_gguf(two)


@pytest.mark.parametrize("number", [0, 4])
def test_a_number_outside_the_count(tmp_path: Path, number: int) -> None:
    with pytest.raises(GGUFError, match=f"its name says part {number} of 3"):
        open_gguf(w.write_gguf(tmp_path / name(number), {}))


def test_a_split_of_one(tmp_path: Path) -> None:
    path = w.write_gguf(tmp_path / name(1, 1), {"k": 1}, TENSORS)
    assert open_gguf(path).parts == (path,)


def test_a_merged_model_has_a_count_of_0(tmp_path: Path) -> None:
    metadata = {**keys(1), "split.count": w.uint16(0)}
    assert len(open_gguf(w.write_gguf(tmp_path / "a.gguf", metadata, TENSORS)).tensors) == 4


def test_a_part_of_a_split_with_a_count_of_0(folder: Path) -> None:
    write_part(folder, 1, metadata={"split.count": w.uint16(0)})
    with pytest.raises(GGUFError, match="'split.count' is 0, expected 3"):
        open_gguf(folder / name(1))

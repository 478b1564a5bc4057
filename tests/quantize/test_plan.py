"""Which type each tensor gets."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import RequestError
from edgellm.gguf_loader import GGUFFile, open_gguf
from edgellm.kernels.formats import by_name
from edgellm.quantize.plan import Plan, is_requantized, make_plan, parse_override
from edgellm.quantize.recipes import RECIPES
from tests.gguf_writer import F16, F32, write_gguf

LAYERS = 16


def write_model(
    folder: Path, width: int = 256, tied: bool = False, heads: tuple[int, int] = (4, 4), **keys: Any
) -> Path:
    """A file of matrices of zeros, one row each but for what must be a matrix."""
    metadata = {
        "general.architecture": "llama",
        "llama.block_count": LAYERS,
        "llama.attention.head_count": heads[0],
        "llama.attention.head_count_kv": heads[1],
        **{f"llama.{name}": value for name, value in keys.items()},
    }
    matrix = (width, 2)
    names = ["token_embd.weight", *([] if tied else ["output.weight"])]
    parts = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    names += [f"blk.{i}.{part}.weight" for i in range(LAYERS) for part in parts]
    tensors: list[Any] = [(name, matrix, F16, bytes(4 * width)) for name in names]
    tensors += [("blk.0.attn_norm.weight", matrix, F32, bytes(8 * width))]
    tensors += [("output_norm.weight", (width,), F32, bytes(4 * width))]
    tensors += [("blk.0.ffn_gate_inp.weight", matrix, F32, bytes(8 * width))]
    tensors += [("blk.0.ffn_down.bias", matrix, F32, bytes(8 * width))]
    return write_gguf(folder / "model.gguf", metadata, tensors)


def types(plan: Plan) -> dict[str, str]:
    return {planned.tensor.name: planned.type for planned in plan.tensors}


def layers_of(plan: Plan, part: str, name: str) -> list[int]:
    """The layers whose tensor `part` has the type `name`."""
    found = types(plan)
    return [i for i in range(LAYERS) if found[f"blk.{i}.{part}.weight"] == name]


def planned(path: Path, *args: Any, **options: Any) -> Plan:
    with open_gguf(path) as file:
        return make_plan(file, *args, **options)


@pytest.mark.parametrize("name", RECIPES)
def test_every_mixture(tmp_path: Path, name: str) -> None:
    found = types(planned(write_model(tmp_path), name))
    base = RECIPES[name].base if RECIPES[name].single is None else RECIPES[name].single
    assert base in found.values()
    assert all(by_name(used).quantize is not None for used in found.values())
    for kept in ("blk.0.attn_norm", "output_norm", "blk.0.ffn_gate_inp"):
        assert found[f"{kept}.weight"] == "F32"
    assert found["blk.0.ffn_down.bias"] == "F32"
    if base not in ("F32", "F16", "BF16"):
        assert found["output.weight"] in ("Q5_K", "Q6_K", "Q8_0")


def test_more_bits_at_the_ends_and_for_each_third(tmp_path: Path) -> None:
    plan = planned(write_model(tmp_path), "Q4_K_M")
    more = [0, 1, 4, 7, 10, 13, 14, 15]
    assert layers_of(plan, "attn_v", "Q6_K") == more
    assert layers_of(plan, "ffn_down", "Q6_K") == more
    assert layers_of(plan, "ffn_up", "Q4_K") == list(range(LAYERS))
    assert types(plan)["token_embd.weight"] == "Q4_K"


def test_first_layers(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    plan = planned(path, "q3_k")  # an alias, in any case
    assert plan.name == "Q3_K_M"
    assert layers_of(plan, "attn_v", "Q5_K") == [0, 1]
    assert layers_of(plan, "ffn_down", "Q5_K") == [0]
    assert layers_of(planned(path, "Q4_K_S"), "attn_v", "Q5_K") == [0, 1, 2, 3]
    assert layers_of(planned(path, "IQ3_XS"), "ffn_up", "IQ3_S") == [0, 1, 14, 15]


def test_shared_heads_and_importance_count(tmp_path: Path) -> None:
    alone = write_model(tmp_path)
    assert layers_of(planned(alone, "Q2_K"), "attn_v", "Q3_K") == list(range(LAYERS))
    assert layers_of(planned(alone, "Q4_0"), "ffn_down", "Q4_1") == []
    assert layers_of(planned(alone, "Q4_0", has_importance=True), "ffn_down", "Q4_1") == [0, 1]
    shared = write_model(tmp_path, heads=(8, 2))
    assert layers_of(planned(shared, "Q2_K"), "attn_v", "Q4_K") == list(range(LAYERS))


def test_eight_experts(tmp_path: Path) -> None:
    plan = planned(write_model(tmp_path, expert_count=8), "Q3_K_L")
    every = list(range(LAYERS))
    assert layers_of(plan, "attn_v", "Q8_0") == layers_of(plan, "attn_k", "Q8_0") == every
    assert layers_of(plan, "attn_output", "Q3_K") == every
    small = planned(write_model(tmp_path, expert_count=8), "IQ2_XS")
    assert layers_of(small, "attn_v", "Q4_K") == layers_of(small, "attn_k", "Q4_K") == every


def test_tied_embeddings_are_an_output(tmp_path: Path) -> None:
    found = types(planned(write_model(tmp_path, tied=True), "Q4_K_S"))
    assert found["token_embd.weight"] == "Q6_K"


def test_what_does_not_fit_falls_back(tmp_path: Path) -> None:
    plan = planned(write_model(tmp_path, width=96), "Q4_K_M")
    by = {p.tensor.name: (p.type, p.fallback_of) for p in plan.tensors}
    assert by["blk.2.ffn_up.weight"] == ("Q5_0", "Q4_K")
    assert by["blk.0.attn_v.weight"] == ("Q8_0", "Q6_K")
    assert by["output.weight"] == ("Q8_0", None)
    odd = planned(write_model(tmp_path, width=40), "IQ4_XS")
    assert {p.type for p in odd.tensors} == {"F16", "F32"}


def test_overrides_and_pure(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    overrides = [parse_override(text) for text in (r"blk\.[01]\.ffn_up=q8_0", "ffn_up=F16")]
    plan = planned(path, "Q4_K_S", overrides)
    assert layers_of(plan, "ffn_up", "Q8_0") == [0, 1]
    assert layers_of(plan, "ffn_up", "F16") == list(range(2, LAYERS))
    pure = planned(path, "Q4_K_M", pure=True)
    assert Counter(types(pure).values()) == {"Q4_K": 7 * LAYERS + 2, "F32": 4}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("attn_v", "expected REGEX=TYPE"),
        ("(=Q4_K", "no regular expression"),
        ("a=Q4_K_M", "no type 'Q4_K_M'"),
    ],
)
def test_overrides_that_are_none(text: str, message: str) -> None:
    with pytest.raises(RequestError, match=message):
        parse_override(text)


def test_names_that_are_none(tmp_path: Path) -> None:
    path = write_model(tmp_path)
    with pytest.raises(RequestError, match="no type 'Q9'.*Q4_K_M"):
        planned(path, "Q9")
    with pytest.raises(RequestError, match="in no tensor's name"):
        planned(path, "Q8_0", [parse_override("nothing=Q4_0")])


def test_quantised_twice_is_told(tmp_path: Path) -> None:
    assert not is_requantized(planned(write_model(tmp_path), "Q8_0"))


def stored(file: GGUFFile) -> Counter[str]:
    return Counter(tensor.type_name for tensor in file.tensors.values())


@pytest.mark.weights
def test_real_files_have_the_types_that_are_planned(
    smollm2: Path, real_models: dict[str, Path]
) -> None:
    """As many of each type; which layers are counted as first has changed in llama.cpp."""
    for path, name in ((smollm2, "Q4_1"), *((p, "Q4_K_M") for p in real_models.values())):
        with open_gguf(path) as file:
            plan = make_plan(file, name)
            assert Counter(types(plan).values()) == stored(file)
            assert is_requantized(plan) == any(not p.is_copied for p in plan.tensors)

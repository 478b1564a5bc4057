"""Low-rank adapters and control vectors: the same as weights they are merged into, per sequence."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from edgellm.config import cache_dir
from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.cpu import CpuBackend
from edgellm.kernels.formats import by_name, quantize_rows
from edgellm.models import Adapter, read_adapter
from tests.gguf_writer import Tensor, write_gguf
from tests.models.recipes.parts import EXPERTS, FF, HIDDEN, KV_WIDTH, LAYERS, Q_WIDTH, VOCAB
from tests.models.running import Logits, Runner
from tests.models.tiny import random_tensor, write_tiny

IDS = np.random.default_rng(5).integers(0, VOCAB, size=20).tolist()
RANK, ALPHA = 4, 8.0
Matrix = npt.NDArray[np.float32]
Changes = dict[
    str, tuple[Matrix, Matrix]
]  # tensor: A (experts?, rank, in), B (experts?, out, rank)


def floats(name: str, values: Matrix) -> Tensor:
    """A float32 tensor; GGUF has the axes in the other order."""
    rows = values.reshape(-1, values.shape[-1])
    fmt = by_name("F32")
    return name, values.shape[::-1], fmt.type_id, quantize_rows(fmt, rows)


def changes(*shapes_of: tuple[str, tuple[int, ...]], seed: int = 0) -> Changes:
    """Random pairs for tensors of ggml shapes (in, out) or (in, out, experts)."""
    rng = np.random.default_rng(seed)
    made: Changes = {}
    for name, (columns, rows, *more) in shapes_of:
        a = rng.normal(size=(*more, RANK, columns)) * columns**-0.5
        b = rng.normal(size=(*more, rows, RANK)) * 0.5
        made[name] = a.astype(np.float32), b.astype(np.float32)
    return made


KEYS = {"general.type": "adapter", "adapter.type": "lora", "adapter.lora.alpha": ALPHA}


def write_lora(folder: Path, architecture: str, pairs: Changes, name: str = "style") -> Path:
    tensors = []
    for tensor, (a, b) in pairs.items():
        tensors += [floats(f"{tensor}.lora_a", a), floats(f"{tensor}.lora_b", b)]
    keys = {"general.architecture": architecture, **KEYS}
    return write_gguf(folder / f"{name}.gguf", keys, tensors)


def loaded(path: Path, architecture: str) -> Adapter:
    return read_adapter(open_gguf(path), path.stem, architecture)  # the map outlives the file


def float_model(folder: Path, architecture: str, merged: Changes, scale: float = 0.0) -> Path:
    """A tiny model of float weights, to which scale * alpha / rank * B A is added."""
    folder.mkdir(exist_ok=True)

    def change(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        for i, (name, shape, _, _) in enumerate(list(tensors)):
            _, _, type_id, data = random_tensor(name, shape, "F32")
            values = data.view(np.float32).copy()
            if name in merged:
                a, b = merged[name]
                values += (scale * ALPHA / RANK * (b @ a)).reshape(values.shape)
            tensors[i] = name, shape, type_id, values.view(np.uint8)

    return write_tiny(folder, architecture, change)


def run(path: Path, scales: tuple[float, ...] = (), adapters: tuple[Adapter, ...] = ()) -> Logits:
    runner = Runner(path, capacity=1, adapters=adapters)
    sequence = runner.sequence(IDS)
    sequence.adapter_scales = scales
    return runner.step((sequence, len(IDS)))


def assert_near(got: Logits, want: Logits) -> None:
    assert ((got - want) ** 2).mean() <= 1e-9 * (want**2).mean()


CASES = {
    "llama": changes(
        ("blk.0.attn_q.weight", (HIDDEN, Q_WIDTH)),
        ("blk.3.attn_output.weight", (Q_WIDTH, HIDDEN)),
        ("blk.5.ffn_down.weight", (FF, HIDDEN)),
    ),
    "phi3": changes(("blk.1.attn_qkv.weight", (HIDDEN, Q_WIDTH + 2 * KV_WIDTH))),
    "qwen3moe": changes(
        ("blk.0.ffn_gate_inp.weight", (HIDDEN, EXPERTS)),
        ("blk.2.ffn_up_exps.weight", (HIDDEN, FF, EXPERTS)),
        ("blk.2.ffn_down_exps.weight", (FF, HIDDEN, EXPERTS)),
    ),
    "mistral4": changes(("blk.4.ffn_gate_up_exps.weight", (HIDDEN, 2 * FF, EXPERTS))),
}


@pytest.mark.parametrize("architecture", CASES)
def test_an_adapter_is_what_it_would_be_merged_into_the_weights(
    tmp_path: Path, architecture: str
) -> None:
    pairs = CASES[architecture]
    plain = float_model(tmp_path / "plain", architecture, {})
    adapter = loaded(write_lora(tmp_path, architecture, pairs), architecture)
    without = run(plain)
    np.testing.assert_array_equal(run(plain, (0.0,), (adapter,)), without)
    changed = run(plain, (0.5,), (adapter,))
    assert_near(changed, run(float_model(tmp_path / "merged", architecture, pairs, 0.5)))
    assert np.abs(changed - without).max() > 1e-2


def test_adapters_add_up(tmp_path: Path) -> None:
    shape = ("blk.1.ffn_up.weight", (HIDDEN, FF))
    first, second = changes(shape, seed=1), changes(shape, seed=2)
    plain = float_model(tmp_path / "plain", "llama", {})
    adapters = tuple(
        loaded(write_lora(tmp_path, "llama", pairs, name), "llama")
        for name, pairs in (("one", first), ("two", second))
    )
    both = {
        name: (np.concatenate([a, second[name][0]]), np.concatenate([b, -second[name][1]], axis=1))
        for name, (a, b) in first.items()
    }
    got = run(plain, (2.0, -2.0), adapters)
    assert_near(got, run(float_model(tmp_path / "merged", "llama", both, 2.0)))


def test_a_control_vector_is_added_to_the_output_of_its_layer(tmp_path: Path) -> None:
    direction = np.random.default_rng(0).normal(size=HIDDEN).astype(np.float32)
    last = LAYERS - 1
    path = write_gguf(
        tmp_path / "mood.gguf",
        {"general.architecture": "controlvector", "controlvector.model_hint": "llama"},
        [floats(f"direction.{last}", direction)],
    )
    # The output of the last layer is x + down(...): the same as a bias of that product.
    biased = tmp_path / "biased"
    biased.mkdir()
    biases = {layer: 3 * direction if layer == last else 0 * direction for layer in range(LAYERS)}

    def add_biases(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        tensors += [floats(f"blk.{n}.ffn_down.bias", bias) for n, bias in biases.items()]

    want = run(write_tiny(biased, "llama", add_biases))
    plain = write_tiny(tmp_path, "llama")
    got = run(plain, (3.0,), (loaded(path, "llama"),))
    assert_near(got, want)
    assert np.abs(got - run(plain)).max() > 1e-2


@pytest.fixture(scope="module")
def backend() -> Any:
    backend = CpuBackend(cache_dir(), 2)
    yield backend
    backend.close()


@pytest.mark.parametrize("architecture", ["llama", "qwen3moe"])
def test_sequences_of_a_batch_have_the_bits_they_have_alone(
    tmp_path: Path, backend: CpuBackend, architecture: str
) -> None:
    plain = write_tiny(tmp_path, architecture)
    adapter = loaded(write_lora(tmp_path, architecture, CASES[architecture]), architecture)
    runner = Runner(plain, capacity=7, load=backend.load, adapters=(adapter,))

    def sequence(scale: float) -> Any:
        made = runner.sequence(IDS)
        made.adapter_scales = (scale,)
        return made

    alone = [runner.step((sequence(scale), len(IDS))) for scale in (0.0, 1.0, -0.5)]
    mixed = [sequence(scale) for scale in (0.0, 1.0, -0.5)]
    parts = [runner.step(*((s, 7) for s in mixed)), runner.step(*((s, 13) for s in mixed))]
    for i, want in enumerate(alone):
        got = np.concatenate([parts[0][7 * i : 7 * i + 7], parts[1][13 * i : 13 * i + 13]])
        np.testing.assert_array_equal(got.view(np.uint32), want.view(np.uint32))
    base = Runner(plain, capacity=1, load=backend.load)
    np.testing.assert_array_equal(alone[0], base.step((base.sequence(IDS), len(IDS))))


Edit = Callable[[dict[str, Any], list[Tensor]], object]
Q = "blk.0.attn_q.weight"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (lambda k, t: k.update({"general.architecture": "qwen2"}), "'qwen2' models.*'llama'"),
        (lambda k, t: k.pop("general.type"), "is no adapter"),
        (lambda k, t: k.update({"adapter.type": "dora"}), "type 'dora'"),
        (lambda k, t: t.clear(), "holds no tensors"),
        (lambda k, t: t.pop(1), f"{Q}.lora_a has no partner"),
        (lambda k, t: t.pop(0), f"{Q}.lora_b has no partner"),
        (lambda k, t: t.append(floats("x", np.ones(4, np.float32))), "x has no partner"),
        (
            lambda k, t: t.__setitem__(1, floats(f"{Q}.lora_b", np.ones((8, 3), np.float32))),
            r"lora_a has shape \(64, 4\) and .lora_b \(3, 8\)",
        ),
        (
            lambda k, t: t.__setitem__(1, floats(f"{Q}.lora_b", np.ones((8, 4), np.float32))),
            "changes blk.0.attn_q.weight as 8 rows of 64.* 128 rows of 64",
        ),
        (
            lambda k, t: t.__setitem__(
                slice(None), [(n.replace("blk.0", "blk.9"), *rest) for n, *rest in t]
            ),
            "changes blk.9.attn_q.weight, which this model does not have",
        ),
    ],
)
def test_a_bad_adapter_is_refused_by_its_name(tmp_path: Path, edit: Edit, message: str) -> None:
    (tensor, (a, b)), *_ = changes((Q, (HIDDEN, Q_WIDTH))).items()
    keys = {"general.architecture": "llama", **KEYS}
    tensors = [floats(f"{tensor}.lora_a", a), floats(f"{tensor}.lora_b", b)]
    edit(keys, tensors)
    path = write_gguf(tmp_path / "bad.gguf", keys, tensors)
    with pytest.raises(GGUFError, match=f"adapter bad.*{message}"):
        run(write_tiny(tmp_path, "llama"), (1.0,), (loaded(path, "llama"),))


@pytest.mark.parametrize(
    ("name", "size", "message"),
    [
        ("direction.1", HIDDEN + 1, "expected 64"),
        ("direction.77", HIDDEN, "which this model does not have"),
        ("direction.x", HIDDEN, "is no direction"),
        ("up", HIDDEN, "is no direction"),
    ],
)
def test_a_bad_control_vector_is_refused(
    tmp_path: Path, name: str, size: int, message: str
) -> None:
    keys = {"general.architecture": "controlvector"}
    path = write_gguf(tmp_path / "bad.gguf", keys, [floats(name, np.ones(size, np.float32))])
    with pytest.raises(GGUFError, match=f"adapter bad.*{message}"):
        run(write_tiny(tmp_path, "llama"), (1.0,), (loaded(path, "llama"),))

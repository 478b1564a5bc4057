"""What `fit` says is what `load` does, on both sides of every limit."""

from pathlib import Path

import pytest

import edgellm
from edgellm.errors import BackendError, RequestError
from edgellm.fit import KV_CACHE_TYPES, Fit, Room, Way, fit, largest
from edgellm.gguf_loader import open_gguf
from edgellm.memory import GPUMemory
from tests.models.recipes.parts import CONTEXT, VOCAB
from tests.models.tiny import write_tiny

PLENTY = 1 << 34
SEQUENCES = 2


def write(folder: Path, name: str = "llama") -> Path:
    def without_text(keys: dict[str, object], tensors: object) -> None:
        keys["tokenizer.ggml.model"] = "none"
        keys[f"{name}.vocab_size"] = VOCAB

    return write_tiny(folder, name, without_text)


def weights_of(path: Path) -> int:
    with open_gguf(path) as file:
        return sum(tensor.nbytes for tensor in file.tensors.values())


def loaded(path: Path, context: int, types: str, memory: int) -> int:
    """Bytes of the cache that loading makes."""
    with edgellm.load(
        path,
        backend="cpu",
        context_length=context,
        kv_cache_type=types,
        memory_limit=memory,
        max_num_seqs=SEQUENCES,
    ) as model:
        return model.info.kv_cache_bytes


@pytest.mark.parametrize("name", ["llama", "gemma3", "mamba2", "qwen3moe"])
def test_the_longest_context_loads_and_one_block_more_does_not(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name)
    size = weights_of(path)
    [way] = fit(path, "m", [Room("cpu", PLENTY)], CONTEXT, ("f32",), SEQUENCES).ways
    assert way.longest == CONTEXT and way.weights == size
    assert way.kv_cache == loaded(path, CONTEXT, "f32", PLENTY)
    if name == "mamba2":  # its states do not grow
        return
    memory = size + way.kv_cache // 4
    [tight] = fit(path, "m", [Room("cpu", memory)], CONTEXT, ("f32",), SEQUENCES).ways
    assert 0 < tight.longest < CONTEXT
    assert tight.reason is not None and "load the model with a smaller context" in tight.reason
    [again] = fit(path, "m", [Room("cpu", memory)], tight.longest, ("f32",), SEQUENCES).ways
    assert again.kv_cache == loaded(path, tight.longest, "f32", memory) <= way.kv_cache // 4
    with pytest.raises(BackendError):
        loaded(path, tight.longest + 32, "f32", memory)


def test_smaller_types_hold_longer_contexts_and_the_best_that_fits_is_taken(tmp_path: Path) -> None:
    path = write(tmp_path)
    memory = weights_of(path) + fit(path, "m", [Room("cpu", PLENTY)]).ways[0].kv_cache // 3
    found = fit(path, "m", [Room("cpu", memory)])
    longest = [way.longest for way in found.ways]
    assert [way.kv_cache_type for way in found.ways] == list(KV_CACHE_TYPES)
    assert longest == sorted(longest) and longest[0] < longest[-1]
    able = [way for way in found.ways if way.reason is None]
    assert found.best == (able[0] if able else None)


def test_a_gpu_takes_what_it_has_memory_for(tmp_path: Path) -> None:
    path = write(tmp_path)
    whole = fit(path, "m", [Room("cpu", PLENTY), Room("gpu", PLENTY, GPUMemory(PLENTY, PLENTY))])
    assert whole.best is not None and whole.best.device == "gpu"
    assert whole.best.gpu_layers == whole.best.layers > 0

    def way(gpu_memory: int) -> Way:
        [found] = fit(
            path, "m", [Room("gpu", PLENTY, GPUMemory(gpu_memory, gpu_memory))], None, ("f16",)
        ).ways
        assert (found.reason is None) == (found.gpu_layers > 0) == (found.gpu_weights > 0)
        return found

    low, high = 0, 1 << 30  # all that a step needs beside weights is as large as its logits
    while high - low > 1 << 12:
        middle = (low + high) // 2
        low, high = (low, middle) if way(middle).gpu_layers else (middle, high)
    step = weights_of(path) // 50
    layers = [way(low + step * i).gpu_layers for i in range(100)]
    assert layers == sorted(layers) and set(layers) == set(range(whole.best.layers + 1))


def test_no_memory_for_the_weights(tmp_path: Path) -> None:
    found = fit(write(tmp_path), "m", [Room("cpu", 1000)])
    assert found.best is None and {way.longest for way in found.ways} == {0}
    assert "load a smaller model" in str(found.ways[0].reason)


def test_experts_may_stay_on_disk(tmp_path: Path) -> None:
    path = write(tmp_path, "qwen3moe")
    size = weights_of(path)
    [way] = fit(path, "m", [Room("cpu", size)], 32, ("f16",)).ways
    assert way.reason is None and way.experts_on_disk and way.weights < size


def test_what_cannot_run_says_why(tmp_path: Path) -> None:
    (tmp_path / "text.gguf").write_text("not a model")
    found = fit(tmp_path / "text.gguf", "m", [Room("cpu", PLENTY)])
    assert not found.ways and "GGUF" in str(found.reason)
    with pytest.raises(RequestError, match="kv_cache_type"):
        fit(write(tmp_path), "m", [Room("cpu", PLENTY)], kv_cache_types=("q7",))


def test_heads_that_a_cache_type_cannot_hold(tmp_path: Path) -> None:
    path = write(tmp_path, "gemma3")
    found = fit(path, "m", [Room("cpu", PLENTY)], 32)
    for way in found.ways:
        if way.reason is None:
            assert loaded(path, 32, way.kv_cache_type, PLENTY)
        else:
            with pytest.raises(BackendError):
                loaded(path, 32, way.kv_cache_type, PLENTY)


def test_the_largest_of_those_that_fit() -> None:
    way = Way("cpu", "f16", 32, None)
    fits = [
        Fit("a", "a", 10, 32, 32, (way,), way),
        Fit("b", "b", 30, 32, 32, (way,), way),
        Fit("c", "c", 90, 32, 32),
        Fit("d", None, 99, None, None, reason="not here"),
    ]
    assert largest(fits) is fits[1] and largest(fits[2:]) is None

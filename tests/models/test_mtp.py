"""The head that predicts one token more: what it computes, and files that lack some of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgellm import load
from edgellm.backends import Backends
from edgellm.drafters import HeadRunner
from edgellm.drafters.head_runner import HeadRows
from edgellm.errors import GGUFError
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.kv import BLOCK_SIZE, CACHE_TYPES
from edgellm.kv_cache import HostStore, KVTypes, allocate
from edgellm.load_plan import plan_load
from edgellm.model_runner import Logits, ModelRunner
from edgellm.models import read_config, record, record_with_head
from edgellm.sequence import Chunk, Sequence
from edgellm.types import LoadOptions, SamplingParams
from tests.gguf_writer import Tensor
from tests.models.formulas import Float64, mixed, past, rms, rotated, sigmoid, silu
from tests.models.heads import (
    HEADED,
    add_head,
    add_head_with_own_ends,
    add_knowing_head,
    as_floats,
)
from tests.models.recipes.parts import HEAD_DIM, HEADS, HIDDEN, KV_HEADS, LAYERS, VOCAB
from tests.models.tiny import Edit, random_tensor, write_tiny

EXACT = KVTypes(CACHE_TYPES["f32"], CACHE_TYPES["f32"])
IDS = np.random.default_rng(3).integers(0, VOCAB, 34).tolist()


def predictions(path: Path, backend: str = "reference") -> tuple[Logits, Logits, Logits]:
    """Of the tokens of IDS: the model's logits, the rows that its head reads, and the head's logits
    after each token. Before the first one it reads zeros."""
    backends = Backends(lambda text: None)
    with open_gguf(path) as file:
        program, head = record_with_head(file, read_config(file), 64)
        assert head is not None
        blocks = -(-len(IDS) // BLOCK_SIZE)
        kv = allocate(program, (blocks,) * len(program.kv_groups), EXACT)
        runs = backends.get(backend)
        runner = ModelRunner(
            runs.load(program, kv), program, HostStore(program, kv), None, head.reads
        )
        tables = [list(range(blocks)) for _ in program.kv_groups]
        text = Sequence(IDS, len(IDS), SamplingParams(), block_tables=tables, state_slot=0)
        text.left_behind = [0 for _ in tables]
        outputs = runner.run(runner.pack([Chunk(text, len(IDS), "all")]))
        hidden = outputs[head.reads]
        ahead = HeadRunner(head, runs.load(head.program, kv))
        rows = []
        for p, token in enumerate(IDS):
            before = hidden[p - 1 : p] if p else np.zeros_like(hidden[:1])
            rows.append(ahead.predict([HeadRows(text, p, [token], before)])[0][0])
    backends.close()
    return outputs["logits"], hidden, np.array(rows)


@pytest.mark.parametrize("edit", [add_head, add_head_with_own_ends])
@pytest.mark.parametrize("name", HEADED)
def test_backends_agree(tmp_path: Path, name: str, edit: Edit) -> None:
    """In weights that neither rounds its input for."""

    def edit_all(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        edit(keys, tensors)
        as_floats(tensors)

    path = write_tiny(tmp_path, name, edit_all)
    *_, want = predictions(path)
    *_, found = predictions(path, "cpu")
    np.testing.assert_allclose(found, want, atol=1e-4 * float(np.abs(want).max()))


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_the_head_says_what_its_definition_says(tmp_path: Path, backend: str) -> None:
    weights: dict[str, Float64] = {}

    def edit(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        add_head_with_own_ends(keys, tensors)
        floats = as_floats(tensors)
        weights.update({name: values.astype(np.float64) for name, values in floats.items()})

    _, hidden, found = predictions(write_tiny(tmp_path, "qwen35", edit), backend)
    want = defined(weights, hidden.astype(np.float64))
    np.testing.assert_allclose(found, want, atol=1e-5 * float(np.abs(want).max()))


def defined(weights: Mapping[str, Float64], hidden: Float64) -> Float64:
    """The head's logits in float64. hidden: the model's rows of IDS."""

    def of(name: str) -> Float64:
        return weights[f"blk.{LAYERS}.{name}.weight"]

    def normed(x: Float64, name: str) -> Float64:
        return rms(x, of(name)[0])

    before = np.concatenate([np.zeros((1, HIDDEN)), hidden[:-1]])
    both = normed(of("nextn.embed_tokens")[IDS], "nextn.enorm"), normed(before, "nextn.hnorm")
    x = np.concatenate(both, axis=1) @ of("nextn.eh_proj").T
    a = normed(x, "attn_norm")
    q, gate = np.split((a @ of("attn_q").T).reshape(-1, HEADS, 2 * HEAD_DIM), 2, axis=-1)
    k, v = ((a @ of(f"attn_{c}").T).reshape(-1, KV_HEADS, HEAD_DIM) for c in "kv")
    q, k = rotated(normed(q, "attn_q_norm"), 50000.0), rotated(normed(k, "attn_k_norm"), 50000.0)
    y = mixed(q, k, v, past(len(IDS))) * sigmoid(gate).reshape(len(IDS), -1)
    x = x + y @ of("attn_output").T
    f = normed(x, "post_attention_norm")
    x = x + (silu(f @ of("ffn_gate").T) * (f @ of("ffn_up").T)) @ of("ffn_down").T
    return normed(x, "nextn.shared_head_norm") @ of("nextn.shared_head_head").T


def test_a_head_like_the_model_says_what_it_says(tmp_path: Path) -> None:
    own, _, ahead = predictions(write_tiny(tmp_path, "glm4", add_knowing_head))
    np.testing.assert_allclose(ahead, own, atol=1e-4 * float(np.abs(own).max()))


@pytest.mark.parametrize("name", HEADED)
def test_the_model_itself_is_the_same(tmp_path: Path, name: str) -> None:
    with open_gguf(write_tiny(tmp_path, name, add_head)) as file:
        config = read_config(file)
        plain = record(file, config, 64)
        program, _ = record_with_head(file, config, 64)
    assert [call.op for call in program.calls] == [call.op for call in plain.calls]
    assert len(program.kv_layers) == len(plain.kv_layers) + 1


@pytest.mark.parametrize("part", ["nextn.enorm", "attn_k", "nextn.eh_proj"])
def test_without_a_part_of_its_head_a_file_runs_as_it_is(tmp_path: Path, part: str) -> None:
    """Where all that is the head's own is missing, there is none; else there is a note."""

    def edit(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        add_head(keys, tensors)
        keys |= {"tokenizer.ggml.model": "no_vocab", "glm4.vocab_size": VOCAB}
        tensors[:] = [t for t in tensors if t[0] != f"blk.{LAYERS}.{part}.weight"]

    path = write_tiny(tmp_path, "glm4", edit)
    with open_gguf(path) as file:
        plan = plan_load(file, read_config(file), LoadOptions(), 1 << 30, with_head=True)
    assert plan.head is None
    assert (plan.head_error is None) == (part == "nextn.eh_proj")
    assert plan.head_error is None or part in plan.head_error
    with load(str(path), threads=1) as model:
        assert len(model.complete(IDS, SamplingParams(max_tokens=3)).token_ids) == 3


def test_what_is_unknown_in_a_head_is_no_head(tmp_path: Path) -> None:
    def edit(keys: dict[str, Any], tensors: list[Tensor]) -> None:
        add_head(keys, tensors)
        tensors.append(random_tensor(f"blk.{LAYERS}.nextn.gate.weight", (HIDDEN, HIDDEN)))

    with (
        open_gguf(write_tiny(tmp_path, "glm4", edit)) as file,
        pytest.raises(GGUFError, match=r"nextn\.gate"),
    ):
        record_with_head(file, read_config(file), 64)

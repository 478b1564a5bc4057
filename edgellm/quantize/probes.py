"""How much the errors of each kind of tensor count: the model itself is asked.

All tensors of a kind are rounded plainly to four bits, in the recorded program, and the model reads
a text: how far its predictions move (KL divergence), over the errors that the rounding made, is
what an error there costs. Small errors add up, so one number for each kind is enough.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from edgellm.backends import Backends
from edgellm.gguf_loader import GGUFFile
from edgellm.kernels.formats import Format, by_id, by_name, dequantize_rows, quantize_rows
from edgellm.kernels.program import Program, Weight
from edgellm.models import read_config, record
from edgellm.quantize.plan import may_change
from edgellm.quantize.recipes import kind_of
from edgellm.quantize.sensitivity import relative_error, sample
from edgellm.quantize.text_runner import STEP, TextRunner

Array = npt.NDArray[np.float32]

_ROUNDED = "Q4_0"
_STRIP = 1 << 20  # weights that are rounded at a time
_HELD = 1 << 28  # bytes of predictions that are kept to compare with


def costs(
    file: GGUFFile,
    chunks: Sequence[list[int]],
    means: Mapping[str, Array],
    backends: Backends,
    threads: int | None = None,
    watch: Callable[[int, int, str], None] | None = None,
) -> dict[str, float]:
    """By kind of tensor, nats of divergence for each unit of summed relative error.

    chunks: token ids, each read by itself and scored in its second half. watch: kinds done, in
    all, the kind. Needs memory for one kind of tensor in four bits.
    """
    context = max(map(len, chunks))
    program = record(file, read_config(file), context, ())
    kinds: dict[str, list[str]] = {}
    for tensor in filter(may_change, file.tensors.values()):
        if tensor.columns % by_name(_ROUNDED).block_size == 0:
            kinds.setdefault(kind_of(tensor.name), []).append(tensor.name)
    rows = max(1, min(context // 2, _HELD // (4 * program.vocab_size * len(chunks))))
    truth = list(_predictions(program, chunks, rows, backends, threads))
    found = {}
    for done, (kind, names) in enumerate(kinds.items()):
        if watch:
            watch(done, len(kinds), kind)
        changed = _with_rounded(program, frozenset(names))
        moved = _predictions(changed, chunks, rows, backends, threads)
        divergences = [_divergence(t, m) for t, m in zip(truth, moved, strict=True)]
        error = sum(_rounding_error(file, name, means.get(name)) for name in names)
        found[kind] = float(np.mean(divergences)) / error if error else 0.0
    if watch:
        watch(len(kinds), len(kinds), "")
    return found


def _rounding_error(file: GGUFFile, name: str, means: Array | None) -> float:
    fmt = by_name(_ROUNDED)
    values, driven = sample(file, file.tensors[name], means)
    return relative_error(values, dequantize_rows(fmt, quantize_rows(fmt, values)), driven)


def _with_rounded(program: Program, names: frozenset[str]) -> Program:
    """The program with the weights of these tensors in four bits."""
    rounded: dict[tuple[str, int], Weight] = {}

    def changed(weight: Weight) -> Weight:
        key = weight.name, weight.data.ctypes.data
        if weight.name.partition("[")[0] not in names:
            return weight
        if key not in rounded:
            rounded[key] = _rounded(weight, by_name(_ROUNDED))
        return rounded[key]

    calls = tuple(
        replace(call, weights=tuple(map(changed, call.weights))) for call in program.calls
    )
    return replace(program, calls=calls)


def _rounded(weight: Weight, fmt: Format) -> Weight:
    data = np.empty((len(weight.data), fmt.row_bytes(weight.columns)), np.uint8)
    height = max(1, _STRIP // weight.columns)
    for start in range(0, len(data), height):
        stored = weight.data[start : start + height]
        data[start : start + height] = quantize_rows(
            fmt, dequantize_rows(by_id(weight.type_id), stored)
        )
    return replace(weight, type_id=fmt.type_id, data=data)


def _predictions(
    program: Program,
    chunks: Sequence[list[int]],
    rows: int,
    backends: Backends,
    threads: int | None,
) -> Iterator[Array]:
    """Log-probabilities of the last `rows` positions of each chunk, (rows, vocab_size)."""
    context = max(map(len, chunks))
    with closing(TextRunner(program, context, backends, threads=threads)) as runner:
        for ids in chunks:
            text, first = runner.begin(ids), len(ids) - rows
            while (at := text.num_computed_tokens) < first:
                runner.run(text, min(first - at, STEP))
            while (at := text.num_computed_tokens) < len(ids):
                outputs = runner.run(text, min(len(ids) - at, STEP), "all")
                yield _log_softmax(np.asarray(outputs["logits"]))


def _log_softmax(logits: Array) -> Array:
    shifted = logits - logits.max(axis=1, keepdims=True)
    norm = np.log(np.exp(shifted, dtype=np.float64).sum(axis=1, keepdims=True))
    found: Array = shifted - norm.astype(np.float32)
    return found


def _divergence(truth: Array, moved: Array) -> float:
    """D(truth || moved), the mean over rows."""
    return float((np.exp(truth) * (truth - moved)).sum(axis=1, dtype=np.float64).mean())

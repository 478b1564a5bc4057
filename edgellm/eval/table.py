"""Several files, each with several cache types, measured alike: which to use on this machine.

A row is one file with one cache type. What is measured is asked for; the rest of a row is None.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path

from edgellm.eval.calls import Task, tool_calls
from edgellm.eval.choice import Item, multiple_choice
from edgellm.eval.kl import divergence
from edgellm.eval.needle import needles
from edgellm.eval.perplexity import perplexity
from edgellm.eval.speed import speed
from edgellm.fit import Room, fit
from edgellm.gguf_loader import open_gguf
from edgellm.llm import Model
from edgellm.memory import available_memory
from edgellm.types import LoadOptions

Watch = Callable[[int, int, float], None]


@dataclass(frozen=True)
class Wanted:
    """What to measure. text, context, chunks: for the perplexity; None: leave it out. against: a
    model whose predictions count as the truth. items, tasks: of choice and calls. loading: how
    models are loaded."""

    text: str | None = None
    context: int = 512
    chunks: int | None = None
    against: str | None = None
    items: tuple[Item, ...] = ()
    needle_lengths: tuple[int, ...] = ()
    tasks: tuple[Task, ...] = ()
    speed: bool = False
    loading: LoadOptions = LoadOptions()


@dataclass(frozen=True)
class Row:
    """What was measured. bytes: of the weights, kv_cache_bytes: of the cache as loaded. fits:
    whether both are less than the memory that was free before."""

    model: str
    kv_cache_type: str
    bytes: int
    bits_per_weight: float
    kv_cache_bytes: int = 0
    fits: bool = False
    perplexity: float | None = None
    error: float | None = None
    kl: float | None = None
    top_agreement: float | None = None
    choice: float | None = None
    needle: float | None = None
    calls: float | None = None
    reading: float | None = None
    writing: float | None = None


# What rows are compared by: the first that all of them have. Whether more of it is better.
QUALITIES = {"kl": False, "perplexity": False, "choice": True, "needle": True, "calls": True}


def measure_row(name: str, kv_cache_type: str, wanted: Wanted, watch: Watch | None = None) -> Row:
    """Loads one file with one cache type and measures it. Errors are those of load."""
    memory = wanted.loading.memory_limit or available_memory()
    with Model.open(name, replace(wanted.loading, kv_cache_type=kv_cache_type)) as model:
        path = Path(model.info.path)
        with open_gguf(path) as file:
            row = Row(name, kv_cache_type, file.num_bytes, 8 * file.num_bytes / file.num_parameters)
        [way] = fit(path, name, [Room("cpu", memory)], wanted.context, (kv_cache_type,)).ways
        row = replace(row, kv_cache_bytes=model.info.kv_cache_bytes, fits=way.reason is None)
        if wanted.text is not None:
            found = perplexity(model, wanted.text, wanted.context, wanted.chunks, watch)
            row = replace(row, perplexity=found.perplexity, error=found.error)
        if wanted.text is not None and wanted.against is not None:
            with Model.open(wanted.against, wanted.loading) as against:
                apart = divergence(
                    model, against, wanted.text, wanted.context, wanted.chunks, watch
                )
            row = replace(row, kl=apart.mean, top_agreement=apart.top_agreement)
        if wanted.items:
            row = replace(row, choice=multiple_choice(model, wanted.items, watch).accuracy)
        if wanted.needle_lengths:
            share = needles(model, wanted.needle_lengths, watch=watch).share
            row = replace(row, needle=share)
        if wanted.tasks:
            row = replace(row, calls=tool_calls(model, wanted.tasks, watch).valid)
        if wanted.speed:
            seen = speed(model)
            row = replace(row, reading=seen.reading, writing=seen.writing)
    return row


def quality(rows: Sequence[Row]) -> str | None:
    """What to compare these rows by; None when they have nothing in common."""
    for name in QUALITIES:
        if all(getattr(row, name) is not None for row in rows):
            return name
    return None


def best(rows: Sequence[Row]) -> Row | None:
    """Of those that fit the one of the best quality, of equals the smallest."""
    name = quality(rows)
    able = [row for row in rows if row.fits]
    if name is None or not able:
        return None
    sign = -1 if QUALITIES[name] else 1
    return min(able, key=lambda row: (sign * getattr(row, name), row.bytes + row.kv_cache_bytes))


def measured(rows: Iterable[Row]) -> tuple[str, ...]:
    """The fields that any row has, in order."""
    every = list(rows)
    return tuple(f.name for f in fields(Row) if any(getattr(r, f.name) is not None for r in every))

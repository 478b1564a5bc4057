"""`edgellm fit [MODEL ...]`: what would run on this machine, or on another one, and how."""

import argparse
import os
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from edgellm.backend_kinds import gpu_memory
from edgellm.catalog import load_catalog
from edgellm.cli import options
from edgellm.cli.output import byte_size, print_fields, print_json, print_table
from edgellm.errors import CatalogError, RequestError
from edgellm.fit import KV_CACHE_TYPES, Fit, Room, Way, fit, largest
from edgellm.gguf_loader import open_gguf
from edgellm.kernels.cpu.limits import usable_threads
from edgellm.memory import GPUMemory, available_memory
from edgellm.paths import typed_file, typed_path
from edgellm.pull import entry_of, resolve, stored_models
from edgellm.quantize.plan import make_plan
from edgellm.quantize.write import write_outline

# Of the mixtures of `edgellm quantize` those worth choosing from, the largest first.
_VARIANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "IQ4_XS", "Q3_K_M", "Q2_K")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "models",
        metavar="MODEL",
        nargs="*",
        help="a name, the beginning of several (qwen3), a GGUF file or a folder of them "
        "(default: all of the catalogue and all that is stored)",
    )
    parser.add_argument(
        "--context",
        type=int,
        metavar="TOKENS",
        help="what is wanted (default: what the model was trained for, at most 8192)",
    )
    parser.add_argument(
        "--memory",
        type=options.size,
        metavar="SIZE",
        help="for weights and cache, such as 4G (default: what is available here now)",
    )
    parser.add_argument(
        "--device",
        metavar="N",
        help="OpenCL device: a number of `edgellm doctor` or part of a name (default: the first "
        "GPU, if there is one)",
    )
    parser.add_argument(
        "--gpu-memory",
        type=options.size,
        metavar="SIZE",
        help="reckon with a GPU of this memory, whether there is one or not",
    )
    parser.add_argument(
        "--kv-cache-type", metavar="TYPE", help="only this one (default: several, the best first)"
    )
    parser.add_argument(
        "--parallel", type=int, default=1, metavar="N", help="computed side by side (default 1)"
    )
    parser.add_argument(
        "--variants",
        action="store_true",
        help="also what `edgellm quantize` would make of each file that is here: "
        f"{', '.join(_VARIANTS)}, those that are smaller",
    )
    parser.add_argument("--json", action="store_true", help="report as one JSON object")


def run(args: argparse.Namespace) -> int:
    for name in ("context", "memory", "gpu_memory", "parallel"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise RequestError(f"--{name.replace('_', '-')} is {value}, expected 1 or more", name)
    rooms = _rooms(args)
    types = (args.kv_cache_type,) if args.kv_cache_type else KV_CACHE_TYPES
    fits = []
    planned = partial(
        fit,
        rooms=rooms,
        context=args.context,
        kv_cache_types=types,
        max_num_seqs=args.parallel,
    )
    for name, path in _models(args.models):
        if path is None:
            fits.append(_not_stored(name, rooms, args.context))
            continue
        fits.append(planned(path, name))
        if args.variants and fits[-1].ways:
            fits += _variants(name, path, planned)
    chosen = largest(fits)
    if args.json:
        print_json(
            {
                "threads": usable_threads(),
                "rooms": [asdict(room) for room in rooms],
                "models": [asdict(found) for found in fits],
                "largest": None if chosen is None else chosen.model,
            }
        )
    else:
        _print(fits, rooms, chosen)
    return 0 if chosen is not None or not any(found.path for found in fits) else 1


def _rooms(args: argparse.Namespace) -> list[Room]:
    memory = args.memory or available_memory()
    rooms = [Room("cpu", memory)]
    if args.gpu_memory is not None:
        return [*rooms, Room("gpu", memory, GPUMemory(args.gpu_memory, args.gpu_memory))]
    found = gpu_memory(args.device)
    return rooms if found is None else [*rooms, Room(found[0], memory, found[1])]


def _models(wanted: list[str]) -> Iterator[tuple[str, Path | None]]:
    """Names and files; None for one that is not here."""
    known = list(dict.fromkeys([*(model.name for model in stored_models()), *load_catalog()]))
    for text in wanted or known:
        path, start = typed_path(text), text.lower()
        if os.path.isdir(path):
            files = sorted(path.glob("*.gguf"))
            if not files:
                raise RequestError(f"{text}: a folder without GGUF files", "model")
            yield from ((file.name, file) for file in files)
        elif typed_file(path) is not None:
            yield path.name, path
        else:
            names = [start] if start in known else [n for n in known if n.startswith(start)]
            if not names:
                entry_of(text)  # says what is near it
            yield from ((name, _stored(name)) for name in names)


def _stored(name: str) -> Path | None:
    try:
        return resolve(name, fetch=False)
    except CatalogError:
        return None


def _not_stored(name: str, rooms: list[Room], context: int | None) -> Fit:
    entry = entry_of(name)
    most = max(room.total for room in rooms)
    said = f"not stored: `edgellm pull {name}`"
    if entry.size is not None and entry.size > most:
        said = "its weights alone are more than the memory"
    return Fit(name, None, entry.size, context, entry.context, reason=said)


def _variants(name: str, path: Path, planned: Callable[[Path, str], Fit]) -> Iterator[Fit]:
    """Each planned from an outline of what would be written: no data, but the loader's own plan."""
    with open_gguf(path) as file, TemporaryDirectory() as folder:
        for variant in _VARIANTS:
            plan = make_plan(file, variant)
            if plan.nbytes < file.num_bytes:
                outline = Path(folder) / f"{variant}.gguf"
                write_outline(file, plan, outline)
                found = planned(outline, f"{name} as {variant}")
                outline.unlink()
                yield replace(found, path=str(path), variant=variant)


def _print(fits: list[Fit], rooms: list[Room], chosen: Fit | None) -> None:
    print_table(
        (
            "MODEL",
            "WEIGHTS",
            "DEVICE",
            "KV CACHE",
            "LONGEST CONTEXT",
            "GPU LAYERS",
            "TAKES",
            "FITS",
        ),
        [row for found in fits for row in _rows(found)],
    )
    print()
    threads = f"{usable_threads()} threads, {byte_size(rooms[0].memory)} of memory"
    gpus = [f"{room.device} with {byte_size(room.gpu)}" for room in rooms if room.gpu]
    fields = [("reckoned for", ", ".join([threads, *gpus]))]
    if chosen is not None:
        fields.append(("what it takes", "weights, and a cache of two contexts where there is room"))
    fields += [
        (f"{found.model} does not", found.ways[0].reason or "")
        for found in fits
        if found.ways and found.best is None
    ]
    if chosen is not None:
        assert chosen.best is not None
        fields.append(("largest that fits", f"{chosen.model} at {chosen.context:,} tokens"))
        if chosen.variant is not None:
            made = f"{Path(chosen.path or '').stem}-{chosen.variant}.gguf"
            said = f"edgellm quantize {chosen.path} {made} --type {chosen.variant}"
            fields.append(("make it with", said))
        fields.append(("run it with", _command(chosen, chosen.best, len(rooms) > 1)))
    print_fields(fields)


def _rows(found: Fit) -> Iterator[tuple[str, ...]]:
    size = byte_size(found.size)
    if not found.ways:
        yield found.model, size, "", "", "", "", "", found.reason or ""
    for way in found.ways:
        layers = f"{way.gpu_layers} of {way.layers}" if way.layers else ""
        takes = "" if way.reason else byte_size(way.weights + way.kv_cache)
        verdict = f"{found.context:,} tokens do not" if way.reason else "yes"
        if way.experts_on_disk:
            verdict += ", experts stay on disk"
        longest = f"{way.longest:,}" if way.longest else "none"
        yield (
            *(found.model, size, way.device, way.kv_cache_type),
            *(longest, layers, takes, verdict),
        )


def _command(found: Fit, way: Way, has_gpu: bool) -> str:
    """The command that loads it so."""
    model = found.path if found.model.endswith(".gguf") else found.model
    if found.variant is not None:
        model = f"{Path(found.path or '').stem}-{found.variant}.gguf"
    said = f"edgellm chat {model} --context {found.context} --kv-cache-type {way.kv_cache_type}"
    if way.gpu_layers:
        return f"{said} --gpu-layers {way.gpu_layers}"
    return f"{said} --backend cpu" if has_gpu else said

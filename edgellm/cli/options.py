"""Options that several commands share, and how they become LoadOptions and SamplingParams."""

import argparse
import os
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Literal

from edgellm.cli.progress import DownloadProgress
from edgellm.errors import RequestError
from edgellm.options import FLAG, Option, from_text
from edgellm.paths import typed_path
from edgellm.sampling_params import OPTIONS, SamplingParams, check_params
from edgellm.types import DEFAULT_CONTEXT, LoadOptions

_MAX_PORT = 65535
_MAX_TEXT = 1 << 28  # bytes
_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30}

# Settings that one answer on standard output has no use for, or that are given their own option.
_NOT_OFFERED = {"n", "max_tokens", "seed"}
_SEED = 0  # so that the same command gives the same text


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model, always the first word."""
    parser.add_argument("model", metavar="MODEL", help="a model's name, or the path of a GGUF file")


def add_text(parser: argparse.ArgumentParser, name: str, what: str) -> None:
    """A text as a word of the command line, in a file or on standard input."""
    parser.add_argument(
        "text", metavar=name.upper(), nargs="?", help=f"{what}; else --file or standard input"
    )
    parser.add_argument("--file", metavar="FILE", help=f"read the {name} from a file")


def text(args: argparse.Namespace, name: str, otherwise: str = "") -> str:
    """What `add_text` read. RequestError when it is given twice, not at all, or not UTF-8.

    otherwise: what else to do, said when standard input is a terminal.
    """
    if args.text is not None and args.file is not None:
        raise RequestError(f"the {name} is given twice: leave out {name.upper()} or --file", name)
    if args.text is not None:
        return _decoded(args.text.encode("utf-8", "surrogateescape"), name.upper())
    if args.file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise RequestError(f"no {name}: give one, --file FILE or standard input{otherwise}", name)
    return read_text("-" if args.file is None else args.file)


def add_load_options(parser: argparse.ArgumentParser, context: int | None = None) -> None:
    """How the model is loaded. context: the default, None is that of `load`."""
    group = parser.add_argument_group("loading")
    shown = context or f"what the model was trained for, at most {DEFAULT_CONTEXT}"
    group.add_argument(
        "--context",
        type=int,
        default=context,
        metavar="TOKENS",
        help=f"context length (default {shown})",
    )
    add_threads(group)
    add_backend_options(group)
    group.add_argument(
        "--memory", type=size, metavar="SIZE", help="most for weights and cache, such as 4G"
    )
    group.add_argument(
        "--kv-cache-memory",
        type=size,
        metavar="SIZE",
        help="for the cache alone (default: what the sequences may need, at most half)",
    )
    group.add_argument(
        "--draft",
        metavar="MODEL",
        help="a smaller model with the same tokens that guesses ahead; the text stays the same",
    )
    group.add_argument(
        "--lora",
        action="append",
        default=[],
        metavar="FILE[:SCALE]",
        help="a LoRA adapter or control vector (GGUF), and how much of it (default 1); "
        "may be given several times",
    )


def add_threads(group: argparse._ActionsContainer) -> None:
    """--threads, for all that computes on the processor."""
    group.add_argument(
        "--threads",
        type=int,
        metavar="N",
        help="threads of the CPU (default one for each fast core)",
    )


def add_backend_options(group: argparse._ActionsContainer) -> None:
    """What computes, and what it stores keys and values in."""
    group.add_argument(
        "--backend",
        default=LoadOptions().backend,
        metavar="NAME",
        help="auto, cpu, opencl or reference",
    )
    group.add_argument(
        "--device",
        metavar="N",
        help="OpenCL device: a number of `edgellm doctor` or part of a name",
    )
    group.add_argument(
        "--gpu-layers",
        type=_gpu_layers,
        default=LoadOptions().gpu_layers,
        metavar="N",
        help="the last N layers run on the OpenCL device, the others on the processor; auto is "
        "as many as fit (default auto)",
    )
    group.add_argument(
        "--kv-cache-type", metavar="TYPE", help="f32, f16, q8_0, q4_0, or two as K/V"
    )


def _gpu_layers(text: str) -> int | Literal["auto"]:
    if text != "auto" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, or auto")
    return "auto" if text == "auto" else int(text)


def load_options(args: argparse.Namespace, **changes: Any) -> LoadOptions:
    """What `add_load_options` read; `changes` are fields that the command decides itself."""
    return LoadOptions(
        backend=args.backend,
        device=args.device,
        gpu_layers=args.gpu_layers,
        threads=args.threads,
        context_length=args.context,
        kv_cache_type=args.kv_cache_type,
        memory_limit=args.memory,
        kv_cache_memory=args.kv_cache_memory,
        draft=args.draft,
        adapters=tuple(args.lora),
        **changes,
    )


def add_sampling_options(parser: argparse.ArgumentParser) -> None:
    """How tokens are chosen and when the answer ends: an option for each of OPTIONS."""
    group = parser.add_argument_group(
        "sampling", "a model may come with other defaults, in its file or in the catalogue"
    )
    group.add_argument(
        "-n",
        "--max-tokens",
        type=int,
        metavar="N",
        help="the most tokens of the answer (default: no limit)",
    )
    group.add_argument(
        "--seed",
        type=_seed,
        default=_SEED,
        metavar="N",
        help=f"the same seed gives the same text (default {_SEED}); random: another each time",
    )
    for option in OPTIONS.values():
        if option.name not in _NOT_OFFERED:
            _add(group, option)


def sampling_params(args: argparse.Namespace) -> SamplingParams:
    """What `add_sampling_options` read; RequestError for what cannot be used."""
    given: dict[str, Any] = {"max_tokens": args.max_tokens, "seed": args.seed}
    for option in OPTIONS.values():
        value = getattr(args, option.name, None)
        if isinstance(value, list):
            value = _merged([from_text(option, text) for text in value])
        if value is not None:
            given[option.name] = value
    params = SamplingParams(**given)
    check_params(params)
    return params


def _add(group: "argparse._ArgumentGroup", option: Option) -> None:
    """An option of the command line. What may be given again is collected in a list."""
    name = f"--{option.name.replace('_', '-')}"
    if option.kind is FLAG:
        group.add_argument(name, action="store_true", default=None, help=option.help)
        return
    shown = _shown_default(option)
    text = f"{option.help} (default {shown})" if shown else option.help
    group.add_argument(
        name,
        action="append",
        metavar=option.kind.metavar,
        help=text.replace("%", "%%"),
    )


def _shown_default(option: Option) -> str:
    if option.default in (None, ()):
        return ""
    if isinstance(option.default, tuple):
        return ";".join(option.default) if option.choices else " ".join(map(repr, option.default))
    return str(option.default)


def _merged(values: list[Any]) -> Any:
    """The last of several values; those that are many themselves are put together."""
    if all(isinstance(value, tuple) for value in values):
        return tuple(item for value in values for item in value)
    if all(isinstance(value, dict) for value in values):
        return {key: item for value in values for key, item in value.items()}
    return values[-1]


def fetch(model: str) -> None:
    """Pulls a model that is not here yet, showing on a terminal how far it is.

    Before anything else and in the main thread, where Ctrl-C stops it at once.
    """
    from edgellm.client import find_model  # with the engine

    with DownloadProgress() as progress:
        find_model(model, progress)


def read_text(path: str) -> str:
    """A file as it is; - is standard input. RequestError when it is not UTF-8, or has no end."""
    if path == "-":
        return _decoded(sys.stdin.buffer.read(_MAX_TEXT + 1), "standard input")
    with typed_path(path).open("rb") as stream:
        return _decoded(stream.read(_MAX_TEXT + 1), path)


def lines_of(text: str) -> list[str]:
    """The lines of a file: other separators of Unicode than its newlines belong to them."""
    ended = text.removesuffix("\n").split("\n") if text else []
    return [line.removesuffix("\r") for line in ended]


def keep_inputs(output: Path, inputs: Iterable[str | os.PathLike[str] | None]) -> None:
    """RequestError when what is to be written is, by whatever name, a file that is read."""
    read = [typed_path(path) for path in inputs if path is not None]
    if output.exists() and any(path.exists() and output.samefile(path) for path in read):
        raise RequestError(f"{output} is a file that is read: write to another", "output")


def _decoded(raw: bytes, name: str) -> str:
    if len(raw) > _MAX_TEXT:
        raise RequestError(f"{name} has more than {_MAX_TEXT >> 20} MiB: give a shorter text")
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise RequestError(
            f"{name} is not UTF-8 text: byte {error.start} begins no character"
        ) from None


def _seed(text: str) -> int | None:
    if text != "random" and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, or random")
    return None if text == "random" else int(text)


def port(text: str) -> int:
    """A port of TCP, 0 for any that is free; for argparse."""
    if not text.isdecimal() or int(text) > _MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text!r} is no port: expected 0 to {_MAX_PORT}")
    return int(text)


def size(text: str) -> int:
    """Bytes, of a number with or without a unit; for argparse."""
    found = re.fullmatch(r"(\d{1,18}(?:\.\d{1,18})?)([kmg]?)(?:i?b)?", text.lower())
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no size: expected bytes, or 512M, 4G")
    return int(float(found[1]) * _UNITS[found[2]])

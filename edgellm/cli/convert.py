"""`edgellm convert FOLDER OUT`: a published checkpoint as a GGUF file."""

import argparse
from collections import Counter
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from edgellm.cli.ending import leaves_nothing
from edgellm.cli.options import keep_inputs
from edgellm.cli.output import byte_size, print_fields, print_json
from edgellm.cli.progress import named_bar
from edgellm.convert.checkpoint import Checkpoint, open_checkpoint
from edgellm.convert.families import FAMILIES
from edgellm.convert.families.wrapped import WRAPPERS
from edgellm.convert.packings import METHODS
from edgellm.convert.write import AUTO, TYPES, Converted, Watch, write_converted
from edgellm.gguf_loader import check_free, open_gguf
from edgellm.kernels.cpu.limits import usable_threads
from edgellm.quantize.plan import make_plan, recipe_name
from edgellm.quantize.recipes import RECIPES
from edgellm.quantize.write import write_quantized


def add_arguments(parser: argparse.ArgumentParser) -> None:
    kinds = ", ".join((*FAMILIES, *WRAPPERS))
    parser.epilog = f"Kinds of models: {kinds}. Quantised checkpoints: {', '.join(METHODS)}."
    parser.add_argument(
        "folder", metavar="FOLDER", help="a folder with config.json, a tokenizer and safetensors"
    )
    parser.add_argument("output", metavar="OUT", help="the file to write")
    mixtures = ", ".join(name for name in RECIPES if name not in TYPES)
    parser.add_argument(
        "--type",
        "--outtype",
        default=AUTO,
        metavar="TYPE",
        help=f"of matrices: {AUTO} for what holds what is stored (the default), "
        f"{', '.join(TYPES[1:])}, or a mixture of `edgellm quantize`: {mixtures}",
    )
    parser.add_argument(
        "--pre",
        metavar="NAME",
        help="the rule that the tokenizer splits text by, where it is not known",
    )
    parser.add_argument("--force", action="store_true", help="replace OUT when it is there")
    parser.add_argument("--json", action="store_true", help="report as one JSON object")


def run(args: argparse.Namespace) -> int:
    path = Path(args.output)
    check_free(path, args.force)
    by_name = {name.lower(): name for name in TYPES}
    type_name = by_name.get(args.type.lower()) or recipe_name(args.type)
    checkpoint = open_checkpoint(Path(args.folder))
    keep_inputs(path, checkpoint.folder.iterdir())
    with leaves_nothing(), named_bar("converting") as watch:
        if type_name in TYPES:
            done = write_converted(checkpoint, path, type_name, args.pre, args.force, watch)
        else:
            done = _write_quantised(checkpoint, path, type_name, args.pre, args.force, watch)
    with open_gguf(path) as file:
        types = Counter(tensor.type_name for tensor in file.tensors.values())
    if args.json:
        report = {"file": args.output, "file_size": done.size, "tensors": dict(types)}
        print_json({**report, "left_out": dict(done.left_out), "note": done.note})
        return 0
    counts = ", ".join(f"{count} {name}" for name, count in types.most_common())
    fields = [("file", args.output), ("size", byte_size(done.size)), ("tensors", counts)]
    if done.left_out:
        parts = ", ".join(f"{count} of {name}" for name, count in done.left_out.items())
        fields.append(("left out", f"{parts}: no part of the text model"))
    if done.note:
        fields.append(("note", done.note))
    print_fields(fields)
    return 0


def _write_quantised(
    checkpoint: Checkpoint,
    path: Path,
    name: str,
    rule: str | None,
    force: bool,
    watch: Watch | None,
) -> Converted:
    """By way of a file of what is stored, which lies beside OUT while it is needed."""
    with TemporaryDirectory(prefix=f".{path.name}.", dir=path.parent) as folder:
        whole = Path(folder) / "whole.gguf"
        done = write_converted(checkpoint, whole, AUTO, rule, watch=watch)
        with open_gguf(whole) as file:
            plan = make_plan(file, name)
            size = write_quantized(file, plan, path, usable_threads(), replace=force, watch=watch)
    return replace(done, size=size)

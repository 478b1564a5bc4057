"""`edgellm quantize IN OUT`: writes a model in fewer bits, of a mixture or for a size."""

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path

from edgellm.backends import Backends
from edgellm.cli.ending import leaves_nothing
from edgellm.cli.options import add_threads, keep_inputs, read_text, size
from edgellm.cli.output import print_json
from edgellm.cli.progress import named_bar
from edgellm.cli.quantize_methods import compensable, moved_scales
from edgellm.cli.quantize_report import print_plan, print_result, report
from edgellm.errors import RequestError
from edgellm.eval.chunks import cut
from edgellm.gguf_loader import GGUFFile, check_free, open_gguf
from edgellm.kernels.cpu.limits import usable_threads
from edgellm.pull import resolve
from edgellm.quantize.folds import Factors
from edgellm.quantize.importance import Importance, fitted, read_importance
from edgellm.quantize.moments import Moments
from edgellm.quantize.plan import (
    Override,
    Plan,
    is_requantized,
    make_plan,
    parse_override,
    type_name,
)
from edgellm.quantize.probes import costs
from edgellm.quantize.recipes import RECIPES
from edgellm.quantize.strips import Array
from edgellm.quantize.target import CANDIDATES, Target, plan_for
from edgellm.quantize.write import write_quantized
from edgellm.tokenizer import load_tokenizer

_CALIBRATED = 256, 3  # tokens at a time of a text that tells what errors cost, and how often
_COMPENSATED = 512, 16  # the same of one whose errors are made up for
_NAMED = 4  # tensors that a note names


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="IN", help="a stored model's name or a GGUF file")
    parser.add_argument("output", metavar="OUT", nargs="?", help="the file to write")
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument(
        "--type", metavar="TYPE", help=f"by llama.cpp's names: {', '.join(RECIPES)}"
    )
    wanted.add_argument(
        "--target-size",
        type=size,
        metavar="SIZE",
        help="the most that the file may have, such as 2.5G: types are chosen tensor by tensor, "
        "for the least error of what is tried",
    )
    wanted.add_argument(
        "--target-bpw", type=float, metavar="BITS", help="the same, as bits for each weight"
    )
    parser.add_argument(
        "--candidates",
        metavar="TYPE,...",
        help=f"types to choose from for a target (default {','.join(CANDIDATES)})",
    )
    parser.add_argument(
        "--calibrate",
        metavar="FILE",
        help="for a target: a text that tells, read once for each kind of tensor, what errors cost",
    )
    parser.add_argument(
        "--tensor-type",
        action="append",
        default=[],
        metavar="REGEX=TYPE",
        help="another type for tensors whose names it is found in; may be given several times, "
        "the first that fits counts",
    )
    parser.add_argument(
        "--pure", action="store_true", help="one type for all matrices, without the mixture's rules"
    )
    parser.add_argument(
        "--imatrix",
        metavar="FILE",
        help="an importance matrix (GGUF or .dat): what errors matter most",
    )
    moved = parser.add_mutually_exclusive_group()
    moved.add_argument(
        "--awq",
        action="store_true",
        help="scale columns by how strongly they are driven, where what makes their inputs can "
        "undo it and less is lost (wants --imatrix)",
    )
    moved.add_argument(
        "--smooth",
        action="store_true",
        help="the same by SmoothQuant's rule, for what rounding inputs loses as well",
    )
    parser.add_argument(
        "--gptq",
        metavar="FILE",
        help="a text: matrices are rounded so that later weights make up for the errors of earlier "
        "ones in what the model does with it (Q4_0 to Q5_1, IQ4_NL, Q2_K to Q6_K)",
    )
    add_threads(parser)
    parser.add_argument("--force", action="store_true", help="replace OUT when it is there")
    parser.add_argument(
        "--dry-run", action="store_true", help="write nothing; list types and sizes"
    )
    parser.add_argument("--json", action="store_true", help="report as one JSON object")


def run(args: argparse.Namespace) -> int:
    if args.threads is not None and args.threads < 1:
        raise RequestError(f"--threads is {args.threads}, expected 1 or more", "threads")
    if args.output is None and not args.dry_run:
        raise RequestError("no OUT: say which file to write, or --dry-run", "output")
    for name in ("candidates", "calibrate"):
        if args.type is not None and getattr(args, name) is not None:
            raise RequestError(f"--{name} is for --target-size and --target-bpw", name)
    if args.type is None and args.pure:
        raise RequestError("--pure is for --type: a target has types of its own", "pure")
    scaling = "smooth" if args.smooth else "awq"
    if (args.awq or args.smooth) and args.imatrix is None:
        raise RequestError(f"--{scaling} wants --imatrix, which tells what is driven", scaling)
    overrides = [parse_override(text) for text in args.tensor_type]
    importance = None if args.imatrix is None else read_importance(args.imatrix)
    with open_gguf(resolve(args.model, fetch=False)) as file:
        if importance is not None:
            importance = fitted(importance, file)
        errors: Mapping[str, float] = {}
        if args.type is None:
            plan, errors = _plan_for_target(args, file, overrides, importance)
        else:
            plan = make_plan(file, args.type, overrides, importance is not None, args.pure)
        _note(plan, importance)
        written = None if args.dry_run else _write(args, file, plan, importance)
    if args.json:
        print_json(report(plan, written, errors))
    elif args.dry_run:
        print_plan(plan, errors)
    else:
        print_result(plan, args.output, written)
    return 0


def _plan_for_target(
    args: argparse.Namespace,
    file: GGUFFile,
    overrides: Sequence[Override],
    importance: Importance | None,
) -> tuple[Plan, Mapping[str, float]]:
    """The plan, and the error that is reckoned with, by tensor name."""
    if args.target_bpw is not None and not 0 < args.target_bpw < 64:
        raise RequestError(
            f"--target-bpw is {args.target_bpw:g}, expected more than 0", "target_bpw"
        )
    types = CANDIDATES
    if args.candidates is not None:
        types = tuple(map(type_name, args.candidates.split(",")))
    means = {} if importance is None else importance.means
    told = None if args.calibrate is None else _costs(args, file, means)
    with named_bar("trying types") as watch:
        plan, chosen = plan_for(
            file,
            Target(args.target_size, args.target_bpw),
            types,
            means,
            args.threads or usable_threads(),
            overrides,
            told,
            watch,
        )
    return plan, {name: choice.error for name, choice in chosen.items()}


def _costs(
    args: argparse.Namespace, file: GGUFFile, means: Mapping[str, Array]
) -> dict[str, float]:
    """What errors cost by kind of tensor, when the model reads the text of --calibrate."""
    chunks = _read(file, args.calibrate, *_CALIBRATED)
    with closing(Backends(_say)) as backends, named_bar("reading") as watch:
        return costs(file, chunks, means, backends, args.threads, watch)


def _read(file: GGUFFile, path: str, context: int, chunks: int) -> list[list[int]]:
    """The first chunks of a text, as the model's token ids."""
    tokenizer = load_tokenizer(file)
    bos = tokenizer.bos_id if tokenizer.add_bos else None
    return cut(tokenizer.encode(read_text(path)), bos, context, chunks)


def _write(
    args: argparse.Namespace, file: GGUFFile, plan: Plan, importance: Importance | None
) -> int:
    path = Path(args.output)
    keep_inputs(path, [*file.parts, args.imatrix, args.gptq, args.calibrate])
    check_free(path, args.force)
    with ExitStack() as stack:
        stack.enter_context(leaves_nothing())
        factors: Mapping[str, Factors] = {}
        if importance is not None and (args.awq or args.smooth):
            threads = args.threads or usable_threads()
            factors = moved_scales(file, plan, importance.means, args.smooth, threads, _say)
        moments = None
        if args.gptq is not None:
            chunks = _read(file, args.gptq, *_COMPENSATED)
            names = compensable(plan, sum(map(len, chunks)), _say)
            backends = stack.enter_context(closing(Backends(_say)))
            moments = stack.enter_context(
                Moments(file, chunks, backends, args.threads, names=names)
            )
        watch = stack.enter_context(named_bar("quantising"))
        return write_quantized(
            file,
            plan,
            path,
            args.threads or usable_threads(),
            importance,
            args.force,
            watch,
            moments,
            factors,
        )


def _note(plan: Plan, importance: Importance | None) -> None:
    """What users should know, on standard error."""
    changed = [planned for planned in plan.tensors if not planned.is_copied]
    if is_requantized(plan):
        _say("the model is quantised already: from its F16 or BF16 file the result is better")
    fallen = [planned for planned in changed if planned.fallback_of is not None]
    if fallen:
        _say(
            f"{len(fallen)} tensors are of another type than asked for, since their rows are no "
            "multiple of its block: --dry-run lists them"
        )
    if importance is not None:
        names = [planned.tensor.name for planned in changed]
        missing = [name for name in names if name not in importance.means]
        if missing and missing == names:
            raise RequestError(
                f"the importance matrix has none of the model's tensors ({missing[0]} and others): "
                "it is of another model",
                "imatrix",
            )
        if missing:
            most = ", ".join(missing[:_NAMED]) + (" and others" if missing[_NAMED:] else "")
            _say(f"the importance matrix lacks {len(missing)} of {len(names)} tensors: {most}")


def _say(text: str) -> None:
    print(f"edgellm: {text}", file=sys.stderr)

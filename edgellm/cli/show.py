"""`edgellm show NAME|PATH`: what a model file holds and the memory it needs."""

import argparse
from dataclasses import asdict

from edgellm.cli.output import byte_size, print_fields, print_json, print_table
from edgellm.errors import RequestError
from edgellm.gguf_loader import open_gguf
from edgellm.pull import resolve
from edgellm.summary import Memory, ModelSummary, TokenizerSummary, summarize


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="NAME|PATH", help="a stored model's name or a file")
    parser.add_argument(
        "--context",
        type=int,
        metavar="TOKENS",
        help="reckon memory for so many tokens (default: at most 8192)",
    )
    parser.add_argument("--json", action="store_true", help="report as one JSON object")


def run(args: argparse.Namespace) -> int:
    if args.context is not None and args.context < 1:
        raise RequestError(f"--context is {args.context}, expected 1 or more", field="context")
    with open_gguf(resolve(args.model, fetch=False)) as file:
        summary = summarize(file, args.context)
    if args.json:
        print_json(asdict(summary))
        return 0
    print_fields(_fields(summary))
    print()
    print_table(
        ("TYPE", "TENSORS", "PARAMETERS", "BYTES", "BITS"),
        [
            (
                use.type,
                f"{use.tensors:,}",
                f"{use.parameters:,}",
                f"{use.bytes:,}",
                f"{8 * use.bytes / use.parameters:.2f}",
            )
            for use in summary.tensor_types
        ],
    )
    return 0


def _fields(summary: ModelSummary) -> list[tuple[str, str]]:
    unsupported = "" if summary.supported else " (not supported by this version)"
    context = summary.context_length
    return [
        ("path", summary.path + (f" ({summary.parts} parts)" if summary.parts > 1 else "")),
        ("name", summary.name or "?"),
        ("architecture", summary.architecture + unsupported),
        ("licence", summary.license or "?"),
        ("parameters", _parameters(summary)),
        ("layers", str(summary.layers)),
        *_heads(summary),
        ("context", f"{context:,} tokens" if context else "?"),
        ("tokenizer", _tokenizer(summary.tokenizer)),
        ("chat template", _template(summary.chat_template)),
        ("memory", _memory(summary.memory)),
    ]


def _heads(summary: ModelSummary) -> list[tuple[str, str]]:
    """Only of files that have some."""
    if not summary.mtp_heads:
        return []
    use = "the first one guesses tokens ahead" if summary.uses_mtp else "not used by this version"
    return [("MTP heads", f"{summary.mtp_heads} ({use})")]


def _parameters(summary: ModelSummary) -> str:
    if summary.active_parameters == summary.parameters:
        return f"{summary.parameters:,}"
    return f"{summary.parameters:,}, of which a token uses {summary.active_parameters:,}"


def _tokenizer(tokenizer: TokenizerSummary) -> str:
    if tokenizer.model is None:
        return "none"
    pre = f", {tokenizer.pre}" if tokenizer.pre else ""
    return f"{tokenizer.model}{pre}, {tokenizer.vocab_size:,} tokens"


def _template(first_line: str | None) -> str:
    if first_line is None:
        return "none"
    return first_line if len(first_line) <= 100 else first_line[:99] + "…"


def _memory(memory: Memory) -> str:
    states = f", states {byte_size(memory.states)}" if memory.states else ""
    return (
        f"{byte_size(memory.total)} at {memory.context:,} tokens: weights "
        f"{byte_size(memory.weights)}, KV cache in f16 {byte_size(memory.kv_cache)}{states}"
    )

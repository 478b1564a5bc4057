"""`edgellm imatrix MODEL FILE -o OUT`: what drives each weight when the model reads a text."""

import argparse
import sys
from contextlib import closing
from pathlib import Path

from edgellm.backends import Backends
from edgellm.cli import options
from edgellm.cli.output import byte_size, print_fields, print_json
from edgellm.cli.progress import named_bar
from edgellm.errors import RequestError
from edgellm.eval.chunks import cut
from edgellm.gguf_loader import check_free, open_gguf
from edgellm.pull import resolve
from edgellm.quantize.collect import collect
from edgellm.quantize.importance import write_importance
from edgellm.tokenizer import load_tokenizer


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    parser.add_argument(
        "file", metavar="FILE", help="a text like those the model is for; - is standard input"
    )
    parser.add_argument("-o", "--output", required=True, metavar="OUT", help="the file to write")
    parser.add_argument(
        "--context",
        type=int,
        default=512,
        metavar="TOKENS",
        help="tokens read at a time (default 512)",
    )
    parser.add_argument("--chunks", type=int, metavar="N", help="read only the first N chunks")
    parser.add_argument("--backend", default="cpu", metavar="NAME", help="cpu or reference")
    options.add_threads(parser)
    parser.add_argument("--force", action="store_true", help="replace OUT when it is there")
    parser.add_argument("--json", action="store_true", help="report as one JSON object")


def run(args: argparse.Namespace) -> int:
    if args.backend not in ("cpu", "reference"):
        raise RequestError(f"backend is {args.backend!r}: expected cpu or reference", "backend")
    text = options.read_text(args.file)
    path = Path(args.output)
    check_free(path, args.force)
    backends = Backends(lambda note: print(f"edgellm: {note}", file=sys.stderr))
    with closing(backends), open_gguf(resolve(args.model, fetch=False)) as file:
        options.keep_inputs(path, [*file.parts, args.file])
        tokenizer = load_tokenizer(file)
        bos = tokenizer.bos_id if tokenizer.add_bos else None
        chunks = cut(tokenizer.encode(text), bos, args.context, args.chunks)
        with named_bar("reading", len(chunks)) as watch:
            driven = collect(
                file,
                chunks,
                args.context,
                backends,
                args.backend,
                args.threads,
                watch and (lambda done: watch(done, len(chunks), "reading")),
            )
    size = write_importance(path, driven, [args.file], len(chunks), args.context, args.force)
    unseen = sum(int((seen.counts == 0).sum()) for seen in driven.values())
    if args.json:
        print_json(
            {
                "weights": len(driven),
                "chunks": len(chunks),
                "context": args.context,
                "unseen_experts": unseen,
                "file_size": size,
            }
        )
        return 0
    print_fields(
        [
            ("file", args.output),
            ("size", byte_size(size)),
            ("weights", str(len(driven))),
            ("read", f"{len(chunks)} chunks of {args.context} tokens"),
            *([("experts without a token", str(unseen))] if unseen else []),
        ]
    )
    return 0

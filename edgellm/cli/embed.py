"""`edgellm embed`: the embedding of a text, or of each line of one, as numbers."""

import argparse
import asyncio
from collections.abc import Sequence
from dataclasses import asdict

from edgellm.cli import options
from edgellm.cli.output import print_json
from edgellm.cli.progress import DownloadProgress
from edgellm.cli.running_server import add_server_option, find_server
from edgellm.client.naming import Served
from edgellm.types import POOLINGS, LoadOptions


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.add_model(parser)
    options.add_text(parser, "text", "the text")
    parser.add_argument("--lines", action="store_true", help="each line is a text of its own")
    parser.add_argument(
        "--pooling",
        choices=POOLINGS,
        help="how the rows of a text's tokens become one (default: as the model's file asks for)",
    )
    parser.add_argument("--json", action="store_true", help="report as one JSON object")
    add_server_option(parser)
    options.add_load_options(parser)


def run(args: argparse.Namespace) -> int:
    text = options.text(args, "text")
    texts = options.lines_of(text) if args.lines else [text.removesuffix("\n")]
    load = options.load_options(args)
    served = asyncio.run(find_server(args, load))
    if served is not None:
        asyncio.run(_embed(args, texts, served))
        return 0
    options.fetch(args.model)
    with DownloadProgress() as report:
        asyncio.run(_load_and_embed(args, texts, load, report))
    return 0


async def _load_and_embed(
    args: argparse.Namespace, texts: Sequence[str], load: LoadOptions, report: DownloadProgress
) -> None:
    from edgellm.client import LocalClient  # the engine: not for a server's answer

    async with LocalClient(report=report) as client:
        info = await client.load(args.model, load)
        await _embed(args, texts, Served(client, info.name))


async def _embed(args: argparse.Namespace, texts: Sequence[str], served: Served) -> None:
    """A line of numbers for each vector; of pooling "none" as many as there are tokens."""
    found = await served.client.embed(texts, args.pooling, model=served.model)
    if args.json:
        print_json({"model": served.model, "embeddings": [asdict(e) for e in found]})
        return
    for embedding in found:
        for row in embedding.rows:
            print(*(f"{number:.9g}" for number in row))

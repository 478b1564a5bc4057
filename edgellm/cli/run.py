"""`edgellm run`: one answer to standard output and nothing else."""

import argparse
import asyncio
import re
import sys
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

from edgellm.cli import options
from edgellm.cli.output import print_json
from edgellm.cli.progress import DownloadProgress
from edgellm.client import Client, LocalClient
from edgellm.completion import collect
from edgellm.errors import RequestError
from edgellm.types import Completion, LoadOptions, Request, TokenEvent

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline


def add_arguments(parser: argparse.ArgumentParser) -> None:
    options.allow_options_between(parser)
    options.add_model(parser)
    parser.add_argument(
        "prompt", metavar="PROMPT", nargs="?", help="the question; else --file or standard input"
    )
    parser.add_argument("--file", metavar="FILE", help="read the prompt from a file")
    parser.add_argument("--system", metavar="TEXT", help="instructions that go before the question")
    parser.add_argument(
        "--raw", action="store_true", help="continue the prompt as it is, without a chat template"
    )
    parser.add_argument("--json", action="store_true", help="report the answer as one JSON object")
    options.add_load_options(parser)
    options.add_sampling_options(parser)


def run(args: argparse.Namespace) -> int:
    prompt = _prompt(args)
    options.fetch(args.model)
    load = options.load_options(args, max_num_seqs=1)
    with DownloadProgress() as report:
        asyncio.run(_answer(args, prompt, load, report))
    return 0


def _prompt(args: argparse.Namespace) -> str:
    """From the argument, the file or standard input, in this order; two of them are an error."""
    if args.prompt is not None and args.file is not None:
        raise RequestError("the prompt is given twice: leave out PROMPT or --file", "prompt")
    if args.raw and args.system is not None:
        raise RequestError("--system needs a chat template: leave out --system or --raw", "system")
    if args.prompt is not None:
        return str(args.prompt)
    if args.file is None and (sys.stdin is None or sys.stdin.isatty()):
        raise RequestError(
            "no prompt: give one, --file FILE or standard input "
            f"(`edgellm chat {args.model}` opens a conversation)",
            "prompt",
        )
    return options.read_text(args.file).removesuffix("\n")  # `echo` and editors add it


async def _answer(
    args: argparse.Namespace, prompt: str, load: LoadOptions, report: DownloadProgress
) -> None:
    async with LocalClient(report=report) as client:
        info = await client.load(args.model, load)
        request = Request(
            prompt=prompt if args.raw else await _chat(client, prompt, args.system),
            params=options.sampling_params(args, info.sampling),
        )
        events = []
        async with aclosing(client.submit(request)) as stream:
            async for event in stream:
                events.append(event)
                if not args.json:
                    _write(event)
    if args.json:
        print_json(_report(collect(events)))
    elif sys.stdout.isatty():
        print()


async def _chat(client: Client, prompt: str, system: str | None) -> tuple[int, ...]:
    messages = [{"role": "user", "content": prompt}]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return await client.chat_ids(messages)


def _write(event: TokenEvent) -> None:
    if event.text:
        sys.stdout.write(_harmless(event.text) if sys.stdout.isatty() else event.text)
        sys.stdout.flush()


def _harmless(text: str) -> str:
    """The text with control characters shown escaped: a model must not command a terminal."""
    return _CONTROL.sub(lambda found: repr(found[0])[1:-1], text)


def _report(completion: Completion) -> dict[str, Any]:
    report = asdict(completion)
    if not completion.others:
        del report["others"]
    return report

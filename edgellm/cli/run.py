"""`edgellm run`: one answer to standard output and nothing else."""

import argparse
import asyncio
import re
import sys
from contextlib import aclosing, suppress
from dataclasses import asdict
from typing import Any

from edgellm.cli import options
from edgellm.cli.output import print_json
from edgellm.cli.progress import DownloadProgress
from edgellm.cli.running_server import Served, add_server_option, find_server
from edgellm.client import Client
from edgellm.completion import collect
from edgellm.errors import NoSession, RequestError
from edgellm.types import Completion, LoadOptions, Message, Request, SamplingParams, TokenEvent

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "%(prog)s MODEL [PROMPT] [options]"
    options.add_model(parser)
    options.add_text(parser, "prompt", "the question")
    parser.add_argument("--system", metavar="TEXT", help="instructions that go before the question")
    parser.add_argument(
        "--raw", action="store_true", help="continue the prompt as it is, without a chat template"
    )
    parser.add_argument(
        "--session", metavar="NAME", help="go on with the conversation of this name, and save it"
    )
    parser.add_argument("--json", action="store_true", help="report the answer as one JSON object")
    add_server_option(parser)
    options.add_load_options(parser)
    options.add_sampling_options(parser)


def run(args: argparse.Namespace) -> int:
    prompt = _prompt(args)
    params = options.sampling_params(args)
    load = options.load_options(args, max_num_seqs=1)
    served = asyncio.run(find_server(args, load))
    if served is not None:
        asyncio.run(_answer(args, prompt, params, served))
        return 0
    options.fetch(args.model)
    with DownloadProgress() as report:
        asyncio.run(_load_and_answer(args, prompt, params, load, report))
    return 0


def _prompt(args: argparse.Namespace) -> str:
    if args.raw and args.system is not None:
        raise RequestError("--system needs a chat template: leave out --system or --raw", "system")
    if args.raw and args.session is not None:
        raise RequestError("a session is a chat: leave out --session or --raw", "session")
    chat = f" (`edgellm chat {args.model}` opens a conversation)"
    prompt = options.text(args, "prompt", chat).removesuffix("\n")  # `echo` and editors add it
    if not prompt and not args.raw:
        raise RequestError("the prompt is empty: give a question", "prompt")
    return prompt


async def _load_and_answer(
    args: argparse.Namespace,
    prompt: str,
    params: SamplingParams,
    load: LoadOptions,
    report: DownloadProgress,
) -> None:
    from edgellm.client import LocalClient  # the engine: not for a server's answer

    async with LocalClient(report=report) as client:
        info = await client.load(args.model, load)
        await _answer(args, prompt, params, Served(client, info.name))


async def _answer(
    args: argparse.Namespace, prompt: str, params: SamplingParams, served: Served
) -> None:
    client, model = served.client, served.model
    messages = await _messages(client, prompt, args, model)
    ids = prompt if args.raw else await client.chat_ids(messages, model=model)
    events = []
    async with aclosing(client.submit(Request(ids, params, model=model))) as stream:
        async for event in stream:
            events.append(event)
            if not args.json:
                _write(event)
    completion = collect(events)
    if args.session is not None:
        messages.append({"role": "assistant", "content": completion.text})
        known = [*ids, *completion.token_ids]
        await client.save_session(args.session, known, messages, model)
    if args.json:
        print_json(_report(completion))
    elif sys.stdout.isatty():
        print()


async def _messages(
    client: Client, prompt: str, args: argparse.Namespace, model: str
) -> list[Message]:
    """The conversation so far, of a session that is saved already, and the question."""
    messages: list[Message] = []
    if args.session is not None:
        with suppress(NoSession):  # it begins now
            messages += (await client.restore_session(args.session, model)).messages
    if args.system is not None and messages:
        raise RequestError("the session has its instructions: leave out --system", "system")
    if args.system is not None:
        messages.append({"role": "system", "content": args.system})
    return [*messages, {"role": "user", "content": prompt}]


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

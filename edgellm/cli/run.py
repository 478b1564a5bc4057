"""`edgellm run`: one answer to standard output and nothing else there."""

import argparse
import asyncio
import sys
from contextlib import aclosing, suppress
from dataclasses import asdict
from typing import Any

from edgellm.cli import options
from edgellm.cli.output import print_json
from edgellm.cli.progress import DownloadProgress
from edgellm.cli.running_server import Served, add_server_option, find_server
from edgellm.cli.spoken import Spoken
from edgellm.client import Client
from edgellm.client.chat import chat_request
from edgellm.completion import collect
from edgellm.dialects import Answering, taken_apart
from edgellm.dialects.effort import LEVELS
from edgellm.errors import NoSession, RequestError
from edgellm.types import Completion, LoadOptions, Message, Request, SamplingParams

_SHOWS = {"show": True, "hide": False}
_NO_ANSWER = "edgellm: the answer ended in its reasoning: -n and --context say how long it may be"


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
    parser.add_argument(
        "--reasoning",
        choices=_SHOWS,
        help="what a model thinks before it answers goes to standard error, or nowhere (default: "
        "shown on a terminal)",
    )
    parser.add_argument(
        "--thinking",
        choices=LEVELS,
        help="whether and how much it thinks, for models whose chat template has a switch",
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
    if args.raw and args.thinking is not None:
        raise RequestError("--thinking needs a chat template: leave it out, or --raw", "thinking")
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
    if args.raw:
        request, answering = Request(prompt, params, model=model), Answering()
    else:
        request, answering = await chat_request(client, messages, params, model, args.thinking)
    parser = answering.parser()
    spoken = Spoken(_SHOWS.get(args.reasoning))
    events = []
    async with aclosing(client.submit(request)) as stream:
        async for event in stream:
            events.append(event)
            if not args.json:
                spoken.write(parser.push(event.text))
    completion = taken_apart(collect(events), answering.parser)
    if args.session is not None:
        messages.append({"role": "assistant", "content": completion.text})
        known = [*request.prompt, *completion.token_ids]
        await client.save_session(args.session, known, messages, model)
    if args.json:
        print_json(_report(completion))
    else:
        spoken.write(parser.finish())
        spoken.end()
        if completion.reasoning and not completion.text:
            print(_NO_ANSWER, file=sys.stderr)


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


def _report(completion: Completion) -> dict[str, Any]:
    report = asdict(completion)
    if not completion.others:
        del report["others"]
    return report

"""`edgellm run`: one answer to standard output and nothing else there."""

import argparse
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import asdict
from typing import Any, Protocol

from edgellm.cli import options
from edgellm.cli.output import print_json
from edgellm.cli.progress import DownloadProgress
from edgellm.cli.running_server import add_server_option
from edgellm.cli.spoken import Spoken
from edgellm.completion import collect
from edgellm.dialects import TAIL, Answering, plan, taken_apart, thinking_variables
from edgellm.dialects.effort import LEVELS
from edgellm.errors import NoSession, RequestError
from edgellm.types import (
    Completion,
    Message,
    Messages,
    ModelDetails,
    Request,
    SamplingParams,
    Session,
    TokenEvent,
)

_SHOWS = {"show": True, "hide": False}
_CUT_OFF = "-n and --context say how long it may be"
_ENDED = "--reasoning show tells it, --thinking off does without where the model has a switch"


class Model(Protocol):
    """What `llm.Model` and a server's model have in common, as far as one answer needs it."""

    def details(self) -> ModelDetails: ...
    def chat_ids(
        self, messages: Messages, variables: Mapping[str, Any] | None = None
    ) -> tuple[int, ...]: ...
    def detokenize(self, ids: Sequence[int]) -> str: ...
    def submit(self, request: Request) -> Generator[TokenEvent, None, None]: ...
    def restore_session(self, name: str) -> Session: ...
    def save_session(self, name: str, ids: Sequence[int], messages: Messages) -> object: ...


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
    if args.server is not None:
        from edgellm.cli.served_model import served_model  # asyncio: not for an engine of our own

        with served_model(args, load) as served:
            if served is not None:
                _answer(args, prompt, params, served)
                return 0
    options.fetch(args.model)
    from edgellm import llm  # the engine: not for a server's answer

    with DownloadProgress() as report, llm.Model.open(args.model, load, report) as model:
        _answer(args, prompt, params, model)
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


def _answer(args: argparse.Namespace, prompt: str, params: SamplingParams, model: Model) -> None:
    messages = _messages(model, prompt, args)
    if args.raw:
        request, answering = Request(prompt, params), Answering()
    else:
        request, answering = _chat_request(model, messages, params, args.thinking)
    parser = answering.parser()
    spoken = Spoken(_SHOWS.get(args.reasoning))
    events = []
    with closing(model.submit(request)) as stream:
        for event in stream:
            events.append(event)
            if not args.json:
                spoken.write(parser.push(event.text))
    completion = taken_apart(collect(events), answering.parser)
    if args.session is not None:
        messages.append({"role": "assistant", "content": completion.text})
        known = [*request.prompt, *completion.token_ids]
        model.save_session(args.session, known, messages)
    if args.json:
        print_json(_report(completion))
    else:
        spoken.write(parser.finish())
        spoken.end()
        if completion.reasoning and not completion.text:
            advice = _CUT_OFF if completion.finish_reason == "length" else _ENDED
            print(f"edgellm: the answer ended in its reasoning: {advice}", file=sys.stderr)


def _messages(model: Model, prompt: str, args: argparse.Namespace) -> list[Message]:
    """The conversation so far, of a session that is saved already, and the question."""
    messages: list[Message] = []
    if args.session is not None:
        with suppress(NoSession):  # it begins now
            messages += model.restore_session(args.session).messages
    if args.system is not None and messages:
        raise RequestError("the session has its instructions: leave out --system", "system")
    if args.system is not None:
        messages.append({"role": "system", "content": args.system})
    return [*messages, {"role": "user", "content": prompt}]


def _chat_request(
    model: Model, messages: Messages, params: SamplingParams, thinking: str | None
) -> tuple[Request, Answering]:
    """What asks a model for the next message. thinking: one of LEVELS; None leaves it to the
    template. RequestError for a level where the template has no switch."""
    details = model.details()
    variables = thinking_variables(details, thinking) if thinking else {}
    if variables is None:
        raise RequestError(
            f"the chat template of {details.name} has no switch for thinking", "thinking"
        )
    ids = model.chat_ids(messages, variables)
    answering = plan(details).answering(params, model.detokenize(ids[-TAIL:]))
    return Request(ids, answering.params, shown=answering.shown), answering


def _report(completion: Completion) -> dict[str, Any]:
    report = asdict(completion)
    if not completion.others:
        del report["others"]
    return report

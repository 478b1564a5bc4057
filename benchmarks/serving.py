"""Many sessions at once: how long each waits, and how many tokens come out in all.

    python benchmarks/serving.py MODEL.gguf --sessions 1,2,4,8      # edgellm, in this process
    python benchmarks/serving.py MODEL.gguf --url http://127.0.0.1:8080   # llama.cpp's server

For each number of sessions: first all requests of the trace as fast as they are served, which is
the capacity; then the same requests arriving at random (Poisson) at 0.5 and 0.9 of it. Reports
time to first token (ms, p50 and p99), time between tokens (ms, p50 and p99) and tokens/s. Both
servers get the same token ids and the same arrivals. The trace is `serving_trace.json`; half of
its requests are second turns, whose prompt is that of the first with its answer and new tokens.
"""

import argparse
import asyncio
import json
import random
import statistics
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

TRACE = Path(__file__).with_name("serving_trace.json")
LOADS = (0.5, 0.9)  # of capacity
_VOCABULARY = 10_000  # token ids are drawn below this


@dataclass
class Turn:
    """One request. new_tokens: of its prompt, after those of the turn before where it has one."""

    new_tokens: int
    answer_tokens: int
    before: int | None
    prompt: list[int] = field(default_factory=list)
    answer: list[int] = field(default_factory=list)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    times: list[float] = field(default_factory=list)  # the start, then each token


Stream = Callable[[Turn], AsyncGenerator[list[int], None]]  # new token ids, as they come


def make_trace(seed: int = 1, conversations: int = 24) -> list[dict[str, int | None]]:
    """Conversations of two turns; prompts of 64 to 1,024 tokens, answers of 32 to 256."""
    draw = random.Random(seed)
    turns: list[dict[str, int | None]] = []
    for _ in range(conversations):
        first, answers, room = 0, [0, 0], 0
        while room < 16:  # tokens that the second turn may add
            first = round(64 * 2 ** draw.uniform(0, 4))
            answers = [round(32 * 2 ** draw.uniform(0, 3)) for _ in range(2)]
            room = min(256, 1024 - first - answers[0])
        second = draw.randint(16, room)
        turns.append({"new_tokens": first, "answer_tokens": answers[0], "before": None})
        turns.append({"new_tokens": second, "answer_tokens": answers[1], "before": len(turns) - 1})
    return turns


def read_trace(limit: int | None) -> list[Turn]:
    """The turns of the committed trace, with prompts of random tokens."""
    draw = random.Random(7)
    turns = [Turn(**entry) for entry in json.loads(TRACE.read_text())[:limit]]
    for turn in turns:
        turn.prompt = draw.choices(range(100, _VOCABULARY), k=turn.new_tokens)
    return turns


async def play(
    turns: list[Turn], stream: Stream, sessions: int, per_second: float | None
) -> dict[str, float]:
    """Serves all turns, `sessions` at a time at most, arriving at a rate or all at once."""
    draw, room = random.Random(3), asyncio.Semaphore(sessions)
    begin = time.perf_counter()

    async def serve(turn: Turn, due: float) -> None:
        if turn.before is not None:
            before = turns[turn.before]
            await before.done.wait()
            turn.prompt = [*before.prompt, *before.answer, *turn.prompt]
        await asyncio.sleep(max(0.0, begin + due - time.perf_counter()))
        turn.times.append(time.perf_counter())
        async with room, aclosing(stream(turn)) as pieces:
            async for ids in pieces:
                turn.answer += ids
                turn.times += [time.perf_counter()] * len(ids)
        turn.done.set()

    due, tasks = 0.0, []
    for turn in turns:
        if per_second is not None:
            due += draw.expovariate(per_second)
        tasks.append(asyncio.create_task(serve(turn, due)))
    await asyncio.gather(*tasks)
    return report(turns, time.perf_counter() - begin)


def report(turns: list[Turn], seconds: float) -> dict[str, float]:
    """The numbers of one run."""
    first = [1e3 * (turn.times[1] - turn.times[0]) for turn in turns]
    between = [
        1e3 * (b - a)
        for turn in turns
        for a, b in zip(turn.times[1:], turn.times[2:], strict=False)
    ]
    return {
        "requests_per_s": len(turns) / seconds,
        "tokens_per_s": sum(len(turn.answer) for turn in turns) / seconds,
        "first_p50_ms": statistics.median(first),
        "first_p99_ms": quantile(first, 0.99),
        "between_p50_ms": statistics.median(between),
        "between_p99_ms": quantile(between, 0.99),
    }


def quantile(values: list[float], part: float) -> float:
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


async def measure(make: Callable[[int], Any], sessions: list[int], limit: int | None) -> None:
    """Prints one line of JSON per run."""
    for count in sessions:
        async with make(count) as stream:
            capacity = await play(read_trace(limit), stream, count, None)
            show(count, "capacity", capacity)
        for load in LOADS:
            async with make(count) as stream:  # with nothing in its cache
                rate = load * capacity["requests_per_s"]
                show(count, str(load), await play(read_trace(limit), stream, count, rate))


def show(sessions: int, load: str, found: dict[str, float]) -> None:
    numbers = {name: round(value, 3) for name, value in found.items()}
    print(json.dumps({"sessions": sessions, "load": load, **numbers}), flush=True)


class Edgellm:
    """The engine in this process, behind the door that every front end uses."""

    def __init__(self, path: Path, sessions: int) -> None:
        from edgellm.client import LocalClient

        self.path, self.sessions, self.client = path, sessions, LocalClient()

    async def __aenter__(self) -> Stream:
        from edgellm.types import LoadOptions

        options = LoadOptions(context_length=2048, max_num_seqs=self.sessions)
        await self.client.load(str(self.path), options)
        return self.stream

    async def __aexit__(self, *_: object) -> None:
        await self.client.close()

    async def stream(self, turn: Turn) -> AsyncGenerator[list[int], None]:
        from edgellm.types import Request, SamplingParams

        params = SamplingParams(temperature=0, max_tokens=turn.answer_tokens, ignore_eos=True)
        async with aclosing(self.client.submit(Request(tuple(turn.prompt), params))) as events:
            async for event in events:
                yield list(event.token_ids)


class LlamaServer:
    """llama.cpp's server, started by hand with `-np` slots and a context of 2,048 for each.

    It keeps its cache from run to run: start it anew for each number of sessions.
    """

    def __init__(self, url: str) -> None:
        self.host, _, port = url.removeprefix("http://").rstrip("/").partition(":")
        self.port = int(port or 80)

    async def __aenter__(self) -> Stream:
        return self.stream

    async def __aexit__(self, *_: object) -> None:
        pass

    async def stream(self, turn: Turn) -> AsyncGenerator[list[int], None]:
        body = json.dumps(
            {
                "prompt": turn.prompt,
                "n_predict": turn.answer_tokens,
                "temperature": 0,
                "ignore_eos": True,
                "cache_prompt": True,
                "return_tokens": True,
                "stream": True,
            }
        ).encode()
        reader, writer = await asyncio.open_connection(self.host, self.port)
        head = f"POST /completion HTTP/1.1\r\nHost: {self.host}\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        try:
            async for line in reader:
                if line.startswith(b"data: {"):
                    yield list(json.loads(line[6:]).get("tokens", ()))
        finally:
            writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path, nargs="?", help="of edgellm; a server has its own")
    parser.add_argument("--url", help="of llama.cpp's server, http://host:port")
    parser.add_argument("--sessions", default="1,2,4,8", help="at once, several with commas")
    parser.add_argument("--limit", type=int, help="only so many requests of the trace")
    parser.add_argument("--write-trace", action="store_true", help="make the trace again and end")
    args = parser.parse_args()
    if args.write_trace:
        lines = ",\n".join(json.dumps(turn) for turn in make_trace())
        TRACE.write_text(f"[\n{lines}\n]\n")
        return
    if (args.model is None) == (args.url is None):
        parser.error("give a model, or --url")
    sessions = [int(number) for number in args.sessions.split(",")]
    make = (lambda n: LlamaServer(args.url)) if args.url else (lambda n: Edgellm(args.model, n))
    asyncio.run(measure(make, sessions, args.limit))


if __name__ == "__main__":
    main()

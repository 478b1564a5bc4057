"""Many clients at once, some of them rude: whether a server loses, mixes or hangs anything.

python benchmarks/server_load.py MODEL --clients 64 --seconds 60

Starts `edgellm serve`, asks each prompt once alone for the text it must always give, and then lets
the clients ask at random, whole or streaming, leave answers early, send prompts that are too long,
bodies that are no JSON, and connections that end in the middle of a request. Prints what happened,
the memory before and after, and the processor time of the second after the end.
"""

import argparse
import asyncio
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from edgellm.client.http import Address, exchange, parse_address
from edgellm.errors import ConnectionFailed

PROMPTS = tuple(f"Tell me about the number {i}, and then of {i * 7}." for i in range(8))
ROUTE = "/v1/chat/completions"
TRY_AGAIN = (429, 503)


@dataclass
class Outcome:
    """What the clients met. wrong: what a server must not do, in words."""

    counts: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Traffic:
    """expected: the only right answer to each prompt. max_tokens: of an answer."""

    address: Address
    expected: dict[str, str]
    max_tokens: int
    outcome: Outcome


def body_of(prompt: str, max_tokens: int, stream: bool) -> bytes:
    asked = {
        "messages": [{"role": "user", "content": prompt}],
        "seed": 7,
        "temperature": 0.7,
        "max_tokens": max_tokens,
        "stream": stream,
    }
    return json.dumps(asked).encode()


async def ask_whole(address: Address, prompt: str, max_tokens: int) -> tuple[int, str]:
    """Status and text of an answer that comes in one piece."""
    body = body_of(prompt, max_tokens, stream=False)
    async with exchange(address, "POST", ROUTE, body) as response:
        answer = json.loads(await response.body())
    if response.status != 200:
        return response.status, ""
    return 200, answer["choices"][0]["message"]["content"]


async def ask_stream(
    address: Address, prompt: str, max_tokens: int, leave_after: int | None = None
) -> tuple[int, str]:
    """The same piece by piece; leave_after: chunks after which the client hangs up."""
    text, chunks = "", 0
    body = body_of(prompt, max_tokens, stream=True)
    async with exchange(address, "POST", ROUTE, body) as response:
        if response.status != 200:
            return response.status, ""
        async for lines in response.lines():
            for line in lines:
                if not line.startswith(b"data: {"):
                    continue
                chunk = json.loads(line.removeprefix(b"data: "))
                text += chunk["choices"][0]["delta"].get("content") or ""
                chunks += 1
                if chunks == leave_after:
                    return 200, text
    return 200, text


async def polite(traffic: Traffic, rng: random.Random) -> str:
    """Asks and checks every letter."""
    prompt = rng.choice(list(traffic.expected))
    ask = rng.choice([ask_whole, ask_stream])
    status, text = await ask(traffic.address, prompt, traffic.max_tokens)
    if status in TRY_AGAIN:
        return "told to try again"
    if status != 200 or text != traffic.expected[prompt]:
        traffic.outcome.wrong.append(f"{prompt!r}: status {status}, {text!r}")
    return "whole answers"


async def leaving(traffic: Traffic, rng: random.Random) -> str:
    """Hangs up in the middle; what came so far must be the beginning."""
    prompt = rng.choice(list(traffic.expected))
    status, text = await ask_stream(
        traffic.address, prompt, traffic.max_tokens, leave_after=rng.randint(1, 8)
    )
    if status in TRY_AGAIN:
        return "told to try again"
    if status != 200 or not traffic.expected[prompt].startswith(text):
        traffic.outcome.wrong.append(f"{prompt!r}, left: status {status}, {text!r}")
    return "answers left"


async def oversize(traffic: Traffic, rng: random.Random) -> str:
    status, _ = await ask_whole(traffic.address, "too long " * 30_000, traffic.max_tokens)
    if status not in (400, *TRY_AGAIN):
        traffic.outcome.wrong.append(f"an oversize prompt: status {status}")
    return "oversize prompts"


async def nonsense(traffic: Traffic, rng: random.Random) -> str:
    body = rng.choice([b"{", b"[1]", b"\xff\xfe", b'{"messages": 3}'])
    async with exchange(traffic.address, "POST", ROUTE, body) as response:
        await response.body()
        if response.status != 400:
            traffic.outcome.wrong.append(f"{body!r}: status {response.status}")
    return "bodies without sense"


async def half(traffic: Traffic, rng: random.Random) -> str:
    """Ends in the middle of a request."""
    path = traffic.address.path
    if path is not None:
        _, writer = await asyncio.open_unix_connection(path)
    else:
        _, writer = await asyncio.open_connection(traffic.address.host, traffic.address.port)
    writer.write(f"POST {ROUTE} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 90\r\n".encode())
    if rng.random() < 0.5:
        writer.write(b'\r\n{"messages"')
    writer.close()
    return "requests cut short"


MANNERS = (polite, polite, polite, leaving, leaving, oversize, nonsense, half)


async def client(traffic: Traffic, seed: int, until: float) -> None:
    """One client, asking until it is time to stop."""
    rng = random.Random(seed)
    while time.monotonic() < until:
        manner = rng.choice(MANNERS)
        try:
            what = await asyncio.wait_for(manner(traffic, rng), 120)
        except TimeoutError:
            traffic.outcome.wrong.append(f"{manner.__name__}: no end in two minutes")
            return
        except ConnectionFailed as error:
            traffic.outcome.wrong.append(f"{manner.__name__}: {error}")
            return
        traffic.outcome.counts[what] += 1
        await asyncio.sleep(rng.random() * 0.02)


async def run_traffic(address: Address, clients: int, seconds: float, max_tokens: int) -> Outcome:
    """What `clients` meet in so many seconds."""
    expected = {}
    for prompt in PROMPTS:
        _, expected[prompt] = await ask_whole(address, prompt, max_tokens)
    traffic = Traffic(address, expected, max_tokens, Outcome())
    until = time.monotonic() + seconds
    await asyncio.gather(*(client(traffic, seed, until) for seed in range(clients)))
    return traffic.outcome


async def wait_for_health(address: Address) -> None:
    while True:
        try:
            async with exchange(address, "GET", "/health") as response:
                if response.status == 200:
                    return
        except ConnectionFailed:
            pass
        await asyncio.sleep(0.1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--max-requests", type=int, default=32, help="the server's own limit")
    parser.add_argument("--threads", help="the server's; fewer on a machine with other work")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        where = Path(folder) / "load.sock"
        command = [sys.executable, "-m", "edgellm", "serve", args.model, "--socket", str(where)]
        command += ["--max-requests", str(args.max_requests)]
        command += ["--threads", args.threads] if args.threads else []
        server = subprocess.Popen(command)
        try:
            return _report(args, psutil.Process(server.pid), parse_address(str(where)))
        finally:
            server.terminate()
            server.wait()


def _report(args: argparse.Namespace, process: psutil.Process, address: Address) -> int:
    asyncio.run(wait_for_health(address))
    # The cache and all buffers grow to their size first.
    asyncio.run(run_traffic(address, args.clients, args.seconds / 4, args.max_tokens))
    before = process.memory_info().rss
    outcome = asyncio.run(run_traffic(address, args.clients, args.seconds, args.max_tokens))
    time.sleep(1)
    after = process.memory_info().rss
    idle = process.cpu_percent(interval=1)
    for what, count in outcome.counts.most_common():
        print(f"{count:8} {what}")
    print(f"memory {before / 2**20:.0f} MiB before, {after / 2**20:.0f} MiB after")
    print(f"processor {idle:.1f} % in the second second after the end")
    for text in outcome.wrong[:20]:
        print(f"WRONG: {text}")
    return 1 if outcome.wrong else 0


if __name__ == "__main__":
    sys.exit(main())

"""How much of the engine's rate reaches clients: several streams of a server, beside no server.

    python benchmarks/server_streams.py smollm2 --streams 8 --tokens 128 --turns 5

Starts `edgellm serve` and loads the same model here. In turns the engine here answers so many
conversations at once, whose events are counted and no more, and the server streams the same
answers to as many connections of one process, which counts pieces. Prints pieces of text per
second of both, from when all answers have begun to the end of the last: medians of all turns, and
of the turns' ratios. Then what processor time a piece costs the server's event loop and the client.
"""

import argparse
import asyncio
import json
import selectors
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import psutil

from benchmarks.server_load import wait_for_health
from edgellm.client import LocalClient
from edgellm.client.http import parse_address
from edgellm.manager import Manager
from edgellm.types import LoadOptions, Request, SamplingParams, TokenEvent

TOPICS = ("bread", "rivers", "glass", "maps", "clocks", "bees", "bridges", "tea")
PIECE = b'"delta":{"content":"'
END = b"data: [DONE]\n\n"
READ_SIZE = 1 << 16  # bytes


def messages(count: int) -> list[list[dict[str, str]]]:
    asked = [TOPICS[i % len(TOPICS)] for i in range(count)]
    return [[{"role": "user", "content": f"{i}. Tell me about {a}."}] for i, a in enumerate(asked)]


def bodies(count: int, tokens: int) -> list[bytes]:
    asked = {"stream": True, "temperature": 0, "max_tokens": tokens, "ignore_eos": True}
    return [json.dumps({**asked, "messages": each}).encode() for each in messages(count)]


@dataclass
class Count:
    """Pieces of so many answers as they come; the rate is that of those after all have begun."""

    waiting: int
    pieces: int = 0
    begun: float = 0.0
    before: int = 0

    def add(self, pieces: int, is_first: bool) -> None:
        self.pieces += pieces
        self.waiting -= is_first
        if is_first and not self.waiting:
            self.begun, self.before = time.perf_counter(), self.pieces

    def rate(self) -> float:
        """Pieces per second until now."""
        return (self.pieces - self.before) / (time.perf_counter() - self.begun)


def read_streams(path: str, asked: list[bytes]) -> Count:
    """Reads all streams to their ends."""
    selector, ends, count = selectors.DefaultSelector(), {}, Count(len(asked))
    for body in asked:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        head = f"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        selector.register(connection, selectors.EVENT_READ)
    while selector.get_map():
        for key, _ in selector.select():
            connection = key.fileobj
            data = connection.recv(READ_SIZE)
            if not data:
                assert ends[connection] == END, "a stream was cut"
                selector.unregister(connection)
                connection.close()
                continue
            if pieces := data.count(PIECE):
                count.add(pieces, connection not in ends)
                ends[connection] = b""
            if connection in ends:
                ends[connection] = (ends[connection] + data)[-len(END) :]
    return count


def reader(path: str, count: int, tokens: int) -> None:
    """A process of its own: reads all streams once for each line of standard input."""
    asked = bodies(count, tokens)
    for _ in sys.stdin:
        read = read_streams(path, asked)
        print(read.rate(), read.pieces, flush=True)


def main_thread(process: int) -> float:
    """Seconds of processor time so far of the thread that runs a program's event loop."""
    threads = {thread.id: thread for thread in psutil.Process(process).threads()}
    return threads[process].user_time + threads[process].system_time


def run_engine(manager: Manager, requests: list[Request]) -> float:
    """Pieces per second of the engine when it answers all."""
    over, left = threading.Event(), set(range(len(requests)))
    count, begun = Count(len(requests)), set[int]()

    def emit(number: int, event: TokenEvent | Exception) -> None:
        assert isinstance(event, TokenEvent), event
        if event.text:
            count.add(1, number not in begun)
            begun.add(number)
        if event.finish_reason is not None:
            left.remove(number)
            if not left:
                over.set()

    for number, request in enumerate(requests):
        manager.submit(request, partial(emit, number))
    over.wait()
    return count.rate()


async def prompts(manager: Manager, count: int) -> list[tuple[int, ...]]:
    client = LocalClient(manager)
    return [await client.chat_ids(each) for each in messages(count)]


def measure(args: argparse.Namespace, path: str, manager: Manager, server: int) -> None:
    params = SamplingParams(temperature=0, max_tokens=args.tokens, ignore_eos=True)
    ids = asyncio.run(prompts(manager, args.streams))
    requests = [Request(each, params) for each in ids]
    command = [sys.executable, "-m", "benchmarks.server_streams", args.model]
    command += ["--read", path, "--streams", str(args.streams), "--tokens", str(args.tokens)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    ) as client:
        assert client.stdin is not None and client.stdout is not None
        engine, streams, pieces = [], [], 0.0
        for turn in range(args.turns + 1):
            alone = run_engine(manager, requests)
            client.stdin.write("\n")
            served, count = map(float, client.stdout.readline().split())
            if turn == 0:  # which computes the prompts
                loop, reading = main_thread(server), main_thread(client.pid)
                continue
            engine.append(alone)
            streams.append(served)
            pieces += count
            print(f"engine {alone:7.1f}  {args.streams} streams {served:7.1f} a second", flush=True)
        loop, reading = main_thread(server) - loop, main_thread(client.pid) - reading
        client.stdin.close()
    ratios = [served / alone for served, alone in zip(streams, engine, strict=True)]
    print(
        f"engine {statistics.median(engine):.1f}, {args.streams} streams "
        f"{statistics.median(streams):.1f} a second; ratio {statistics.median(ratios):.3f}"
    )
    loop_us, client_us = 1e6 * loop / pieces, 1e6 * reading / pieces
    print(f"a piece costs the loop {loop_us:.0f} us and the client {client_us:.0f} us")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("--streams", type=int, default=8)
    parser.add_argument("--tokens", type=int, default=128)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--read", metavar="SOCKET", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.read:
        reader(args.read, args.streams, args.tokens)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "streams.sock")
        command = [sys.executable, "-m", "edgellm", "serve", args.model, "--socket", path]
        server = subprocess.Popen([*command, "--parallel", str(args.streams)])
        manager = Manager()
        try:
            manager.load(args.model, LoadOptions(max_num_seqs=args.streams))
            asyncio.run(wait_for_health(parse_address(path)))
            measure(args, path, manager, server.pid)
        finally:
            manager.close()
            server.terminate()
            server.wait()


if __name__ == "__main__":
    main()
